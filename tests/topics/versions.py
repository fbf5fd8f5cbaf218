"""Versions of messages."""

from protocol.schema import message_info


def newest(message: type) -> int:
    """The newest version of a request or response class."""
    return message_info(message).versions.last


def all_of(message: type) -> range:
    """Every version of a request or response class."""
    versions = message_info(message).versions
    return range(versions.first, versions.last + 1)
