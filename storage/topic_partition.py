"""Partitions by topic and number, which name a log and its directory, and Kafka's text form of a UUID (16
bytes in url-safe base64 without padding). Source: Kafka's `Uuid`.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final, NamedTuple


class TopicPartition(NamedTuple):
    """One partition of one topic. Its text is the name of its directory."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


TEXT_LENGTH: Final = 22


def uuid_to_text(raw: bytes) -> str:
    """Return the 22 characters for 16 bytes. Raises ValueError for another length."""
    if len(raw) != 16:
        raise ValueError(f"a UUID has 16 bytes, not {len(raw)}")
    return urlsafe_b64encode(raw)[:TEXT_LENGTH].decode()


def uuid_from_text(text: str) -> bytes:
    """Return the 16 bytes for 22 characters. Raises ValueError for any other text."""
    if len(text) != TEXT_LENGTH or not text.isascii():
        raise ValueError(f"{text!r} is not the text form of a UUID")
    try:
        raw = urlsafe_b64decode(text + "==")
    except binascii.Error as error:
        raise ValueError(f"{text!r} is not the text form of a UUID") from error
    if uuid_to_text(raw) != text:
        raise ValueError(f"{text!r} is not the text form of a UUID")
    return raw
