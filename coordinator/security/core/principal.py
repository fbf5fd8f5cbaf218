"""Who sends a request. Source: Kafka's `KafkaPrincipal`."""

from typing import Final, NamedTuple

USER: Final = "User"


class Principal(NamedTuple):
    """A type ("User") and a name, which may be anything but empty."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""Whoever has not said who it is."""


def parse_principal(text: str) -> Principal:
    """The principal that a text is of: `User:alice`. Raises ValueError."""
    kind, colon, name = text.partition(":")
    if not colon:
        raise ValueError(
            f"{text!r} is no principal: a type, a colon and a name are expected, as in User:alice"
        )
    return Principal(kind, name)
