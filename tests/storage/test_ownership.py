"""One node per SQLite file, for exactly as long as its process lives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trisched.errors import Misconfigured, NodeAlreadyRunning
from trisched.storage.ownership import Ownership

OWNER = """
import sys
from trisched.storage.ownership import Ownership
Ownership(sys.argv[1]).take()
print("taken", flush=True)
sys.stdin.read()
"""


def _owner(database: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "taken\n"
    return process


def test_a_second_process_is_refused_with_the_pid_of_the_first(sqlite_path: Path) -> None:
    with _owner(sqlite_path) as owner:
        with pytest.raises(NodeAlreadyRunning) as caught:
            Ownership(str(sqlite_path)).take()
        assert (caught.value.pid, caught.value.path) == (str(owner.pid), str(sqlite_path))
        assert str(owner.pid) in str(caught.value)
        owner.communicate("")


def test_the_kernel_frees_the_lock_of_a_process_that_was_killed(sqlite_path: Path) -> None:
    with _owner(sqlite_path) as owner:
        owner.kill()
    ownership = Ownership(str(sqlite_path))
    ownership.take()
    ownership.give_up()


def test_a_second_owner_in_the_same_process_is_refused_too(sqlite_path: Path) -> None:
    first, second = Ownership(str(sqlite_path)), Ownership(str(sqlite_path))
    first.take()
    with pytest.raises(NodeAlreadyRunning, match=str(os.getpid())):
        second.take()
    first.give_up()
    second.take()
    second.give_up()
    second.give_up()


def test_another_file_has_another_owner(tmp_path: Path) -> None:
    first, second = Ownership(str(tmp_path / "a.db")), Ownership(str(tmp_path / "sub" / "b.db"))
    first.take()
    second.take()
    first.give_up()
    second.give_up()


def test_the_pid_of_a_former_owner_is_not_taken_for_that_of_the_present_one(sqlite_path: Path) -> None:
    Path(f"{sqlite_path}.lock").write_text("99999999999")
    first = Ownership(str(sqlite_path))
    first.take()
    assert Path(f"{sqlite_path}.lock").read_text() == str(os.getpid())
    first.give_up()


def test_a_child_does_not_inherit_the_lock(sqlite_path: Path) -> None:
    first = Ownership(str(sqlite_path))
    first.take()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False) as child:
        first.give_up()
        second = Ownership(str(sqlite_path))
        second.take()
        second.give_up()
        child.communicate(b"")


def test_a_place_where_no_lock_can_be_is_refused_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Misconfigured, match="file"):
        Ownership(str(tmp_path / "file" / "x.db")).take()
