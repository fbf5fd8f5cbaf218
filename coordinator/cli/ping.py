"""`groupd ping`: one round trip of ApiVersions, for health checks."""

import socket
import sys
from typing import Final

import click

_MAX_RESPONSE_BYTES: Final = 1024 * 1024
_CORRELATION_ID: Final = 1


class _NoAnswer(Exception):
    """The failure of a ping, with its reason."""


def _receive(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            raise _NoAnswer("the connection was closed. If the listener requires TLS, use --command-config")
        data += part
    return data


def _ping_broker(host: str, port: int, timeout_s: float) -> int:
    """Return the number of APIs that the broker serves. Raises OSError, _NoAnswer, Malformed."""
    from protocol.apis import ApiKey
    from protocol.codec import decode
    from protocol.error_codes import ErrorCode
    from protocol.framing import encode_request
    from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

    request = encode_request(ApiKey.API_VERSIONS, 0, _CORRELATION_ID, "groupd-ping", ApiVersionsRequest())
    with socket.create_connection((host, port), timeout_s) as connection:
        connection.settimeout(timeout_s)
        connection.sendall(request)
        head = _receive(connection, 4)
        size = int.from_bytes(head, "big", signed=True)
        if head.startswith(b"\x15\x03"):
            raise _NoAnswer("it requires TLS (--command-config)")
        if not 4 <= size <= _MAX_RESPONSE_BYTES:
            raise _NoAnswer(f"it announced a response of {size} bytes")
        frame = _receive(connection, size)
    if int.from_bytes(frame[:4], "big") != _CORRELATION_ID:
        raise _NoAnswer("its response belongs to another request")
    response = decode(ApiVersionsResponse, 0, frame, 4)
    if response.error_code != ErrorCode.NONE:
        raise _NoAnswer(f"it answered error {response.error_code}")
    return len(response.api_keys)


def _ping_as_configured(host: str, port: int, timeout_s: float, path: str) -> int:
    """Return how many APIs a broker serves, over TLS and SASL as the properties file at `path` configures them.
    Raises _NoAnswer."""
    from contextlib import closing

    from coordinator.cli.broker.broker_connection import BrokerConnection
    from coordinator.cli.broker.client_security import read_client_security
    from coordinator.cli.command_errors import BrokerError, ServerUnreachable

    with closing(BrokerConnection(host, port, timeout_s, read_client_security(path))) as connection:
        try:
            return connection.count_apis()
        except BrokerError as error:
            raise _NoAnswer(str(error)) from error
        except ServerUnreachable as error:
            raise _NoAnswer(str(error).removeprefix(f"{connection.name} does not answer: ")) from error


@click.command()
@click.argument("address", metavar="HOST:PORT")
@click.option("--timeout", default=5.0, show_default=True, type=click.FloatRange(min=0.001), help="Seconds.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing, and only set the exit code.")
@click.option(
    "--command-config",
    envvar="GROUPD_COMMAND_CONFIG",
    metavar="FILE",
    help="A client's properties, as for Kafka's own commands; the command then also tests TLS and the login. "
    "[env: GROUPD_COMMAND_CONFIG]",
)
def ping(address: str, timeout: float, quiet: bool, command_config: str | None) -> None:
    """Test whether the broker at HOST:PORT answers. Exit code 0 if it does, 1 if not."""
    from coordinator.config.config_errors import ConfigError
    from coordinator.config.listeners import parse_address
    from protocol.primitives import Malformed
    from storage.storage_errors import format_error_reason

    try:
        host, port = parse_address(address, "HOST:PORT")
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    host = host or "127.0.0.1"
    try:
        if command_config is None:
            apis = _ping_broker(host, port, timeout)
        else:
            apis = _ping_as_configured(host, port, timeout, command_config)
    except (OSError, _NoAnswer, Malformed) as error:
        if not quiet:
            click.echo(f"{address} does not answer: {format_error_reason(error)}", err=True)
        sys.exit(1)
    except UnicodeError:
        raise click.UsageError(f"HOST:PORT: {host} is not a valid host name") from None
    if not quiet:
        click.echo(f"{address} answers and serves {apis} APIs")
