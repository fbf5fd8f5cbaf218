"""The bytes of answers that peers do not read, over all connections, and how large the next records may be.

A broker in Java sends records from the page cache, so that a consumer which does not read costs it nothing. Here
they are in memory from the moment they are read. The more peers leave unread, the less records the next Fetch gets:
one that asks for anything still gets a batch. So a thousand consumers that ask for 55 MiB each and read nothing
hold this bound and a batch each.
"""

from typing import Final

MAX_UNREAD_BYTES: Final = 256 * 1024 * 1024


class UnreadAnswers:
    """What waits behind other answers, and what transports keep for peers that do not keep up."""

    __slots__ = ("held_bytes", "limit_bytes")

    def __init__(self, limit_bytes: int = MAX_UNREAD_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0

    def room(self) -> int:
        """Bytes of records that one more answer may have."""
        return max(0, self.limit_bytes - self.held_bytes)
