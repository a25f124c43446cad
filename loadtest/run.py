"""All benchmarks, or those that are named, each in a process of its own; one line of JSON each."""

from __future__ import annotations

import argparse
import subprocess
import sys
from typing import Final

BENCHES: Final = (
    "drain", "latency", "idle", "same_second", "same_second_10k", "sleepers", "claim_cost",
    "shell_rate", "shell_many", "output_flood",
)  # fmt: skip
DATABASES: Final = ("sqlite", "postgres")
#: Names that stand for a module with other sizes.
_VARIANTS: Final = {"same_second_10k": ("same_second", "--schedules", "10000")}


def run(bench: str, database: str) -> bool:
    """Runs one; False if it broke."""
    module, *options = _VARIANTS.get(bench, (bench,))
    command = [sys.executable, "-m", f"loadtest.{module}", "--database", database, *options]
    return subprocess.run(command, check=False).returncode == 0


def main() -> None:
    """Runs what is asked for; a bar that is missed is no error, a benchmark that breaks is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("benches", nargs="*", metavar="bench", help=f"of {', '.join(BENCHES)}; default: all")
    parser.add_argument("--database", choices=DATABASES, action="append", help="default: both, one after the other")
    given = parser.parse_args()
    unknown = set(given.benches) - set(BENCHES)
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}")
    done = [run(bench, kind) for bench in given.benches or BENCHES for kind in given.database or DATABASES]
    sys.exit(0 if all(done) else 1)


if __name__ == "__main__":
    main()
