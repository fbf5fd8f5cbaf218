"""Where the partitions of topics begin and end, for who shows offsets or sets them."""

from typing import NamedTuple

from coordinator.control.problem import Problem, ProblemKind
from coordinator.net.peer import printable
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.data_plane import DataPlane
from coordinator.topics.topic import Topic
from storage.errors import StorageError


class Ends(NamedTuple):
    """The first offset that can be read, and the one after the last."""

    start: int
    end: int


def ends_of(plane: DataPlane, topic: str, number: int) -> Ends | None:
    """Of one partition; None where there is none, its log does not work, or another process has it."""
    partition = plane.here(topic, number)
    if partition is None or partition.log is None:
        return None
    return Ends(partition.log.log_start_offset, partition.high_watermark)


def offset_at(plane: DataPlane, topic: str, number: int, timestamp_ms: int) -> int | None:
    """The first record of that time or later, as ListOffsets finds it; None where there is none, or the log is not
    here. Raises Problem where the log cannot be read."""
    partition = plane.here(topic, number)
    if partition is None or partition.log is None:
        return None
    try:
        found = partition.log.offset_for_timestamp(timestamp_ms)
    except (StorageError, OSError) as error:
        raise offline(topic, number) from error
    return None if found is None or found.offset >= partition.high_watermark else found.offset


def topic_of(catalogue: Catalogue, name: str, pointer: str) -> Topic:
    """Raises Problem (no-such-topic), naming the field that named it."""
    topic = catalogue.get(name)
    if topic is None:
        shown = printable(name)
        raise Problem(
            ProblemKind.NO_SUCH_TOPIC,
            f"There is no topic {shown}",
            f"There is no topic {shown}.",
            {"pointer": pointer},
        )
    return topic


def partition_of(catalogue: Catalogue, name: str, number: int, pointer: str) -> Topic:
    """The topic of a partition that is there. Raises Problem (no-such-topic)."""
    topic = topic_of(catalogue, name, pointer)
    if not 0 <= number < len(topic.partitions):
        shown, count = printable(name), len(topic.partitions)
        title = f"There is no partition {shown}-{number}"
        raise Problem(
            ProblemKind.NO_SUCH_TOPIC,
            title,
            f"{title}: {shown} has {count}, from 0 to {count - 1}.",
            {"pointer": pointer},
        )
    return topic


def unknown_ends(plane: DataPlane, topic: str, number: int) -> Problem:
    """Why nobody here knows where a partition that is there begins and ends."""
    if plane.here(topic, number) is not None:
        return offline(topic, number)
    name = f"{printable(topic)}-{number}"
    detail = (
        f"{name} is another broker's, which alone knows where it begins and ends. A number can be set here."
    )
    return Problem(ProblemKind.NOT_POSSIBLE, f"{name} is another broker's", detail)


def offline(topic: str, number: int) -> Problem:
    """The log of a partition does not work."""
    name = f"{printable(topic)}-{number}"
    detail = f"The log of {name} does not work now, so that nobody knows where it begins and ends."
    return Problem(ProblemKind.NOT_POSSIBLE, f"{name} is offline", detail)
