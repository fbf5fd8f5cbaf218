"""What one key may hold after a crash: the last acknowledged write, or one of those sent after it."""

from typing import Generic, TypeVar

T = TypeVar("T")


class Register(Generic[T]):
    """The writes of one client to one key, one after the other, since the key was last looked at."""

    def __init__(self, value: T) -> None:
        self._values: list[T] = [value]
        self.acknowledged = 0
        """How many writes were acknowledged, all told."""

    def write(self, value: T) -> None:
        """A write is about to be sent."""
        self._values.append(value)

    def acknowledge(self) -> None:
        """The earliest write that has no answer yet was accepted."""
        assert len(self._values) > 1, "nothing was sent"
        del self._values[0]
        self.acknowledged += 1

    def refuse(self) -> None:
        """The write sent last was refused, and has no effect."""
        assert len(self._values) > 1, "nothing was sent"
        del self._values[-1]

    @property
    def value(self) -> T:
        """The last acknowledged one."""
        return self._values[0]

    @property
    def possible(self) -> list[T]:
        """What a reader may find: nothing older than the acknowledged value, nothing that was never sent."""
        return list(self._values)

    def found(self, value: T) -> None:
        """Record a value read after a crash. Raises AssertionError for an impossible value."""
        assert value in self._values, f"{value} is none of {self._values}"
        self._values = [value]
