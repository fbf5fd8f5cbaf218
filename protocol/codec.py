"""Encode and decode messages: the codecs of the daemon, generated on first use and kept.

Decoding accepts any bytes. It returns a message or raises Malformed, and no other error. Encoding a message
for a version that lacks one of its fields leaves the field out.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from msgspec import Struct

from protocol.codegen import compile_function, generate_decoder, generate_encoder, keep_functions
from protocol.primitives import DecodingBudget
from protocol.schema import message_info

T = TypeVar("T")


class Codec(Struct, frozen=True):
    """The codec of one version of one message.

    `decode(data, position=0)` reads a message that must end with `data`; `write(message, out)` appends one to
    a bytearray."""

    decode: Callable[..., Any]
    write: Callable[[Any, bytearray], None]

    def encode(self, message: Any) -> bytes:
        """Return the bytes of a message."""
        out = bytearray()
        self.write(message, out)
        return bytes(out)


@keep_functions
def decoder(cls: type[Any], version: int) -> Callable[..., Any]:
    """Return the function `decode(data: bytes, position: int = 0) -> cls` of one version."""
    _require_version(cls, version)
    return compile_function(generate_decoder(cls, version), "decode", f"decode {cls.__name__} v{version}")


@keep_functions
def writer(cls: type[Any], version: int) -> Callable[[Any, bytearray], None]:
    """Return the function `write(message: cls, out: bytearray) -> None` of one version."""
    _require_version(cls, version)
    return compile_function(generate_encoder(cls, version), "write", f"encode {cls.__name__} v{version}")


@keep_functions
def bounded_writer(cls: type[Any], version: int) -> Callable[[Any, bytearray, int], None]:
    """Return the function `write(message: cls, out: bytearray, most: int) -> None` of one version.

    The function checks the length of `out` after each element of an array, and raises TooLong if it exceeds
    `most` bytes.
    """
    _require_version(cls, version)
    source = generate_encoder(cls, version, bounded=True)
    return compile_function(source, "write", f"encode bounded {cls.__name__} v{version}")


def codec(cls: type[Any], version: int) -> Codec:
    """Return encoder and decoder of one version. Raises ValueError for a version that the message does not
    have."""
    return Codec(decoder(cls, version), writer(cls, version))


def decode(cls: type[T], version: int, data: bytes, position: int = 0) -> T:
    """Decode the message in `data` from `position` to the end. Raises Malformed."""
    return cast("T", decoder(cls, version)(data, position))


@keep_functions
def prefix_decoder(cls: type[Any], version: int) -> Callable[..., Any]:
    """Return a decoder that ignores the bytes after the message."""
    _require_version(cls, version)
    source = generate_decoder(cls, version, whole=False)
    return compile_function(source, "decode", f"decode prefix {cls.__name__} v{version}")


@keep_functions
def request_decoder(cls: type[Any], version: int, budget: DecodingBudget) -> Callable[..., Any]:
    """Return a decoder for an untrusted request. It raises Malformed for a request that exceeds the budget. It
    ignores the bytes after the message, as Kafka does: librdkafka ends some Metadata requests with bytes that
    belong to no field."""
    _require_version(cls, version)
    source = generate_decoder(cls, version, whole=False, budget=budget)
    return compile_function(source, "decode", f"decode request {cls.__name__} v{version}")


def decode_prefix(cls: type[T], version: int, data: bytes, position: int = 0) -> T:
    """Decode the message in `data` at `position` and ignore the bytes after it. Raises Malformed."""
    return cast("T", prefix_decoder(cls, version)(data, position))


def encode(message: Any, version: int) -> bytes:
    """Encode a message in one version."""
    out = bytearray()
    writer(type(message), version)(message, out)
    return bytes(out)


def _require_version(cls: type[Any], version: int) -> None:
    versions = message_info(cls).versions
    if version not in versions:
        raise ValueError(f"{cls.__name__} has versions {versions.first}-{versions.last}, not {version}")
