"""Encode and decode messages: the codecs of the daemon, generated on first use and kept.

Decoding takes any bytes and gives a message or raises Malformed, nothing else. Encoding a message for a
version that lacks one of its fields leaves the field out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar, cast

from protocol.budget import Budget
from protocol.codegen import decoder_source, encoder_source, function
from protocol.schema import message_info

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Codec:
    """The codec of one version of one message.

    `decode(data, position=0)` reads a message that must end with `data`; `write(message, out)` appends one to
    a bytearray."""

    decode: Callable[..., Any]
    write: Callable[[Any, bytearray], None]

    def encode(self, message: Any) -> bytes:
        """The bytes of a message."""
        out = bytearray()
        self.write(message, out)
        return bytes(out)


def _kept(generate: F) -> F:
    """Keep each generated function, by the arguments it was generated for."""
    return cast("F", cache(generate))


@_kept
def decoder(cls: type[Any], version: int) -> Callable[..., Any]:
    """The function `decode(data: bytes, position: int = 0) -> cls` of one version."""
    _require(cls, version)
    return function(decoder_source(cls, version), "decode", f"decode {cls.__name__} v{version}")


@_kept
def writer(cls: type[Any], version: int) -> Callable[[Any, bytearray], None]:
    """The function `write(message: cls, out: bytearray) -> None` of one version."""
    _require(cls, version)
    return function(encoder_source(cls, version), "write", f"encode {cls.__name__} v{version}")


@_kept
def bounded_writer(cls: type[Any], version: int) -> Callable[[Any, bytearray, int], None]:
    """The function `write(message: cls, out: bytearray, most: int) -> None` of one version. It raises TooLong once
    `out` is longer than `most` after an element of an array."""
    _require(cls, version)
    source = encoder_source(cls, version, bounded=True)
    return function(source, "write", f"encode bounded {cls.__name__} v{version}")


def codec(cls: type[Any], version: int) -> Codec:
    """Both directions of one version; ValueError for a version that the message does not have."""
    return Codec(decoder(cls, version), writer(cls, version))


def decode(cls: type[T], version: int, data: bytes, position: int = 0) -> T:
    """The message in `data` from `position` to the end; Malformed when there is none."""
    return cast("T", decoder(cls, version)(data, position))


@_kept
def prefix_decoder(cls: type[Any], version: int) -> Callable[..., Any]:
    """As `decoder`, but what follows the message is left alone."""
    _require(cls, version)
    source = decoder_source(cls, version, whole=False)
    return function(source, "decode", f"decode prefix {cls.__name__} v{version}")


@_kept
def request_decoder(cls: type[Any], version: int, budget: Budget) -> Callable[..., Any]:
    """As `prefix_decoder`, for a request from a stranger: Malformed beyond its budget.

    What follows the message is left alone, as Kafka does: librdkafka ends some Metadata requests with bytes that
    belong to no field."""
    _require(cls, version)
    source = decoder_source(cls, version, whole=False, budget=budget)
    return function(source, "decode", f"decode request {cls.__name__} v{version}")


def decode_prefix(cls: type[T], version: int, data: bytes, position: int = 0) -> T:
    """The message that `data` begins with at `position`; what follows it is left alone."""
    return cast("T", prefix_decoder(cls, version)(data, position))


def encode(message: Any, version: int) -> bytes:
    """The bytes of a message in one version."""
    out = bytearray()
    writer(type(message), version)(message, out)
    return bytes(out)


def _require(cls: type[Any], version: int) -> None:
    versions = message_info(cls).versions
    if version not in versions:
        raise ValueError(f"{cls.__name__} has versions {versions.first}-{versions.last}, not {version}")
