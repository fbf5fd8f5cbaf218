"""Names in entries: what clients sent, made fit for a terminal and no longer than anybody needs."""

from typing import Final

from coordinator.net.peer import printable

MAX_NAME: Final = 300


def shown(text: str) -> str:
    """A name as entries have it."""
    return printable(text, MAX_NAME)


def shown_or_none(text: str | None) -> str | None:
    """The same of one that may not be there."""
    return None if text is None else printable(text, MAX_NAME)
