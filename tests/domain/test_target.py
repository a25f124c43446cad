"""Targets: only public addresses, whatever they are dressed up as, unless the operator allows others."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trisched.domain.target import Targets, kind_of, parse_address, parse_targets
from trisched.errors import Invalid

NOTHING = Targets()


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.0.1", "loopback"),
        ("127.255.1.2", "loopback"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("64:ff9b::7f00:1", "loopback"),
        ("2002:7f00:1::", "loopback"),
        ("0.0.0.0", "unspecified"),
        ("0.1.2.3", "unspecified"),
        ("::", "unspecified"),
        ("::ffff:0.0.0.0", "unspecified"),
        ("169.254.169.254", "link-local"),
        ("::ffff:169.254.169.254", "link-local"),
        ("fe80::1", "link-local"),
        ("10.1.2.3", "private"),
        ("172.16.0.1", "private"),
        ("192.168.1.1", "private"),
        ("100.64.0.1", "private"),
        ("198.18.0.1", "private"),
        ("64:ff9b::a00:1", "private"),
        ("fc00::1", "private"),
        ("fd12:3456::1", "private"),
        ("fec0::1", "private"),
        ("2001:db8::1", "private"),
        ("::127.0.0.1", "reserved"),
        ("224.0.0.1", "multicast"),
        ("ff02::1", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "reserved"),
    ],
)
def test_an_address_that_is_not_public_is_refused(address: str, kind: str) -> None:
    assert NOTHING.refusal(parse_address(address), 80) == kind


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "172.32.0.1"]
)
def test_a_public_address_is_allowed(address: str) -> None:
    assert NOTHING.refusal(ip_address(address), 443) is None


@given(st.ip_addresses(v=4))
def test_no_clothing_makes_an_address_public(address: IPv4Address) -> None:
    number = int(address)
    for dressed in (IPv6Address((0xFFFF << 32) | number), IPv6Address((0x64FF9B << 96) | number)):
        assert (NOTHING.refusal(dressed, 80) is None) == (kind_of(address) is None)
    if kind_of(address) is not None:
        assert NOTHING.refusal(IPv6Address((0x2002 << 112) | (number << 80)), 80) is not None


ALLOWED = parse_targets(
    ["10.0.0.0/8", "127.0.0.1:9000", "[::1]:9000", "fd00::/8", "intranet.example:8080", "*.corp.example", "LOCALHOST"],
    "--http-allow",
)


@pytest.mark.parametrize(
    ("address", "port", "allowed"),
    [
        ("10.9.8.7", 1, True),
        ("::ffff:10.9.8.7", 1, True),
        ("11.0.0.1", 1, True),
        ("192.168.0.1", 80, False),
        ("127.0.0.1", 9000, True),
        ("127.0.0.1", 9001, False),
        ("127.0.0.2", 9000, False),
        ("::1", 9000, True),
        ("::1", 80, False),
        ("fd00::5", 80, True),
        ("fc00::5", 80, False),
    ],
)
def test_an_allowed_network_is_allowed_at_its_port(address: str, port: int, allowed: bool) -> None:
    assert (ALLOWED.refusal(ip_address(address), port) is None) == allowed


@pytest.mark.parametrize(
    ("host", "port", "trusted"),
    [
        ("intranet.example", 8080, True),
        ("Intranet.Example.", 8080, True),
        ("intranet.example", 80, False),
        ("a.b.corp.example", 443, True),
        ("corp.example", 443, False),
        ("evilcorp.example", 443, False),
        ("localhost", 1, True),
        ("localhost.", 1, True),
        ("10.0.0.1", 1, False),
    ],
)
def test_an_allowed_name_is_trusted_wherever_it_leads(host: str, port: int, trusted: bool) -> None:
    assert ALLOWED.trusts(host, port) == trusted


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("*", "is no target"),
        ("10.0.0.1/8", "has bits behind its prefix; write 10.0.0.0/8"),
        ("10.0.0.300", "is no target"),
        ("host:0", "has no port behind its colon"),
        ("host:http", "has no port behind its colon"),
        ("http://host", "has no port behind its colon"),
        ("a b", "is no target"),
        ("a..b", "is no target"),
        ("*.*.example", "is no target"),
    ],
)
def test_an_entry_that_is_none_is_refused(entry: str, reason: str) -> None:
    with pytest.raises(Invalid, match="--http-allow") as error:
        parse_targets([entry], "--http-allow")
    assert reason in str(error.value)


def test_a_name_in_another_script_is_the_name_on_the_wire() -> None:
    assert parse_targets(["bücher.example"], "x").trusts("xn--bcher-kva.example", 80)
