"""A program without Trio that runs a node in a thread: ``python examples/sync_program.py``."""

from __future__ import annotations

import trisched

app = trisched.App()


@app.job(mode="thread")
def add(left: int, right: int) -> int:
    """A plain function is a job as well."""
    return left + right


def main() -> None:
    """Every call of ``app.sync`` blocks until the node has answered."""
    with app.start_in_thread():
        run = app.sync.submit("add", {"left": 2, "right": 3})
        print(app.sync.wait(run, timeout="10s"))


if __name__ == "__main__":
    main()
