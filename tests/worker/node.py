"""A program that stands for a node: guards one command and waits to be killed by a test.

Arguments: how many seconds each renewal grants (0: no deadline), and whether a forked copy of the node stays
behind with every descriptor open. Prints the command's group, and the copy's process id.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Never

import trio

from trisched.worker.guardian import Guardian


def stay_behind() -> Never:
    """What the forked copy does: nothing of Trio, which a fork leaves broken."""
    time.sleep(300)
    os._exit(0)


async def main(grant: float, *, fork: bool) -> None:
    async with Guardian.open() as guardian:
        command = await trio.lowlevel.open_process(
            ["/bin/sh", "-c", "sleep 300 & sleep 300"], stdout=subprocess.DEVNULL, start_new_session=True
        )
        if grant:
            guardian.renew(time.clock_gettime(time.CLOCK_BOOTTIME) + grant)
        guardian.watch(command.pid)
        copy = os.fork() if fork else -1
        if copy == 0:
            stay_behind()
        sys.stdout.write(f"{command.pid} {copy}\n")
        sys.stdout.flush()
        while True:
            await trio.sleep(0.05)
            if grant:
                guardian.renew(time.clock_gettime(time.CLOCK_BOOTTIME) + grant)


if __name__ == "__main__":
    trio.run(lambda: main(float(sys.argv[1]), fork=sys.argv[2] == "fork"))
