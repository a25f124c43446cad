"""Finds the App that ``trisched run`` was told to run, and says in one line why it cannot."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from functools import reduce
from pathlib import Path
from types import ModuleType

from trisched.app import App
from trisched.errors import Misconfigured, TrischedError

_PACKAGE = Path(__file__).parent.parent
_HOW = "write module:app or path/to/file.py:app"


def load_app(target: str) -> App:
    """The App of ``module:app`` or ``path/to/file.py:app``; ``:app`` may be left out."""
    place, _, name = target.partition(":")
    name = name or "app"
    module = _import(place)
    try:
        found = reduce(getattr, name.split("."), module)
    except AttributeError:
        raise Misconfigured(f"{target}: {place} has no {name}{_apps_in(module, place)}") from None
    if not isinstance(found, App):
        raise Misconfigured(f"{target}: {name} is of type {type(found).__name__}, not trisched.App")
    return found


def _apps_in(module: object, place: str) -> str:
    names = [name for name, value in vars(module).items() if isinstance(value, App)]
    return f"; did you mean {place}:{names[0]}?" if names else f"; {_HOW}"


def _import(place: str) -> ModuleType:
    # The console script has its own directory on the path, where a user expects the current one.
    sys.path.insert(0, str(Path.cwd()))
    is_file = place.endswith(".py")
    if is_file and not Path(place).is_file():
        raise Misconfigured(f"{place}: no such file")
    if not is_file and not all(part.isidentifier() for part in place.split(".")):
        raise Misconfigured(f"{place!r} is not the name of a module; {_HOW}")
    try:
        return _import_file(Path(place)) if is_file else importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name and (place == error.name or place.startswith(f"{error.name}.")):
            raise Misconfigured(f"{place}: no such module, looking from {Path.cwd()}; {_HOW}") from None
        raise _blame(place, error) from error
    except Exception as error:
        raise _blame(place, error) from error


def _import_file(path: Path) -> ModuleType:
    # Its neighbours are what the file expects to import.
    sys.path.insert(0, str(path.parent.resolve()))
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Registered before it runs: functions of the module are found again by their names.
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _blame(place: str, error: Exception) -> Misconfigured:
    """``demo.py:12: NameError: …``: the last line of the user's own code on the way to the error."""
    kind = "" if isinstance(error, TrischedError) else f"{type(error).__name__}: "
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    return Misconfigured(f"{_line_of(error) or place}: {kind}{message}")


def _line_of(error: Exception) -> str | None:
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_short(error.filename)}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not _is_machinery(frame.filename)]
    return f"{_short(own[-1].filename)}:{own[-1].lineno}" if own else None


def _is_machinery(filename: str) -> bool:
    return filename.startswith("<") or Path(filename).is_relative_to(_PACKAGE) or "importlib" in Path(filename).parts


def _short(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename
