"""``trisched submit``: makes one run or many, and waits for one if asked to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import batched
from typing import Any, Final, TextIO

import click

from trisched.cli.connection import Connection, node_options
from trisched.cli.parameters import parse_lines, parse_pairs
from trisched.cli.progress import bar, spinner
from trisched.cli.render import Output, output_option, print_json
from trisched.cli.runs import print_run
from trisched.client import Client, JsonObject
from trisched.domain.run import Priority
from trisched.errors import RunFailed, TrischedError

#: Runs in one request: one transaction, and far below the limit of a request's size.
_BATCH: Final = 1000
