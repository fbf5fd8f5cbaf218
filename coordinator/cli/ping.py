"""`groupd ping`: one round trip of ApiVersions, for health checks."""

import socket
import sys
from typing import Final

import click

_MAX_RESPONSE_BYTES: Final = 1024 * 1024
_CORRELATION_ID: Final = 1


class _NoAnswer(Exception):
    """Why the ping failed."""


def _read(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            raise _NoAnswer("the connection was closed")
        data += part
    return data


def _ping(host: str, port: int, timeout_s: float) -> int:
    """The number of APIs that the broker serves. Raises OSError, _NoAnswer, Malformed."""
    from protocol.apis import ApiKey
    from protocol.codec import decode
    from protocol.errors import ErrorCode
    from protocol.framing import encode_request
    from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

    request = encode_request(ApiKey.API_VERSIONS, 0, _CORRELATION_ID, "groupd-ping", ApiVersionsRequest())
    with socket.create_connection((host, port), timeout_s) as connection:
        connection.settimeout(timeout_s)
        connection.sendall(request)
        size = int.from_bytes(_read(connection, 4), "big", signed=True)
        if not 4 <= size <= _MAX_RESPONSE_BYTES:
            raise _NoAnswer(f"it announced an answer of {size} bytes")
        frame = _read(connection, size)
    if int.from_bytes(frame[:4], "big") != _CORRELATION_ID:
        raise _NoAnswer("it answered another question")
    response = decode(ApiVersionsResponse, 0, frame, 4)
    if response.error_code != ErrorCode.NONE:
        raise _NoAnswer(f"it answered error {response.error_code}")
    return len(response.api_keys)


@click.command()
@click.argument("address", metavar="HOST:PORT")
@click.option("--timeout", default=5.0, show_default=True, type=click.FloatRange(min=0.001), help="Seconds.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing; the exit code says it.")
def command(address: str, timeout: float, quiet: bool) -> None:
    """Ask whether the broker at HOST:PORT answers: exit code 0 if it does, 1 if not."""
    from coordinator.config.errors import ConfigError
    from coordinator.config.listeners import parse_address
    from protocol.malformed import Malformed
    from storage.os_error import reason_of

    try:
        host, port = parse_address(address, "HOST:PORT")
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    try:
        apis = _ping(host or "127.0.0.1", port, timeout)
    except (OSError, _NoAnswer, Malformed) as error:
        if not quiet:
            click.echo(f"{address} does not answer: {reason_of(error)}", err=True)
        sys.exit(1)
    except UnicodeError:
        raise click.UsageError(f"HOST:PORT: {host} cannot be the name of a host") from None
    if not quiet:
        click.echo(f"{address} answers and serves {apis} APIs")
