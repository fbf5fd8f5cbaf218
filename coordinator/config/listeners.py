"""Listeners and advertised addresses. Source: Kafka's `SocketServerConfigs`.

A listener has a name. Metadata and FindCoordinator on its connections return the advertised address of that name. A
listener on every interface without an advertised host returns the address that the client connected to.
"""

import re
import socket
from collections.abc import Iterable
from typing import Final, NamedTuple

from msgspec import Struct

from coordinator.config.config_errors import ConfigError, StartNotice
from coordinator.config.properties import Config
from coordinator.core.shared_types import SecurityProtocol

DEFAULT_NAME: Final = "PLAINTEXT"
HTTP_OFF: Final = "off"
MAX_PORT: Final = 65_535
_ANONYMOUS: Final = "User:ANONYMOUS"
_IPV6_LOOPBACK: Final = bytes(15) + b"\1"
_PROTOCOLS: Final = frozenset(SecurityProtocol)
_PORT: Final = re.compile(r"[0-9]{1,5}")
_HOST: Final = re.compile(r"[0-9a-zA-Z%._:-]*")


class Address(NamedTuple):
    """A host (a name, an IPv4 or IPv6 address, "" for every interface) and a port (0: any free one)."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def with_bound_port(self, port: int) -> "Address":
        """Return the address with the bound port and with 0.0.0.0 in place of an empty host."""
        return Address(self.host or "0.0.0.0", port)

    @property
    def is_wildcard(self) -> bool:
        """Whether the host means every interface: "", 0.0.0.0, or :: in any form."""
        packed = pack_address(self.host)
        return not self.host or (bool(packed) and not any(packed))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Return whether a name or an address always means this machine: localhost and names below it, 127.0.0.0/8,
    ::1.
    """
    host = host.lower().removesuffix(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    packed = pack_address(host)
    return packed == _IPV6_LOOPBACK or (len(packed) == 4 and packed[0] == 127)


def pack_address(host: str) -> bytes:
    """Return the 4 or 16 bytes of an IPv4 or IPv6 address; empty for any other text."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            return socket.inet_pton(family, host)
        except (OSError, ValueError):
            continue
    return b""


class Listener(Struct, frozen=True):
    """One listener. `advertised` is None if clients get the listener's own address, or, if that is a wildcard, the
    address to which they connected."""

    name: str
    address: Address
    advertised: Address | None
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT

    @property
    def has_open_access(self) -> bool:
        """Whether other machines can connect without authentication."""
        return self.protocol is SecurityProtocol.PLAINTEXT and not self.address.is_loopback


def parse_address(text: str, what: str) -> Address:
    """Parse HOST:PORT, with an IPv6 host in brackets. Raises ConfigError with a text that begins with `what`."""
    host, colon, port = text.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigError(f"{what}: {text} is not HOST:PORT (with brackets around an IPv6 address)", what)
    if not (colon and _is_host(host) and _PORT.fullmatch(port) and int(port) <= MAX_PORT):
        raise ConfigError(f"{what}: {text} is not HOST:PORT", what)
    return Address(host, int(port))


def find_listener_address(listeners: Iterable[str], name: str) -> Address | None:
    """Return the address of the listener `name` (in capitals) in `listeners`, None if it is not there. Raises
    ConfigError."""
    return _parse_all(listeners, "listeners").get(name)


def find_names_without_protocol(config: Config) -> set[str]:
    """Return the names of listeners that listener.security.protocol.map does not have. Raises ConfigError."""
    return _parse_all(config.listeners, "listeners").keys() - _parse_protocols(config).keys()


def parse_http_listener(config: Config) -> Address | None:
    """Return the address of the HTTP port; None if it is off. Raises ConfigError, also if every client could change
    groups without an explicit setting."""
    text = config.http_listener.strip()
    address = None if text.lower() == HTTP_OFF else parse_address(text, "http.listener")
    has_token = config.control_token or config.control_token_file
    if config.control_enable == "true" and address and not (address.is_loopback or has_token):
        raise ConfigError(
            f"control.enable=true with http.listener={address}, which other machines can reach, needs a token: "
            "set control.token or control.token.file, or control.enable=open",
            *("control.enable", "http.listener"),
        )
    return address


def _is_host(host: str) -> bool:
    # The hosts that Kafka accepts, except names with an empty or too long label, which DNS cannot resolve.
    parts = host.split(".")
    return bool(_HOST.fullmatch(host)) and (not host or all(0 < len(part) < 64 for part in parts))


def _parse_all(parts: Iterable[str], what: str) -> dict[str, Address]:
    """Parse each NAME://HOST:PORT, and return the addresses by name. A plain HOST:PORT has the name PLAINTEXT."""
    found: dict[str, Address] = {}
    for part in parts:
        name, separator, address = part.partition("://")
        if not separator:
            name, address = DEFAULT_NAME, part
        name = name.upper()
        parsed = parse_address(address, what)
        if name in found:
            raise ConfigError(f"{what}: listener {name} is given twice", what)
        found[name] = parsed
    return found


def _parse_protocols(config: Config) -> dict[str, SecurityProtocol]:
    what = "listener.security.protocol.map"
    protocols: dict[str, SecurityProtocol] = {}
    for part in filter(None, (part.strip() for part in config.listener_security_protocol_map.split(","))):
        name, colon, protocol = part.partition(":")
        if not colon or protocol.strip().upper() not in _PROTOCOLS:
            raise ConfigError(f"{what}: {part} is not NAME:PROTOCOL", what)
        protocols[name.strip().upper()] = SecurityProtocol(protocol.strip().upper())
    return protocols


def parse_listeners(config: Config) -> tuple[list[Listener], list[str]]:
    """Return the listeners to open, and the names of the closed controller listeners. Raises ConfigError."""
    addresses = _parse_all(config.listeners, "listeners")
    advertised = _parse_all(config.advertised_listeners, "advertised.listeners")
    controllers = {name.upper() for name in config.controller_listener_names}
    protocols = _parse_protocols(config)
    listeners: list[Listener] = []
    for name, address in addresses.items():
        if name in controllers:
            continue
        protocol = protocols.get(name)
        if protocol is None:
            raise ConfigError(
                f"listeners: {name} has no protocol in listener.security.protocol.map",
                *("listeners", "listener.security.protocol.map"),
            )
        listeners.append(
            Listener(name, address, _check_advertised(name, address, advertised.get(name)), protocol)
        )
    _refuse_unknown(advertised, addresses)
    if not listeners:
        raise ConfigError("listeners: at least one listener for clients is required", "listeners")
    return listeners, [name for name in addresses if name in controllers]


def find_listener_names(config: Config) -> set[str]:
    """Return the lower-case names of all configured listeners.

    They include controller listeners, and listeners that only have a protocol. Raises ConfigError.
    """
    named = (
        *_parse_all(config.listeners, "listeners"),
        *config.controller_listener_names,
        *_parse_protocols(config),
    )
    return {name.lower() for name in named}


def create_access_notices(
    config: Config, listeners: Iterable[Listener], *, in_image: bool = False
) -> list[StartNotice]:
    """Return a notice for each setting that gives clients more access than may be meant.

    Open access causes a warning; `in_image` only an information, because Kafka's images also give open access.
    """
    notices: list[StartNotice] = []
    names = ", ".join(listener.name for listener in listeners if listener.has_open_access)
    if names and not config.authorizer_class_name:
        text = (
            f"Every client that reaches this machine has all permissions ({names}): these listeners do not "
            "authenticate clients, and authorizer.class.name is not set"
        )
        notices.append(StartNotice(text, is_warning=not in_image))
    principals = [part.strip() for part in config.super_users.split(";")]
    if config.authorizer_class_name and _ANONYMOUS in principals:
        text = f"Clients that do not authenticate have all permissions: super.users has {_ANONYMOUS}"
        notices.append(StartNotice(text))
    return notices


def _check_advertised(name: str, bound: Address, advertised: Address | None) -> Address | None:
    if advertised is None or advertised == Address("", bound.port):
        return None
    if advertised.is_wildcard:
        what = "advertised.listeners"
        raise ConfigError(
            f"{what}: {name} cannot be {advertised}, because clients cannot connect to it", what
        )
    return advertised


def _refuse_unknown(advertised: Iterable[str], known: Iterable[str]) -> None:
    known = set(known)
    for name in advertised:
        if name not in known:
            raise ConfigError(
                f"advertised.listeners: listener {name} does not exist", "advertised.listeners", "listeners"
            )


def format_wildcard_listeners(advertised: Iterable[str]) -> str:
    """Return listeners on every address with the names and ports of `advertised.listeners`.

    Kafka's images derive the listeners in this way if only the advertised ones are set. Raises ConfigError.
    """
    addresses = _parse_all(advertised, "advertised.listeners")
    return ",".join(f"{name}://0.0.0.0:{address.port}" for name, address in addresses.items())
