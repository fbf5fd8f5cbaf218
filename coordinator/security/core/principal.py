"""The principal of a request. Source: Kafka's `KafkaPrincipal`."""

from typing import Final, NamedTuple

USER: Final = "User"


class Principal(NamedTuple):
    """A type ("User") and a non-empty name."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""The principal of clients without authentication."""


def parse_principal(text: str) -> Principal:
    """Parse a principal such as `User:alice`.

    Raises:
        ValueError: the text is malformed.
    """
    kind, colon, name = text.partition(":")
    if not colon:
        raise ValueError(f"{text!r} is not a principal: write a type, a colon and a name, such as User:alice")
    return Principal(kind, name)
