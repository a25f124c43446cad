"""The rules for each setting: what may be given, as a TOML value or as the text of a flag or variable."""

from __future__ import annotations

import difflib
import ipaddress
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import attrs

from trisched.domain.duration import parse_duration
from trisched.domain.target import parse_targets
from trisched.domain.text import parse_number, parse_text, parse_texts
from trisched.errors import Invalid

_YES: Final = ("true", "yes", "on", "1")
_NO: Final = ("false", "no", "off", "0")
_NOT_YET: Final = "is not available in this version; remove it"
_DATABASE_FORMS: Final = "write a path, sqlite:///path or postgresql://user@host/name"
_DAY: Final = 86_400.0


@attrs.frozen
class Field:
    """One setting."""

    #: Checks a value as TOML gives it, and says the place in its errors.
    parse: Callable[[Any, str], object]
    #: Turns the text of a flag or a variable into such a value, and leaves what it cannot turn to ``parse``.
    read: Callable[[str], object] = str


def _number_in(text: str) -> object:
    digits = text.strip()
    return int(digits) if digits.removeprefix("-").isdecimal() and len(digits) < 20 else text


def _flag_in(text: str) -> object:
    word = text.strip().lower()
    return True if word in _YES else False if word in _NO else text


def _list_in(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _flag(value: object, place: str) -> bool:
    if not isinstance(value, bool):
        raise Invalid.at(place, "must be true or false")
    return value


def _database(value: object, place: str) -> str:
    url = parse_text(value, place, most=4096)
    scheme, separator, rest = url.partition("://")
    if separator and scheme not in ("sqlite", "postgresql", "postgres"):
        raise Invalid.at(place, f"{scheme} is not a database that trisched knows; {_DATABASE_FORMS}")
    if scheme == "sqlite" and separator and (not rest.startswith("/") or rest == "/"):
        raise Invalid.at(place, "names no file; write sqlite:///trisched.db, or sqlite:////var/lib/trisched.db")
    if ":memory:" in url:
        raise Invalid.at(place, f"a database in memory would forget every run; {_DATABASE_FORMS}")
    return url


def _directory(value: object, place: str) -> Path:
    path = Path(parse_text(value, place, most=4096)).expanduser()
    if path.exists() and not path.is_dir():
        raise Invalid.at(place, f"{path} is not a directory")
    return path


def _host(value: object, place: str) -> str:
    host = parse_text(value, place, most=255).strip("[]")
    if not _is_loopback(host):
        raise Invalid.at(
            place,
            f"{host} is not a loopback address; serving other hosts needs tokens and TLS, which this version "
            "does not have yet; bind 127.0.0.1 and put a tunnel or a proxy that asks for a log-in before it",
        )
    return host


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _node_id(value: object, place: str) -> str:
    node_id = parse_text(value, place, most=100)
    if any(char.isspace() or char == "/" for char in node_id):
        raise Invalid.at(place, "must not contain blanks or slashes: it stands in addresses")
    return node_id


def _redis(value: object, place: str) -> tuple[str, ...]:
    urls = parse_texts(value, place)
    for url in urls:
        parts = urlsplit(url)
        if parts.scheme not in ("redis", "rediss", "unix") or not (parts.netloc or parts.path):
            raise Invalid.at(place, "must be addresses such as redis://127.0.0.1:6379/0")
    if urls:
        raise Invalid.at(place, f"Redis {_NOT_YET}")
    return urls


def _auth(value: object, place: str) -> str:
    if value != "auto":
        raise Invalid.at(place, "only auto is available in this version")
    return "auto"


def _not_yet(value: object, place: str) -> object:
    if value is False:
        return value
    raise Invalid.at(place, _NOT_YET)


def _number(least: int, most: int) -> Field:
    return Field(lambda value, place: parse_number(value, place, least=least, most=most), _number_in)


def _seconds(least: float, most: float) -> Field:
    return Field(lambda value, place: parse_duration(value, place, least=least, most=most))


_SWITCH = Field(_flag, _flag_in)
_LIST = Field(parse_texts, _list_in)
#: The duration in :class:`LeaseTimes` that each setting is.
LEASE_FIELDS: Final = {
    "node_lease": "node",
    "node_beat": "beat",
    "lease_margin": "margin",
    "lease_grace": "grace",
    "leader_lease": "leader",
    "leader_beat": "leader_beat",
}
FIELDS: Final[dict[str, Field]] = {
    "database": Field(_database),
    "data_dir": Field(_directory),
    "host": Field(_host),
    "port": _number(0, 65_535),
    "node_id": Field(_node_id),
    "tags": _LIST,
    "queues": _LIST,
    "concurrency": _number(1, 100_000),
    "scheduler": _SWITCH,
    "worker": _SWITCH,
    "web": _SWITCH,
    "drain_timeout": _seconds(0.0, _DAY),
    **dict.fromkeys(LEASE_FIELDS, _seconds(0.05, _DAY)),
    "http_allow": Field(parse_targets, _list_in),
    "secrets_dir": Field(_directory),
    "redis": Field(_redis, _list_in),
    "auth": Field(_auth),
    "token_file": Field(_not_yet),
    "tls_cert": Field(_not_yet),
    "tls_key": Field(_not_yet),
    "behind_proxy": Field(_not_yet, _flag_in),
    "read_only": Field(_not_yet, _flag_in),
}
#: What may stand in ``[worker]`` as well as in ``[node]``.
WORKER_FIELDS: Final = ("queues", "concurrency", "drain_timeout")
#: Tables of their own, whose keys are short for a setting.
SHORT_NAMES: Final = {"http": {"allow": "http_allow"}, "secrets": {"dir": "secrets_dir"}}


def unknown_field(name: str, table: str, names: tuple[str, ...]) -> str:
    """What to say about a key that no rule is for."""
    near = difflib.get_close_matches(name, names, n=1)
    if near:
        return f"is not a setting of [{table}]; did you mean {near[0]}?"
    if name in FIELDS:
        return f"is not a setting of [{table}]; move it to [node]"
    return f"is not a setting of [{table}]; there are {', '.join(names)}"
