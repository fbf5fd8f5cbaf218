"""Kafka's text form of a UUID: url-safe base64 of its 16 bytes, 22 characters, no padding."""

from base64 import urlsafe_b64decode, urlsafe_b64encode


def uuid_to_text(uuid: bytes) -> str:
    """The 22 characters that stand for 16 bytes."""
    return urlsafe_b64encode(uuid)[:22].decode("ascii")


def text_to_uuid(text: str) -> bytes:
    """The 16 bytes of a text form; ValueError when it is none."""
    if len(text) != 22:
        raise ValueError(f"{text!r} is no uuid: it has {len(text)} characters, not 22")
    return urlsafe_b64decode(text + "==")
