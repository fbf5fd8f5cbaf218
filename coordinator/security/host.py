"""Hosts as ACLs name them: an address as Java writes it, or a range of addresses in CIDR notation.

Source: Kafka's `CidrUtils`, and `SubnetUtils` and `SubnetUtils6` of Apache Commons Net, whose words these are.
"""

import re
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final, NamedTuple

_V4: Final = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})/(\d{1,2})", re.ASCII)
_PREFIX: Final = re.compile(r"[+-]?[0-9]{1,9}")
_V4_BITS: Final = 32
_V6_BITS: Final = 128
_REMEMBERED: Final = 4096


class HostRange(NamedTuple):
    """Addresses that begin alike."""

    bits: int
    """Of an address of this kind: 32 or 128."""
    network: int
    """The bits in which they are alike."""
    open_bits: int
    """How many follow those."""

    def has(self, address: str) -> bool:
        """Whether an address, as Java writes it, is one of them."""
        bits, number = _number(address)
        # 0.0.0.0 is nobody's address, and in no range of Kafka's.
        return (
            bits == self.bits and number >> self.open_bits == self.network and (bits, number) != (_V4_BITS, 0)
        )


def why_no_range(text: str) -> str | None:
    """Why a text that has a slash is no range, in Kafka's words; None: it is one."""
    try:
        _parse(text)
    except ValueError as error:
        return str(error)
    return None


def range_of(text: str) -> HostRange | None:
    """The range that a host of an ACL is, None for any other."""
    if "/" not in text:
        return None
    try:
        return _parse(text)
    except ValueError:
        return None  # of a broker that did not look at hosts yet; it fits nobody there either


@lru_cache(_REMEMBERED)
def as_java_writes(client_host: str) -> str:
    """The address of a client as ACLs name it: "127.0.0.1", "0:0:0:0:0:0:0:1". In: with or without Java's leading
    slash."""
    text = client_host.removeprefix("/")
    address, percent, scope = text.partition("%")
    try:
        groups = IPv6Address(address).exploded.split(":")
    except AddressValueError:
        return text
    return ":".join(f"{int(group, 16):x}" for group in groups) + percent + scope


def _parse(text: str) -> HostRange:
    return _parse_v6(text) if ":" in text else _parse_v4(text)


def _parse_v4(text: str) -> HostRange:
    match = _V4.fullmatch(text)
    if match is None:
        raise ValueError(f"Could not parse [{text}]")
    number = 0
    for octet in match.groups()[:4]:
        number = number << 8 | _within(int(octet), 255)
    open_bits = _V4_BITS - _within(int(match[5]), _V4_BITS)
    return HostRange(_V4_BITS, number >> open_bits, open_bits)


def _within(number: int, most: int) -> int:
    if number > most:
        raise ValueError(f"Value [{number}] not in range [0,{most}]")
    return number


def _parse_v6(text: str) -> HostRange:
    address, slash, prefix = text.partition("/")
    if not slash:
        raise ValueError(f"Could not parse [{text}] - missing prefix length")
    if not _PREFIX.fullmatch(prefix):
        raise ValueError(f"Could not parse [{text}] - invalid prefix length")
    length = int(prefix)
    if not 0 <= length <= _V6_BITS:
        raise ValueError(f"Could not parse [{text}] - prefix length must be between 0 and {_V6_BITS}")
    inner = address[1:-1] if address.startswith("[") and address.endswith("]") else address
    try:
        number = IPv6Address(inner.partition("%")[0])
    except AddressValueError:
        raise ValueError(f"Could not parse [{address}]") from None
    if number.ipv4_mapped is not None:
        raise ValueError(f"Could not parse [{address}] - not an IPv6 address")
    open_bits = _V6_BITS - length
    return HostRange(_V6_BITS, int(number) >> open_bits, open_bits)


@lru_cache(_REMEMBERED)
def _number(address: str) -> tuple[int, int]:
    """How many bits an address has, and which; no bits for what is none."""
    try:
        if ":" in address:
            return _V6_BITS, int(IPv6Address(address.partition("%")[0]))
        return _V4_BITS, int(IPv4Address(address))
    except AddressValueError:
        return 0, 0
