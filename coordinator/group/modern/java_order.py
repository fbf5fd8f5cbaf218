"""Orders."""

from collections.abc import Iterator


class TimelineOrder:
    """Order of members."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: dict[str, None] = {}

    def put(self, key: str) -> None:
        """Insert or update."""
        self._keys[key] = None

    def remove(self, key: str) -> None:
        """Remove."""
        del self._keys[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)
