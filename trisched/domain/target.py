"""Where HTTP jobs may go: public addresses, and what the node's operator allows beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

import attrs

from trisched.domain.text import parse_texts
from trisched.errors import Invalid

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_FORMS: Final = "write an address, a network such as 10.0.0.0/8, a host name or *.corp.example, with :PORT if need be"
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
#: IPv6 addresses that carry an IPv4 one, which is where the packets end up.
_NAT64: Final = IPv6Network("64:ff9b::/96")
_SHARED: Final = IPv4Network("100.64.0.0/10")
_THIS_NETWORK: Final = IPv4Network("0.0.0.0/8")


@attrs.frozen
class Allowed:
    """One entry: a network or a name (``*.`` in front: every name below it), at one port or at all."""

    network: Network | None
    name: str
    port: int | None


@attrs.frozen
class Targets:
    """Everything that is allowed beside public addresses."""

    entries: tuple[Allowed, ...] = ()

    def trusts(self, host: str, port: int) -> bool:
        """Whether the name itself is allowed, wherever it leads."""
        name = host.lower().rstrip(".")
        return any(entry.network is None and _at(entry, port) and _covers(entry.name, name) for entry in self.entries)

    def refusal(self, address: Address, port: int) -> str | None:
        """What kind of address it is that jobs may not reach; None when they may."""
        faces = list(_faces(address))
        kind = next((kind for face in faces if (kind := kind_of(face))), None)
        if kind is None or any(
            entry.network is not None and _at(entry, port) and any(_within(face, entry.network) for face in faces)
            for entry in self.entries
        ):
            return None
        return kind


def _at(entry: Allowed, port: int) -> bool:
    return entry.port is None or entry.port == port


def _covers(pattern: str, name: str) -> bool:
    return name.endswith(pattern[1:]) if pattern.startswith("*.") else name == pattern


def _within(address: Address, network: Network) -> bool:
    return address.version == network.version and address in network


def _faces(address: Address) -> Iterator[Address]:
    """The address, and the IPv4 one inside an IPv6 one."""
    yield address
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and (address in _NAT64 or int(address) >> 32 == 0):
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            yield inner


def kind_of(address: Address) -> str | None:
    """The word for an address that is not public; None for one that is."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return kind_of(address.ipv4_mapped)
    kinds = (
        (address.is_unspecified or (isinstance(address, IPv4Address) and address in _THIS_NETWORK), "unspecified"),
        (address.is_loopback, "loopback"),
        (address.is_link_local, "link-local"),
        (address.is_multicast, "multicast"),
        (isinstance(address, IPv6Address) and address.is_site_local, "private"),
        (isinstance(address, IPv4Address) and address in _SHARED, "private"),
        (isinstance(address, IPv6Address) and address in _NAT64, None),
        (address.is_reserved, "reserved"),
        (not address.is_global, "private"),
    )
    return next((kind for is_so, kind in kinds if is_so), None)


def parse_targets(value: object, place: str) -> Targets:
    """The entries of ``[http] allow``."""
    return Targets(tuple(_entry(text.strip().lower(), place) for text in parse_texts(value, place, most=1000)))


def _entry(text: str, place: str) -> Allowed:
    network = _network(text.removeprefix("[").removesuffix("]"), place)
    if network is not None:
        return Allowed(network, "", None)
    host, port = _split_port(text, place)
    network = _network(host.removeprefix("[").removesuffix("]"), place)
    if network is not None:
        return Allowed(network, "", port)
    return Allowed(None, _name(host, text, place), port)


def _network(text: str, place: str) -> Network | None:
    try:
        return ip_network(text)
    except ValueError as error:
        if "host bits" in str(error):
            fitting = ip_network(text, strict=False)
            raise Invalid.at(place, f"{text} has bits behind its prefix; write {fitting}") from None
        return None


def _split_port(text: str, place: str) -> tuple[str, int | None]:
    host, colon, port = text.rpartition(":")
    if not colon:
        return text, None
    if not port.isdecimal() or not port.isascii() or len(port) > 5 or not 0 < int(port) < 65_536:
        raise Invalid.at(place, f"{text!r} has no port behind its colon; {_FORMS}")
    return host, int(port)


def _name(host: str, text: str, place: str) -> str:
    bare = host.rstrip(".")
    try:
        name = bare if bare.isascii() else bare.encode("idna").decode()
    except UnicodeError:
        name = ""
    labels = name.removeprefix("*.").split(".")
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels) or labels[-1].isdecimal():
        raise Invalid.at(place, f"{text!r} is no target; {_FORMS}")
    return name


def parse_address(text: str) -> Address:
    """An address as the resolver writes it, with or without the zone of a link."""
    return ip_address(text.partition("%")[0])
