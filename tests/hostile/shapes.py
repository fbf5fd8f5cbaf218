"""What largest requests are made of: names without end, and topics with their partitions."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

PARTITIONS: Final = 100_000
TOPICS: Final = 64_900
"""With a partition each."""
KNOWN: Final = "wide"
KNOWN_PARTITIONS: Final = 10_000
"""Of one topic that is there."""


class Largest(NamedTuple):
    """A request, made when it is needed, and its version."""

    make: Callable[[], Any]
    version: int


def _shapes(partition: Callable[[int], Any]) -> dict[str, list[tuple[str, list[Any]]]]:
    """Topics with their partitions: one that has many, or many that have one."""
    return {
        "partitions": [(KNOWN, [partition(number) for number in range(PARTITIONS)])],
        "topics": [(f"nobody-{number}", [partition(0)]) for number in range(TOPICS)],
    }


def over_topics(
    name: str,
    version: int,
    request: Callable[[list[tuple[str, list[Any]]]], Any],
    partition: Callable[[int], Any],
) -> dict[str, Largest]:
    def make(shape: str) -> Callable[[], Any]:
        return lambda: request(_shapes(partition)[shape])

    return {f"{name}: {shape}": Largest(make(shape), version) for shape in ("partitions", "topics")}


def names(count: int) -> list[str]:
    return [f"nobody-{number}" for number in range(count)]
