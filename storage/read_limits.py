"""How much of a log one reading may give."""

from typing import NamedTuple


class ReadLimits(NamedTuple):
    """Whatever is asked for, a reading gives batches of one segment."""

    max_bytes: int
    up_to: int
    """An offset: no batch that begins there or later."""
    min_one_batch: bool
    """A first batch larger than `max_bytes` comes whole."""
    is_cut: bool
    """The reading ends at `max_bytes`, amid a batch or not; otherwise all batches are whole."""
