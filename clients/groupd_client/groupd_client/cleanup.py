"""Cleanup at the end of a `with` block: it must not replace the failure of the block."""

from collections.abc import Iterator
from contextlib import contextmanager

from groupd_client.problem import GroupdError


@contextmanager
def cleaning_up(block_error: BaseException | None, what: str) -> Iterator[None]:
    """Run the cleanup of a block.

    If `block_error` already ends the block, a GroupdError of the cleanup becomes a note on it; otherwise it is
    raised. `what` names the cleanup in the note.
    """
    try:
        yield
    except GroupdError as error:
        if block_error is None:
            raise
        block_error.add_note(f"{what} failed as well: {error}")
