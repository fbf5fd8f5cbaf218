"""An append that the operating system refuses: what it has left is taken back, or the log is poisoned."""

from storage.durability import Durability
from storage.errors import AppendFailed
from storage.os_error import reason_of
from storage.segment import Segment


def take_back(active: Segment, durability: Durability, error: OSError) -> AppendFailed:
    """Removes what a failed write may have left at the end of a segment, or poisons its log. Out: what to raise."""
    failure = AppendFailed(active.path, f"cannot append: {reason_of(error, active.path)}", active.size)
    try:
        active.file.truncate(active.size)
        is_taken_back = active.file.size() == active.size
    except OSError:
        is_taken_back = False
    if not is_taken_back:
        durability.poison(failure)
    return failure


def try_append(active: Segment, durability: Durability, size: int) -> None:
    """Appends `size` bytes that mean nothing, and takes them back. Raises AppendFailed."""
    try:
        active.file.write(bytes(size))
        active.file.truncate(active.size)
    except OSError as error:
        raise take_back(active, durability, error) from error
