"""The settings of a tool's client: bootstrap addresses, and the properties of --command-config and similar
options."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from coordinator.cli.broker.client_security import ClientSecurity, parse_security_properties
from coordinator.cli.kafka_tools.tool_errors import ToolFailure
from coordinator.config.config_errors import ConfigError
from coordinator.config.listeners import Address, parse_address
from coordinator.config.properties_file import parse_properties
from storage.files import read_input_file
from storage.storage_errors import format_error_reason

_API_TIMEOUT: Final = "default.api.timeout.ms"
_REQUEST_TIMEOUT: Final = "request.timeout.ms"
_DEFAULT_API_TIMEOUT_MS: Final = 60_000
_DEFAULT_REQUEST_TIMEOUT_MS: Final = 30_000


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The settings with which a tool connects to brokers."""

    bootstrap: tuple[Address, ...]
    security: ClientSecurity
    properties: Mapping[str, str]
    api_timeout_s: float
    """How long the client retries while no broker responds, in seconds."""
    request_timeout_s: float


def read_properties(path: str | None) -> dict[str, str]:
    """Return the properties of a file, or none without a path. Raises ToolFailure for an unreadable file."""
    if path is None:
        return {}
    try:
        return dict(parse_properties(read_input_file(path).decode()))
    except OSError as error:
        raise ToolFailure(f"{path}: {format_error_reason(error, path)}") from error
    except UnicodeDecodeError as error:
        raise ToolFailure(f"{path}: is not UTF-8 text at byte {error.start}") from error
    except ValueError as error:
        raise ToolFailure(f"{path}: {error}") from error


def parse_pairs(pairs: Iterable[str], lacks_value: str | None = None) -> dict[str, str]:
    """Return the properties of options such as `--property NAME=VALUE`.

    Args:
        pairs: the values of the options.
        lacks_value: the value of a NAME without `=`; None: such a NAME is an error.

    Raises:
        ToolFailure: an option is malformed.
    """
    found = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals and lacks_value is not None:
            text = lacks_value
        elif not equals or not name:
            raise ToolFailure(f"Invalid property {pair}. Write it as NAME=VALUE")
        found[name] = text
    return found


def make_settings(bootstrap: str, properties: Mapping[str, str]) -> ClientSettings:
    """Return the settings of a client.

    Args:
        bootstrap: HOST:PORT, with commas between several.
        properties: the client's properties.

    Raises:
        ToolFailure: an address or a property is invalid.
    """
    try:
        security = parse_security_properties(properties)
    except ValueError as error:
        raise ToolFailure(f"Invalid client properties: {error}") from error
    if security.login is not None and security.login.password is None:
        raise ToolFailure('Invalid client properties: sasl.jaas.config needs password="..."')
    return ClientSettings(
        _parse_bootstrap(bootstrap),
        security,
        properties,
        _parse_milliseconds(properties, _API_TIMEOUT, _DEFAULT_API_TIMEOUT_MS) / 1000,
        _parse_milliseconds(properties, _REQUEST_TIMEOUT, _DEFAULT_REQUEST_TIMEOUT_MS) / 1000,
    )


def _parse_bootstrap(text: str) -> tuple[Address, ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise ToolFailure("No bootstrap address given. Write --bootstrap-server HOST:PORT")
    addresses = []
    for word in words:
        try:
            address = parse_address(word.rpartition("://")[2], "bootstrap.servers")
        except ConfigError as error:
            raise ToolFailure(f"Invalid url in bootstrap.servers: {word}. {error}") from error
        addresses.append(Address(address.host or "127.0.0.1", address.port))
    return tuple(addresses)


def _parse_milliseconds(properties: Mapping[str, str], name: str, default: int) -> int:
    text = properties.get(name, str(default)).strip()
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number <= 0:
        raise ToolFailure(f"Invalid client properties: {name}={text}. Use a number of milliseconds above 0")
    return number
