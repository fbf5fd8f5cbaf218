"""What somebody wants offsets to be, worked out: by number, or by a place in the partition.

As `kafka-consumer-groups --reset-offsets`: a shift and a time end within what can be read. A number is taken as it
is: whoever sets an offset that is not there wants to see what a consumer makes of that.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Final, NamedTuple

from msgspec import Meta, Struct

from coordinator.control.groups.partition_ends import (
    Ends,
    ends_of,
    offset_at,
    partition_of,
    topic_of,
    unknown_ends,
)
from coordinator.control.problem import Problem, ProblemKind
from coordinator.net.peer import printable
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.data_plane import DataPlane

MOST: Final = 10_000
"""Offsets that one call may set: they are one batch of the log."""
MOST_TOPICS: Final = 1_000
"""Topics, or single partitions, that one call may name."""
_SHIFT: Final = re.compile(r"[+-][0-9]{1,18}")
_PLACES: Final = ("earliest", "latest", "current")

Offset = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Place = Annotated[str, Meta(extra_json_schema={"pattern": rf"^({'|'.join(_PLACES)}|{_SHIFT.pattern})$"})]


class OffsetReset(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Either `offsets`, by partition ("orders-0"): a number, or a place: "earliest", "latest", "current", or so
    many after or before the committed one ("+5", "-5"). Or one place for all: `to`, or `to_time_ms` (Unix time:
    the first record of then or later), of `topics` ("orders", or "orders-0"; default: those that the group has
    offsets of). `dry_run` only says what it would be."""

    offsets: Annotated[dict[str, Offset | Place], Meta(max_length=MOST)] | None = None
    to: Offset | Place | None = None
    to_time_ms: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    topics: Annotated[list[str], Meta(max_length=MOST_TOPICS)] | None = None
    dry_run: bool = False


class Wanted(NamedTuple):
    """What the offset of one partition is to be."""

    topic: str
    partition: int
    offset: int


Committed = Mapping[tuple[str, int], int]
"""Offsets by topic and partition."""


def work_out(reset: OffsetReset, committed: Committed, plane: DataPlane) -> Iterator[Wanted]:
    """Every offset to be set, one at a time. Raises Problem (bad-request, no-such-topic, not-possible)."""
    ways = [reset.offsets is not None, reset.to is not None, reset.to_time_ms is not None]
    if sum(ways) != 1:
        raise _bad("", "One of offsets, to and to_time_ms has to be there, and no more than one.")
    if reset.offsets is not None:
        if reset.topics:
            raise _bad("/topics", "offsets names its topics itself.")
        for name, place in reset.offsets.items():
            pointer = f"/offsets/{printable(name)}"
            topic, number = _topic_partition(name, pointer)
            partition_of(plane.catalogue, topic, number, pointer)
            yield Wanted(topic, number, _at(place, topic, number, committed, plane, pointer))
        return
    for topic, number in _named(reset.topics, committed, plane.catalogue):
        if reset.to is not None:
            yield Wanted(topic, number, _at(reset.to, topic, number, committed, plane, "/to"))
        else:
            assert reset.to_time_ms is not None
            found = offset_at(plane, topic, number, reset.to_time_ms)
            yield Wanted(topic, number, _ends(plane, topic, number).end if found is None else found)


def _named(
    topics: Iterable[str] | None, committed: Committed, catalogue: Catalogue
) -> Iterator[tuple[str, int]]:
    """Partitions, each once."""
    if topics is None:
        if not committed:
            raise _bad("/topics", "The group has no offsets, so that topics has to say of which.")
        yield from ((topic, number) for topic, number in committed if catalogue.partition(topic, number))
        return
    done = set()
    for index, name in enumerate(topics):
        pointer = f"/topics/{index}"
        if catalogue.get(name) is None and _is_partition(name):
            topic, number = _topic_partition(name, pointer)
            partition_of(catalogue, topic, number, pointer)
            found = [number]
        else:
            topic = name
            found = list(range(len(topic_of(catalogue, name, pointer).partitions)))
        for number in found:
            if (topic, number) not in done:
                done.add((topic, number))
                yield topic, number


def _at(
    place: int | str, topic: str, number: int, committed: Committed, plane: DataPlane, pointer: str
) -> int:
    if isinstance(place, int):
        return place
    if place not in _PLACES and not _SHIFT.fullmatch(place):
        raise _bad(
            pointer,
            f"{printable(place)} is no place: write a number, {', '.join(_PLACES)}, or a shift as +5 or -5.",
        )
    ends = _ends(plane, topic, number)
    if place == "earliest":
        return ends.start
    if place == "latest":
        return ends.end
    before = committed.get((topic, number))
    if before is None:
        raise _bad(pointer, f"{printable(topic)}-{number} has no offset that {place} could begin at.")
    if place == "current":
        return before
    return max(ends.start, min(ends.end, before + int(place)))


def _ends(plane: DataPlane, topic: str, number: int) -> Ends:
    ends = ends_of(plane, topic, number)
    if ends is None:
        raise unknown_ends(plane, topic, number)
    return ends


def _is_partition(name: str) -> bool:
    topic, dash, number = name.rpartition("-")
    return bool(topic and dash and number.isascii() and number.isdigit() and len(number) < 10)


def _topic_partition(name: str, pointer: str) -> tuple[str, int]:
    if not _is_partition(name):
        raise _bad(pointer, f'{printable(name)} is no partition: write it as "orders-0".')
    topic, _, number = name.rpartition("-")
    return topic, int(number)


def _bad(pointer: str, detail: str) -> Problem:
    title = f"The body is wrong at {pointer}" if pointer else "The body is wrong"
    return Problem(ProblemKind.BAD_REQUEST, title, detail, {"pointer": pointer})
