"""Access to the HTTP port: permissions to read and to change groups, host names, and limits of connections.

Every client that reaches the port may read. A port on a loopback address also takes changes, without a token
unless one is set. A port that other machines can reach takes changes with the token, or with
`control.enable=open`. No port takes changes with `control.enable=false`.

Every account of a machine reaches its loopback addresses. If an authorizer guards groups and topics
(`authorizer.class.name`), both reading and changing therefore need a token, unless `control.enable` says
otherwise.

A browser on this machine can reach the port for a web page of another site. Such a page cannot set `Host` and
`Origin`, so both must be groupd's own for a change. No response carries a CORS header. A body must be JSON,
which a browser does not send to another site without a preflight request.
"""

import re
import socket
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from coordinator.config.config_errors import ConfigError
from coordinator.config.listeners import Address, is_loopback, pack_address
from coordinator.config.properties import PROPERTIES, Config
from coordinator.control.problem import Problem, ProblemKind
from coordinator.core.message_text import printable
from storage.files import Files
from storage.storage_errors import format_error_reason

_BEARER: Final = "bearer"
_TOKEN_FILE: Final = "control.token.file"


class RequestOrigin(Struct, frozen=True):
    """The origin of a request: its headers, None if missing, and `local_host`, the address of this machine that
    the client connected to."""

    host: str | None
    origin: str | None
    authorization: str | None
    local_host: str


class ControlAccess(Struct, frozen=True, kw_only=True):
    """The permissions of one HTTP port.

    `own_host` is the bound host. `is_loopback`: only this machine reaches it. `enable`, `hosts` (in lower case) and
    `token` are the properties `control.*`. `has_authorizer`: ACLs protect groups and topics.
    """

    own_host: str
    is_loopback: bool
    enable: str = "auto"
    token: bytes | None = None
    hosts: frozenset[str] = frozenset()
    has_authorizer: bool = False

    def __repr__(self) -> str:
        """Leave out the token."""
        return f"ControlAccess(own_host={self.own_host!r}, enable={self.enable!r})"

    @property
    def guards_reading(self) -> bool:
        """Whether reading requires the same permission as changes."""
        return self.has_authorizer and self.enable == "auto"

    @property
    def is_enabled_explicitly(self) -> bool:
        """Whether the configuration turns the control API on explicitly."""
        return self.enable in ("true", "open") or (self.token is not None and self.enable != "false")

    def why_off(self) -> str | None:
        """Return the reason why changes are off over this port, or None if they are on."""
        if self.enable == "false":
            return "Changes are off over this port: control.enable is false."
        if self.guards_reading and self.token is None:
            return (
                "Reading and changes are off over this port, because authorizer.class.name is set: set "
                "control.token, or control.enable to true, open or false."
            )
        if self.is_loopback or self.token is not None or self.enable == "open":
            return None
        return (
            "Changes are off over this port, because other machines reach it: set control.token, or allow every "
            "client (control.enable=open)."
        )

    def is_own_name(self, host: str) -> bool:
        """Return whether a lower-case host is a name of this machine that a foreign page cannot have."""
        return is_loopback(host) or host == self.own_host.lower() or host in self.hosts

    def check_reading(self, caller: RequestOrigin) -> None:
        """Raise Problem for a malformed Host, and for a foreign Host on a port of this machine."""
        if self.is_loopback or parse_host(caller.host or "") is None:
            self._check_host(caller)

    def check_sender(self, caller: RequestOrigin) -> None:
        """Check that no web page of another site has sent a request that is more than reading. Raises Problem."""
        self._check_host(caller)
        if caller.origin is None:
            return
        scheme, _, host = caller.origin.lower().partition("://")
        if scheme not in ("http", "https") or host != (caller.host or "").strip().lower():
            raise Problem(
                ProblemKind.FOREIGN_HOST,
                "The request comes from a page of another site",
                f"Requests from pages of {printable(caller.origin)} (Origin) are not allowed.",
            )

    def check_permission(self, caller: RequestOrigin) -> None:
        """Check the permission to make changes, or to read if reading is guarded. Raises Problem."""
        why_off = self.why_off()
        if why_off is not None:
            raise Problem(ProblemKind.CONTROL_OFF, "Control is off", why_off)
        if self.token is None:
            return
        import hmac  # and OpenSSL's hash functions, which a broker without a token does not need

        scheme, _, given = (caller.authorization or "").strip().partition(" ")
        is_right = hmac.compare_digest(given.strip().encode("utf-8", "surrogateescape"), self.token)
        if scheme.lower() != _BEARER or not is_right:
            what = "Reading or changing" if self.guards_reading else "Changing"
            detail = f"{what} anything here needs the token (control.token): Authorization: Bearer TOKEN."
            title = "The token is invalid" if caller.authorization else "The token is missing"
            raise Problem(ProblemKind.BAD_TOKEN, title, detail)

    def _check_host(self, caller: RequestOrigin) -> None:
        """Check the header `Host`. HTTP/1.0 does not require it, and no browser uses HTTP/1.0."""
        host = parse_host(caller.host or "")
        if host is None:
            given = printable(caller.host or "")
            detail = f"Host {given} is not valid: it must be a name or an address, and a port."
            raise Problem(ProblemKind.FOREIGN_HOST, "The host of the request is not valid", detail)
        if not host or self.is_own_name(host) or self._is_own_address(host, caller.local_host):
            return
        raise Problem(
            ProblemKind.FOREIGN_HOST,
            "The request is for another host",
            f"Host {printable(host)} is not allowed. Add it to control.hosts.",
        )

    def _is_own_address(self, host: str, local_host: str) -> bool:
        """Return whether a host is the address that the client connected to. A port on a wildcard address accepts
        any address, because containers may translate addresses. A web page can map a name to this machine, but
        not an address of another machine."""
        named = _pack_address(host)
        if self.is_loopback or not named:
            return False
        return Address(self.own_host, 0).is_wildcard or named == _pack_address(local_host)


def _pack_address(host: str) -> bytes:
    """Return the bytes of an address without its zone, or an empty value for a name. IPv6 addresses have several
    spellings."""
    return pack_address(host.partition("%")[0])


def create_control_access(
    config: Config, own_host: str, sockets: Sequence[socket.socket], files: Files
) -> ControlAccess:
    """Create the access from the properties of a port, its bound host and sockets. `files` reads the token's file.

    Raises ConfigError.
    """
    token = config.control_token
    if config.control_token_file:
        token = _read_token(config.control_token_file, files)
    is_local = are_loopback(sockets)
    if config.control_enable == "true" and not (is_local or token):
        raise ConfigError(
            f"control.enable=true needs a token (control.token): {own_host} can be reached by other machines",
            *("control.enable", "http.listener"),
        )
    return ControlAccess(
        own_host=own_host,
        is_loopback=is_local,
        enable=config.control_enable,
        token=token.encode() if token else None,
        hosts=frozenset(host.lower() for host in config.control_hosts),
        has_authorizer=bool(config.authorizer_class_name),
    )


def _read_token(path: str, files: Files) -> str:
    try:
        token = files.read(path).decode("ascii").strip()
    except OSError as error:
        raise ConfigError(f"{_TOKEN_FILE}: {format_error_reason(error)}", _TOKEN_FILE) from error
    except UnicodeDecodeError:
        token = ""
    key = PROPERTIES["control.token"]
    if not token or not key.bounds.accepts_value(token):
        raise ConfigError(f"{_TOKEN_FILE}: {path} has no token: it must be {key.allowed}", _TOKEN_FILE)
    return token


_HOST: Final = re.compile(r"(?:\[(?P<address>[^\[\]]+)\]|(?P<name>[^\[\]:]+))(?::(?P<port>[0-9]{0,5}))?")
_MAX_PORT: Final = 65_535


def are_loopback(sockets: Sequence[socket.socket]) -> bool:
    """Return whether only this machine can reach the listening sockets."""
    return all(is_loopback(str(bound.getsockname()[0])) for bound in sockets)


def parse_host(header: str) -> str | None:
    """Return the host of a `Host` header in lower case, without port and brackets; "" for an empty header, None for
    a malformed one, for example with a port that is not a number below 65,536."""
    header = header.strip().lower()
    if not header:
        return ""
    found = _HOST.fullmatch(header)
    if found is None or int(found["port"] or 0) > _MAX_PORT:
        return None
    return found["address"] or found["name"]


FILES_SHARE: Final = 8
"""The HTTP port gets at most one in `FILES_SHARE` of the process's file descriptors. The others are for Kafka's
clients, logs and topics."""

SHORT_REQUEST_SHARE: Final = 4
"""One in `SHORT_REQUEST_SHARE` connections is reserved for short requests, so that /health, /metrics and
explanations work beside any number of waits and streams."""


class HttpLimits(Struct, frozen=True, kw_only=True):
    """The limits of the HTTP port, under the names of their properties."""

    http_max_connections: int
    http_request_timeout_ms: int

    def find_max_connections(self, files: int) -> int:
        """Return the maximum number of connections of a process with `files` file descriptors."""
        return min(self.http_max_connections, max(1, files // FILES_SHARE))


def find_max_long_requests(connections: int) -> int:
    """Return how many of `connections` connections may have a long request at the same time."""
    return max(1, connections - max(1, connections // SHORT_REQUEST_SHARE))
