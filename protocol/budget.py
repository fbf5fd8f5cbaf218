"""What decoding one request may cost, however its bytes are spent."""

from typing import NamedTuple

from protocol.malformed import Malformed
from protocol.primitives import MAX_UNKNOWN_TAGS


class Budget(NamedTuple):
    """How many elements all arrays of a message may have together, and how many unknown tagged fields all its
    structs."""

    elements: int
    unknown_tags: int = MAX_UNKNOWN_TAGS
    too_many: type[Malformed] = Malformed
    """What is raised beyond the elements."""
