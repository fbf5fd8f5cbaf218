"""Where clients connect, and what they are told to connect to. Source: Kafka's `SocketServerConfigs`.

A listener has a name, and the advertised address of that name is what Metadata and FindCoordinator answer on its
connections. A listener on every interface that advertises nothing answers with the address that the client used.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from coordinator.config.errors import ConfigError
from coordinator.config.properties import Config

DEFAULT_NAME: Final = "PLAINTEXT"
HTTP_OFF: Final = "off"
_WILDCARDS: Final = frozenset({"", "0.0.0.0", "::"})
_PROTOCOLS: Final = {
    "PLAINTEXT": "PLAINTEXT",
    "SSL": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
}


class Address(NamedTuple):
    """A host (a name, an IPv4 or IPv6 address, "" for every interface) and a port (0: any free one)."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_wildcard(self) -> bool:
        """Whether it stands for every interface."""
        return self.host in _WILDCARDS


@dataclass(frozen=True, slots=True)
class Listener:
    """One listener. `advertised` None: its own address, or for a wildcard the one that the client used."""

    name: str
    address: Address
    advertised: Address | None


def parse_address(text: str, what: str) -> Address:
    """HOST:PORT; an IPv6 host stands in brackets. Raises ConfigError beginning with `what`."""
    host, colon, port = text.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigError(f"{what}: {text} is not HOST:PORT (an IPv6 address stands in brackets)")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ConfigError(f"{what}: {text} is not HOST:PORT")
    return Address(host, int(port))


def parse_http_listener(config: Config) -> Address | None:
    """Where the HTTP port is to be; None for nowhere. Raises ConfigError."""
    text = config.http_listener.strip()
    return None if text.lower() == HTTP_OFF else parse_address(text, "http.listener")


def _parse_list(text: str, what: str) -> dict[str, Address]:
    """NAME://HOST:PORT, … by name; a bare HOST:PORT is called PLAINTEXT."""
    found: dict[str, Address] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, separator, address = part.partition("://")
        if not separator:
            name, address = DEFAULT_NAME, part
        name = name.upper()
        parsed = parse_address(address, what)
        if name in found:
            raise ConfigError(f"{what}: there are two listeners {name}")
        found[name] = parsed
    return found


def _protocols(config: Config) -> dict[str, str]:
    protocols = dict(_PROTOCOLS)
    for part in filter(None, (part.strip() for part in config.listener_security_protocol_map.split(","))):
        name, colon, protocol = part.partition(":")
        if not colon or protocol.strip().upper() not in _PROTOCOLS:
            raise ConfigError(f"listener.security.protocol.map: {part} is not NAME:PROTOCOL")
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def parse_listeners(config: Config) -> tuple[list[Listener], list[str]]:
    """The listeners to open, and warnings about those that are not. Raises ConfigError."""
    addresses = _parse_list(config.listeners, "listeners")
    advertised = _parse_list(config.advertised_listeners, "advertised.listeners")
    controllers = {name.upper() for name in config.controller_listener_names}
    protocols = _protocols(config)
    warnings = [
        f"listener {name} is not opened: it is a controller's, and there is no controller here"
        for name in addresses
        if name in controllers
    ]
    listeners: list[Listener] = []
    for name, address in addresses.items():
        if name in controllers:
            continue
        protocol = protocols.get(name)
        if protocol is None:
            raise ConfigError(f"listeners: {name} has no protocol in listener.security.protocol.map")
        if protocol != DEFAULT_NAME:
            raise ConfigError(f"listeners: {name} asks for {protocol}; only PLAINTEXT is served here")
        listeners.append(Listener(name, address, _advertised(name, advertised.get(name))))
    _refuse_unknown(advertised, addresses)
    if not listeners:
        raise ConfigError("listeners: there is none for clients")
    return listeners, warnings


def _advertised(name: str, address: Address | None) -> Address | None:
    if address is not None and address.is_wildcard:
        raise ConfigError(f"advertised.listeners: {name} cannot be {address.host or 'without a host'}")
    return address


def _refuse_unknown(advertised: Iterable[str], known: Iterable[str]) -> None:
    known = set(known)
    for name in advertised:
        if name not in known:
            raise ConfigError(f"advertised.listeners: there is no listener {name}")
