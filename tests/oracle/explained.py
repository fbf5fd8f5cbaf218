"""The differences that are known. Each belongs to a row of docs/differences.md, and a session shows it."""

from typing import Final

from tests.oracle.compare import Difference, Explained

EXPLAINED: Final[tuple[Explained, ...]] = ()


def explanation(difference: Difference) -> Explained | None:
    """The first entry that covers the difference."""
    return next((known for known in EXPLAINED if known.covers(difference)), None)
