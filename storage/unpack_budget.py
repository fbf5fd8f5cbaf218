"""What one request may cost while its batches are looked at, whatever they say of themselves.

Seventeen kilobytes can unpack to a hundred million headers. So bytes are counted as they are unpacked, and records
and headers before they are walked; who is over budget is stopped there.
"""

from typing import Final

from storage.errors import StorageError

MAX_UNPACKED_BYTES: Final = 64 * 1024 * 1024
"""Of one batch: all of it is in memory at one time, and zstd takes as much again for its window."""
AT_ONCE_BYTES: Final = 64 * 1024
"""What is unpacked while everybody waits."""
AT_ONCE_ITEMS: Final = 10_000
"""What is walked while everybody waits."""
REQUEST_BYTES: Final = 256 * 1024 * 1024
REQUEST_ITEMS: Final = 250_000
EXPANSION: Final = 32
"""How many times its own size a request may unpack to, beyond `REQUEST_BYTES`. Text packs to a tenth."""
MAX_ITEMS: Final = 16_000_000
"""More than the smallest records of the largest request that is received (100 MB)."""


class OverBudget(StorageError):
    """More than the request may cost."""


class UnpackBudget:
    """What is left of it."""

    __slots__ = ("bytes_left", "items_left")

    def __init__(self, bytes_left: int, items_left: int) -> None:
        self.bytes_left = bytes_left
        self.items_left = items_left

    @classmethod
    def at_once(cls) -> "UnpackBudget":
        """For a look on the loop."""
        return cls(AT_ONCE_BYTES, AT_ONCE_ITEMS)

    @classmethod
    def of_request(cls, sent_bytes: int) -> "UnpackBudget":
        """For a request that has so many bytes of batches."""
        items = min(REQUEST_ITEMS + sent_bytes, MAX_ITEMS)
        return cls(REQUEST_BYTES + EXPANSION * sent_bytes, items)

    def spend_bytes(self, count: int) -> None:
        """So many bytes were unpacked. Raises OverBudget."""
        if count > self.bytes_left:
            raise OverBudget(f"there are more than {self.bytes_left} bytes of records left to unpack")
        self.bytes_left -= count

    def spend_items(self, count: int) -> None:
        """So many records or headers follow. Raises OverBudget."""
        if count > self.items_left:
            raise OverBudget(f"there are more than {self.items_left} records and headers left")
        self.items_left -= count
