"""What a line about a record is made of: short texts in order, each with the part that it plays.

The words of a line are found once, in `text_form.py`. What is read by programs gets the texts joined; a terminal
gets them coloured and laid out by their roles.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final


class Role(IntEnum):
    """The part that a text plays in its line."""

    PARTITION = 0
    """Of the log."""
    OFFSET = 1
    TIME = 2
    TYPE = 3
    """Of the record."""
    LABEL = 4
    """The name of a field, with what joins it to its value."""
    KEY = 5
    """A part of the record's key."""
    VALUE = 6
    MEMBER_ID = 7
    DEFAULT = 8
    """A field, name and value, that says nothing: what it says is the rule."""
    TOMBSTONE = 9
    ERROR = 10
    MEMBERS = 11
    """Opens the members of a group."""
    NEXT_MEMBER = 12
    END_OF_MEMBERS = 13
    GAP = 14
    """Between fields: the best place to wrap a line."""
    LIST_GAP = 15
    """Between the parts of one field."""
    HINT = 16
    """Nothing of the record: what is not shown of it."""


Piece = tuple[Role, str]

GAP: Final[Piece] = (Role.GAP, " ")
LIST_GAP: Final[Piece] = (Role.LIST_GAP, " ")


def joined(pieces: Iterable[Piece]) -> str:
    """The texts alone."""
    return "".join([text for _, text in pieces])
