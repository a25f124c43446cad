"""Job fields from outside to a JobSpec and back: every rule of the contract on a job's fields, in one place."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from trisched.domain.backoff import backoff_fields, parse_backoff
from trisched.domain.duration import parse_duration
from trisched.domain.job import DELIVERIES, JOB_TYPES, MISFIRES, MODES, OVERLAPS, JobSpec
from trisched.domain.request import parse_request, request_fields
from trisched.domain.run import Priority
from trisched.domain.schedule import parse_schedule, schedule_fields
from trisched.domain.template import SECRET_START, check_secrets
from trisched.domain.text import encode_json, parse_choice, parse_number, parse_text, parse_texts
from trisched.domain.zone import parse_zone
from trisched.errors import FieldError, Invalid

DAY: Final = 86_400.0
#: The kernel's limit for one argument of a command.
COMMAND_LIMIT: Final = 131_000
#: Fields of the contract that this version does not act on: refused, never silently ignored.
NOT_YET: Final = ("concurrency", "rate", "group", "unique")


def parse_priority(value: object, path: str) -> Priority:
    """One of the four classes; ``medium`` is another word for normal."""
    word = "normal" if value == "medium" else value
    return Priority(parse_choice(word, path, tuple(Priority)))


def parse_parameters(value: object, path: str = "parameters") -> str:
    """A JSON object, as the text that is stored."""
    if not isinstance(value, Mapping):
        raise Invalid.at(path, "must be a JSON object")
    return encode_json(value, path)


def _flag(value: object, path: str) -> bool:
    if not isinstance(value, bool):
        raise Invalid.at(path, "must be true or false")
    return value


def _command(value: object, path: str) -> str | tuple[str, ...]:
    if isinstance(value, str):
        return _word(value, path)
    if not isinstance(value, list | tuple) or not value:
        raise Invalid.at(path, "must be a string for /bin/sh, or a list of arguments to execute")
    return tuple(_word(item, f"{path}[{index}]", least=0 if index else 1) for index, item in enumerate(value))


def _word(value: object, path: str, least: int = 1) -> str:
    text = parse_text(value, path, least=least, most=COMMAND_LIMIT)
    if SECRET_START in text:
        raise Invalid.at(
            path,
            "everybody on the machine can read the arguments of a process; "
            'put the secret into env (TOKEN = "${secret:NAME}") and use $TOKEN',
        )
    return text


def _env(value: object, path: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise Invalid.at(path, "must be an object of strings")
    env = {}
    for name, text in value.items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise Invalid.at(f"{path}.{name}", "is not a name of an environment variable")
        if name.startswith("TRISCHED_"):
            raise Invalid.at(f"{path}.{name}", "names that begin with TRISCHED_ are set by trisched")
        env[name] = parse_text(text, f"{path}.{name}", least=0, most=COMMAND_LIMIT)
        check_secrets(env[name], f"{path}.{name}")
    return env


def _function(value: object, path: str) -> str:
    name = parse_text(value, path)
    if not all(part.isidentifier() for part in name.replace(":", ".").split(".")):
        raise Invalid.at(path, "must be a dotted name such as reports.generate_daily")
    return name


def _mode(value: object, path: str) -> str:
    mode = parse_choice(value, path, MODES)
    if mode == "process":
        raise Invalid.at(path, "process is not available in this version; use async or thread")
    return mode


def _delivery(value: object, path: str) -> str:
    delivery = parse_choice(value, path, DELIVERIES)
    if delivery == "transactional":
        raise Invalid.at(path, "transactional is not available in this version; use retry or hold")
    return delivery


_PARSERS: Final[dict[str, Callable[[Any, str], Any]]] = {
    "name": parse_text,
    "type": lambda value, path: parse_choice(value, path, JOB_TYPES),
    "function": _function,
    "command": _command,
    "cwd": lambda value, path: parse_text(value, path, most=4096),
    "env": _env,
    "request": parse_request,
    "timezone": parse_zone,
    "parameters": parse_parameters,
    "tags": parse_texts,
    "requires": parse_texts,
    "queue": lambda value, path: parse_text(value, path, most=100),
    "priority": parse_priority,
    "depends_on": lambda value, path: parse_texts(value, path, most=1000),
    "timeout": lambda value, path: parse_duration(value, path, least=0.001, most=30 * DAY),
    "kill_after": lambda value, path: parse_duration(value, path, least=0.0, most=DAY),
    "retries": lambda value, path: parse_number(value, path, least=0, most=1000),
    "backoff": parse_backoff,
    "misfire": lambda value, path: parse_choice(value, path, MISFIRES),
    "max_catch_up": lambda value, path: parse_number(value, path, least=1, most=10_000),
    "overlap": lambda value, path: parse_choice(value, path, OVERLAPS),
    "delivery": _delivery,
    "mode": _mode,
    "enabled": _flag,
    "description": lambda value, path: parse_text(value, path, least=0, most=10_000),
}
FIELD_NAMES: Final = (*_PARSERS, "schedule")
#: Null takes these back to their default.
_OPTIONAL: Final = frozenset({"function", "command", "cwd", "request", "mode", "schedule"})


def parse_job(fields: Mapping[str, object], *, now: int, stored: bool = False, path: str = "") -> JobSpec:
    """The specification that ``fields`` describe; every broken rule is reported at once.

    ``stored`` fields were checked when they were saved: a one-time schedule may be over by now.
    """
    prefix = f"{path}." if path else ""
    errors = [FieldError(prefix + str(name), _unknown(str(name))) for name in fields if name not in FIELD_NAMES]
    parsed: dict[str, Any] = {}
    for name, parser in _PARSERS.items():
        if name not in fields or (fields[name] is None and name in _OPTIONAL):
            continue
        try:
            parsed[name] = parser(fields[name], prefix + name)
        except Invalid as error:
            errors += error.errors
    errors += _missing(fields, parsed, prefix)
    schedule = fields.get("schedule")
    if schedule is not None:
        try:
            parsed["schedule"] = parse_schedule(
                schedule,
                path=prefix + "schedule",
                timezone=parsed.get("timezone", "UTC"),
                key=str(parsed.get("name", "")),
                now=now,
                allow_past=stored,
            )
        except Invalid as error:
            errors += error.errors
    if schedule is not None and parsed.get("depends_on"):
        errors.append(
            FieldError(prefix + "schedule", "a job with depends_on has none of its own: the flow of its root drives it")
        )
    if errors:
        raise Invalid(errors)
    return JobSpec(**parsed)


def _unknown(name: str) -> str:
    if name in NOT_YET:
        return "is not available in this version; remove it"
    near = difflib.get_close_matches(name, FIELD_NAMES, n=1)
    return "is not a field of a job" + (f"; did you mean {near[0]}?" if near else "")


_TARGETS: Final = {"python": "function", "shell": "command", "http": "request"}
_ONLY_FOR: Final = {
    "function": "python",
    "mode": "python",
    "command": "shell",
    "cwd": "shell",
    "env": "shell",
    "request": "http",
}


def _missing(fields: Mapping[str, object], parsed: Mapping[str, object], prefix: str) -> list[FieldError]:
    """Fields that are needed, and fields that belong to another type."""
    errors = [FieldError(prefix + name, "is required") for name in ("name", "type") if name not in fields]
    kind = parsed.get("type")
    target = _TARGETS.get(str(kind))
    if target is not None and fields.get(target) is None:
        errors.append(FieldError(prefix + target, f"is required for a job of type {kind}"))
    errors += [
        FieldError(prefix + name, f"belongs to jobs of type {owner}, this one is {kind}")
        for name, owner in _ONLY_FOR.items()
        if kind in JOB_TYPES and kind != owner and fields.get(name) not in (None, {})
    ]
    return errors


def job_fields(spec: JobSpec) -> dict[str, object]:
    """The fields of ``spec`` as JSON values; ``parse_job`` gives the same specification back."""
    fields: dict[str, object] = {name: getattr(spec, name) for name in _PARSERS if getattr(spec, name) is not None}
    fields["parameters"] = msgspec.json.decode(spec.parameters)
    fields["backoff"] = backoff_fields(spec.backoff)
    fields["priority"] = spec.priority.value
    for name in ("tags", "requires", "depends_on"):
        fields[name] = list(getattr(spec, name))
    if isinstance(spec.command, tuple):
        fields["command"] = list(spec.command)
    fields["env"] = dict(spec.env)
    if spec.request is not None:
        fields["request"] = request_fields(spec.request)
    fields["schedule"] = None if spec.schedule is None else schedule_fields(spec.schedule)
    return fields
