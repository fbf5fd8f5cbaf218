"""Headers and frames, which surround a message on the wire.

A frame is an int32 size, a header and a body. The server reads request headers in its own loop, in place and
without objects; `parse_request_header` does the same in a readable form, which tests use as a reference.
Special cases of Kafka:

- the client id of a request header keeps its int16 length even in flexible versions (KIP-482);
- a response to ApiVersions always has the old header, so that a client can read it before it knows the versions;
- an unsupported version of ApiVersions gets error 35 in the form of v0, with the versions of ApiVersions (KIP-511);
- an unsupported version of another API closes the connection.
"""

from struct import Struct, error
from typing import Any, Final

import msgspec

from protocol.apis import APIS, Api, ApiKey
from protocol.codec import writer
from protocol.primitives import Malformed, read_uvarint, skip_tagged_fields

_FIXED: Final = Struct(">hhih")
_CORRELATION_BYTES: Final = 4
_SIZE_AND_CORRELATION: Final = Struct(">ii")


class RequestHeader(msgspec.Struct):
    """The header of a request. The body begins at `body_position` of the frame, in bytes."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


class UnknownApi(Malformed):
    """A request with an api key that is not served."""


class UnsupportedVersion(Malformed):
    """A request at a version that is not served. The response to ApiVersions needs its `header`."""

    def __init__(self, header: RequestHeader) -> None:
        super().__init__(f"api key {header.api_key} has no version {header.api_version} here")
        self.header = header


def parse_request_header(frame: bytes) -> RequestHeader:
    """Decode the header of a request frame, without its size. Raises Malformed for an invalid header, and
    UnknownApi or UnsupportedVersion for a request that groupd does not serve."""
    try:
        api_key, api_version, correlation_id, length = _FIXED.unpack_from(frame)
        api = APIS.get(api_key)
        if api is None:
            raise UnknownApi(f"api key {api_key} is not served")
        if api_version not in api.versions:
            raise UnsupportedVersion(RequestHeader(api_key, api_version, correlation_id, None, len(frame)))
        position = _FIXED.size
        client_id = None
        if length >= 0:
            end = position + length
            if end > len(frame):
                raise Malformed(f"the client id ends {end - len(frame)} bytes past the frame")
            client_id = frame[position:end].decode()
            position = end
        elif length != -1:
            raise Malformed(f"a client id of length {length}")
        if api_version in api.flexible:
            count, position = read_uvarint(frame, position)
            position = skip_tagged_fields(frame, position, count)
    except (error, IndexError, UnicodeDecodeError) as problem:
        raise Malformed(f"request header: {problem}") from None
    return RequestHeader(api_key, api_version, correlation_id, client_id, position)


def has_flexible_response_header(api: Api, version: int) -> bool:
    """Return whether tagged fields follow the correlation id of a response."""
    return version in api.flexible and api.key != ApiKey.API_VERSIONS


def encode_response(api_key: int, api_version: int, correlation_id: int, message: Any) -> bytearray:
    """Return a response frame, size included."""
    out = bytearray(8)
    if has_flexible_response_header(APIS[api_key], api_version):
        out.append(0)
    writer(type(message), api_version)(message, out)
    _SIZE_AND_CORRELATION.pack_into(out, 0, len(out) - 4, correlation_id)
    return out


def encode_request(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, message: Any
) -> bytearray:
    """Return a request frame as a client sends it, size included. `groupd ping` and tests use it."""
    name = None if client_id is None else client_id.encode()
    out = bytearray(4)
    out += _FIXED.pack(api_key, api_version, correlation_id, -1 if name is None else len(name))
    out += name or b""
    if api_version in APIS[api_key].flexible:
        out.append(0)
    writer(type(message), api_version)(message, out)
    out[:4] = (len(out) - 4).to_bytes(4, "big")
    return out


def response_body_position(api_key: int, api_version: int, frame: bytes) -> int:
    """Return the position of the body in a response frame (without its size), after the correlation id and tags.

    Raises Malformed if the frame ends before it."""
    if len(frame) < _CORRELATION_BYTES:
        raise Malformed(f"a response of {len(frame)} bytes")
    if not has_flexible_response_header(APIS[api_key], api_version):
        return _CORRELATION_BYTES
    try:
        count, position = read_uvarint(frame, _CORRELATION_BYTES)
        return skip_tagged_fields(frame, position, count)
    except IndexError:
        raise Malformed("the header of the response has no end") from None
