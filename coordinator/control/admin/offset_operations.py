"""Committed offsets of a group: described beside the start and end of each partition, and reset while the
group has no members.

A reset works like `kafka-consumer-groups --reset-offsets`: a shift or a time ends within the readable range.
An explicit offset is taken unchecked, so that a test can see the reaction of a consumer to an offset out of
range.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Final, NamedTuple

from msgspec import Meta, Struct

from coordinator.control.admin.group_models import (
    GroupOffsets,
    OffsetChange,
    OffsetChanges,
    OffsetDescription,
)
from coordinator.control.admin.group_operations import GroupOperations, refused_problem
from coordinator.control.consumer_protocol_payloads import read_assignment
from coordinator.control.group_client import InternalGroupClient
from coordinator.control.operator_actions import ActionLog
from coordinator.control.problem import Problem, ProblemKind
from coordinator.core.message_text import printable
from coordinator.core.time_budget import RunQueue, TimeBudget
from coordinator.core.wire_name import wire_name
from coordinator.group.group_requests import FetchOffsets
from coordinator.group.group_view import GroupView
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.data_plane import DataPlane
from coordinator.topics.topic import Topic
from protocol.error_codes import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from storage.storage_errors import StorageError
from storage.timestamp_lookup import LookupSteps, TimestampOffset


class PartitionEnds(NamedTuple):
    """The first readable offset of a partition, and the offset after the last readable record."""

    start: int
    end: int


def find_partition_ends(plane: DataPlane, topic: str, number: int) -> PartitionEnds | None:
    """Return the first and the end offset of a partition, or None if it does not exist, is offline, or belongs to
    another process."""
    partition = plane.find_local_partition(topic, number)
    if partition is None or partition.log is None:
        return None
    return PartitionEnds(partition.log.log_start_offset, partition.high_watermark)


async def find_offset_at_time(plane: DataPlane, topic: str, number: int, timestamp_ms: int) -> int | None:
    """Return the offset of the first record at or after a timestamp, as ListOffsets does.

    Return None without such a record, or if the log is not on this broker. Raises Problem for an unreadable log.
    """
    partition = plane.find_local_partition(topic, number)
    log = None if partition is None else partition.log
    if partition is None or log is None:
        return None
    found: TimestampOffset | None = None
    problem: StorageError | OSError | None = None
    try:
        found = await _call_in_threads(log.find_offset_for_timestamp(timestamp_ms))
    except (StorageError, OSError) as error:
        problem = error
    if plane.find_local_partition(topic, number) is not partition or partition.log is not log:
        # The topic was deleted, or the log was opened again, while a thread searched it.
        return await find_offset_at_time(plane, topic, number, timestamp_ms)
    if problem is not None:
        raise offline_problem(topic, number) from problem
    return None if found is None or found.offset >= partition.high_watermark else found.offset


async def _call_in_threads(lookup: LookupSteps) -> TimestampOffset | None:
    """Run a search by time, each step in a thread. Raises StorageError and OSError."""
    loop, result = asyncio.get_running_loop(), None
    while True:
        try:
            step = lookup.send(result)
        except StopIteration as end:
            found: TimestampOffset | None = end.value
            return found
        result = await loop.run_in_executor(None, step)


def get_topic(catalogue: Catalogue, name: str, pointer: str) -> Topic:
    """Return a topic. Raises Problem (no-such-topic) with the JSON pointer of the field."""
    topic = catalogue.find_topic(name)
    if topic is None:
        shown = printable(name)
        raise Problem(
            ProblemKind.NO_SUCH_TOPIC,
            f"Topic {shown} does not exist",
            f"Topic {shown} does not exist.",
            {"pointer": pointer},
        )
    return topic


def get_topic_of_partition(catalogue: Catalogue, name: str, number: int, pointer: str) -> Topic:
    """Return the topic of an existing partition. Raises Problem (no-such-topic) for any other partition."""
    topic = get_topic(catalogue, name, pointer)
    if not 0 <= number < len(topic.partitions):
        shown, count = printable(name), len(topic.partitions)
        title = f"Partition {shown}-{number} does not exist"
        raise Problem(
            ProblemKind.NO_SUCH_TOPIC,
            title,
            f"{title}: {shown} has {count}, from 0 to {count - 1}.",
            {"pointer": pointer},
        )
    return topic


def unknown_ends_problem(plane: DataPlane, topic: str, number: int) -> Problem:
    """Return the Problem that this broker does not know the start and the end of a partition."""
    if plane.catalogue.find_partition(topic, number) is None:
        return deleted_topic_problem(topic)
    if plane.find_local_partition(topic, number) is not None:
        return offline_problem(topic, number)
    name = f"{printable(topic)}-{number}"
    detail = (
        f"Another broker has {name}, so its start and end offsets are unknown here. Use an offset number."
    )
    return Problem(ProblemKind.NOT_POSSIBLE, f"Another broker has {name}", detail)


def deleted_topic_problem(topic: str) -> Problem:
    """Return the Problem that a topic was deleted during the call."""
    return Problem(ProblemKind.NO_SUCH_TOPIC, "A topic was deleted", f"{printable(topic)} was deleted.")


def offline_problem(topic: str, number: int) -> Problem:
    """Return the Problem that the log of a partition is offline."""
    name = f"{printable(topic)}-{number}"
    detail = f"The log of {name} is offline, so its start and end offsets are unknown."
    return Problem(ProblemKind.NOT_POSSIBLE, f"{name} is offline", detail)


MAX_OFFSETS: Final = 10_000
"""The maximum number of offsets that one call sets. They are one batch of the log."""
MAX_TOPICS: Final = 1_000
"""The maximum number of topics, or of single partitions, in one call."""
_SHIFT: Final = re.compile(r"[+-][0-9]{1,18}")
_POSITIONS: Final = ("earliest", "latest", "current")

Offset = Annotated[int, Meta(ge=0, le=2**63 - 1)]
OffsetPosition = Annotated[
    str, Meta(extra_json_schema={"pattern": rf"^({'|'.join(_POSITIONS)}|{_SHIFT.pattern})$"})
]


@wire_name("OffsetReset")
class OffsetReset(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """New offsets: either `offsets` by partition ("orders-0"), or one position `to` for all `topics`.

    A position is a number, "earliest", "latest", "current", or a shift of the committed offset ("+5", "-5").
    `to_time_ms` (Unix time) selects the first record at or after a time. `topics` are "orders" or "orders-0",
    by default all with a committed offset. `dry_run` only returns the new offsets.
    """

    offsets: Annotated[dict[str, Offset | OffsetPosition], Meta(max_length=MAX_OFFSETS)] | None = None
    to: Offset | OffsetPosition | None = None
    to_time_ms: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    topics: Annotated[list[str], Meta(max_length=MAX_TOPICS)] | None = None
    dry_run: bool = False


class TargetOffset(NamedTuple):
    """The new offset of one partition."""

    topic: str
    partition: int
    offset: int
    topic_id: bytes
    """The id of the topic for which the offset was computed. A new topic may get the same name meanwhile."""


CommittedOffsets = Mapping[tuple[str, int], int]
"""Offsets by topic and partition."""


async def compute_target_offsets(
    reset: OffsetReset, committed: CommittedOffsets, plane: DataPlane
) -> AsyncIterator[TargetOffset]:
    """Yield the offsets to set, one at a time. Raises Problem (bad-request, no-such-topic, not-possible)."""
    ways = [reset.offsets is not None, reset.to is not None, reset.to_time_ms is not None]
    if sum(ways) != 1:
        raise _invalid_body("", "Set exactly one of offsets, to and to_time_ms.")
    if reset.offsets is not None:
        if reset.topics:
            raise _invalid_body("/topics", "topics must not be set together with offsets.")
        for name, place in reset.offsets.items():
            pointer = f"/offsets/{printable(name)}"
            topic, number = _parse_partition(name, pointer)
            topic_id = get_topic_of_partition(plane.catalogue, topic, number, pointer).topic_id
            offset = _resolve_position(place, topic, number, committed, plane, pointer)
            yield TargetOffset(topic, number, offset, topic_id)
        return
    for topic, number in _select_partitions(reset.topics, committed, plane.catalogue):
        hosted = plane.catalogue.find_topic(topic)
        if hosted is None:
            raise deleted_topic_problem(topic)
        if reset.to is not None:
            offset = _resolve_position(reset.to, topic, number, committed, plane, "/to")
        else:
            assert reset.to_time_ms is not None
            found = await find_offset_at_time(plane, topic, number, reset.to_time_ms)
            offset = _get_ends(plane, topic, number).end if found is None else found
        yield TargetOffset(topic, number, offset, hosted.topic_id)


def _select_partitions(
    topics: Iterable[str] | None, committed: CommittedOffsets, catalogue: Catalogue
) -> Iterator[tuple[str, int]]:
    """Yield the selected partitions, each once."""
    if topics is None:
        if not committed:
            raise _invalid_body("/topics", "The group has no offsets: name topics.")
        yield from ((topic, number) for topic, number in committed if catalogue.find_partition(topic, number))
        return
    done = set()
    for index, name in enumerate(topics):
        pointer = f"/topics/{index}"
        if catalogue.find_topic(name) is None and _is_partition(name):
            topic, number = _parse_partition(name, pointer)
            get_topic_of_partition(catalogue, topic, number, pointer)
            found = [number]
        else:
            topic = name
            found = list(range(len(get_topic(catalogue, name, pointer).partitions)))
        for number in found:
            if (topic, number) not in done:
                done.add((topic, number))
                yield topic, number


def _resolve_position(
    place: int | str, topic: str, number: int, committed: CommittedOffsets, plane: DataPlane, pointer: str
) -> int:
    if isinstance(place, int):
        return place
    if place not in _POSITIONS and not _SHIFT.fullmatch(place):
        raise _invalid_body(
            pointer,
            f"{printable(place)} must be a number, {', '.join(_POSITIONS)}, or a shift such as +5 or -5.",
        )
    ends = _get_ends(plane, topic, number)
    if place == "earliest":
        return ends.start
    if place == "latest":
        return ends.end
    before = committed.get((topic, number))
    if before is None:
        raise _invalid_body(
            pointer, f"{printable(topic)}-{number} has no committed offset from which {place} can count."
        )
    if place == "current":
        return before
    return max(ends.start, min(ends.end, before + int(place)))


def _get_ends(plane: DataPlane, topic: str, number: int) -> PartitionEnds:
    ends = find_partition_ends(plane, topic, number)
    if ends is None:
        raise unknown_ends_problem(plane, topic, number)
    return ends


def _is_partition(name: str) -> bool:
    topic, dash, number = name.rpartition("-")
    return bool(topic and dash and number.isascii() and number.isdigit() and len(number) < 10)


def _parse_partition(name: str, pointer: str) -> tuple[str, int]:
    if not _is_partition(name):
        raise _invalid_body(pointer, f'{printable(name)} is not a partition: write it as "orders-0".')
    topic, _, number = name.rpartition("-")
    return topic, int(number)


def _invalid_body(pointer: str, detail: str) -> Problem:
    title = f"The body is invalid at {pointer}" if pointer else "The body is invalid"
    return Problem(ProblemKind.BAD_REQUEST, title, detail, {"pointer": pointer})


_FETCH_VERSION = 9
_COMMIT_VERSION = 9
_MAX_LISTED = 5


class OffsetOperations:
    """Describes and resets committed offsets. All methods belong to the event loop's thread."""

    def __init__(
        self,
        groups: GroupOperations,
        group_client: InternalGroupClient,
        plane: DataPlane,
        actions: ActionLog,
        run_queue: RunQueue,
    ) -> None:
        self._groups = groups
        self._group_client = group_client
        self._plane = plane
        self._actions = actions
        self._run_queue = run_queue

    async def describe_offsets(self, group_id: str) -> GroupOffsets:
        """Return the offsets and lags of a group. Raises Problem (no-such-group, loading)."""
        view = self._groups.get_group(group_id)
        committed = await self._fetch_committed(group_id)
        budget = TimeBudget(self._run_queue)
        owners = _find_owners(view)
        found = []
        for topic, number in sorted(committed.keys() | owners.keys()):
            offset, metadata = committed.get((topic, number), (None, ""))
            ends = find_partition_ends(self._plane, topic, number)
            found.append(
                OffsetDescription(
                    topic=topic,
                    partition=number,
                    offset=offset,
                    metadata=metadata,
                    log_start_offset=None if ends is None else ends.start,
                    end_offset=None if ends is None else ends.end,
                    lag=None if ends is None or offset is None else max(0, ends.end - offset),
                    member_id=owners.get((topic, number)),
                )
            )
            await budget.checkpoint()
        lags = [one.lag for one in found if one.lag is not None]
        return GroupOffsets(
            group_id=group_id, state=view.state, lag=sum(lags) if lags else None, offsets=found
        )

    async def reset_offsets(self, group_id: str, reset: OffsetReset, by: str | None) -> OffsetChanges:
        """Set offsets of a group without members, and create a missing group. `by` names the operator.

        Raises:
            Problem: bad-request, no-such-topic, not-possible, refused (with Kafka's error), loading.
        """
        view = self._groups.find_group(group_id)
        if view is not None and view.members:
            # A commit would get this error. A dry run reports it, too.
            raise refused_problem(ErrorCode.UNKNOWN_MEMBER_ID, _failure_title(group_id), view)
        committed = {key: offset for key, (offset, _) in (await self._fetch_committed(group_id)).items()}
        budget = TimeBudget(self._run_queue)
        wanted: list[TargetOffset] = []
        async for one in compute_target_offsets(reset, committed, self._plane):
            wanted.append(one)
            if len(wanted) > MAX_OFFSETS:
                detail = f"One call sets at most {MAX_OFFSETS} offsets."
                raise Problem(ProblemKind.BAD_REQUEST, "Too many offsets", detail)
            await budget.checkpoint()
        wanted.sort()
        if wanted and not reset.dry_run:
            await self._commit_offsets(group_id, wanted)
            self._actions.record_action("offsets", _format_changes(wanted), group_id, by)
        return OffsetChanges(
            group_id=group_id,
            dry_run=reset.dry_run,
            offsets=[
                OffsetChange(
                    topic=one.topic,
                    partition=one.partition,
                    before=committed.get((one.topic, one.partition)),
                    offset=one.offset,
                )
                for one in wanted
            ],
        )

    async def _fetch_committed(self, group_id: str) -> dict[tuple[str, int], tuple[int, str]]:
        """Return the committed offset and its metadata by topic and partition."""
        request = FetchOffsets(OffsetFetchRequestGroup(group_id=group_id, topics=None))
        answer: OffsetFetchResponseGroup = await self._group_client.request(group_id, request, _FETCH_VERSION)
        return {
            (topic.name, part.partition_index): (part.committed_offset, part.metadata or "")
            for topic in answer.topics
            for part in topic.partitions
        }

    async def _commit_offsets(self, group_id: str, wanted: Sequence[TargetOffset]) -> None:
        """Commit offsets as a consumer without group management."""
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for one in wanted:
            if one.topic not in topics:
                topic = self._plane.catalogue.find_topic(one.topic)
                if topic is None or topic.topic_id != one.topic_id:
                    raise deleted_topic_problem(one.topic)
                topics[one.topic] = OffsetCommitRequestTopic(
                    name=one.topic, topic_id=topic.topic_id, partitions=[]
                )
            topics[one.topic].partitions.append(
                OffsetCommitRequestPartition(partition_index=one.partition, committed_offset=one.offset)
            )
        request = OffsetCommitRequest(group_id=group_id, topics=list(topics.values()))
        response: OffsetCommitResponse = await self._group_client.request(group_id, request, _COMMIT_VERSION)
        codes = (part.error_code for topic in response.topics for part in topic.partitions)
        error = ErrorCode(next(filter(None, codes), ErrorCode.NONE))
        if error is not ErrorCode.NONE:
            raise refused_problem(error, _failure_title(group_id), self._groups.find_group(group_id))


def _find_owners(view: GroupView) -> dict[tuple[str, int], str]:
    """Return the owner of each partition, the last one if there are several."""
    return {
        (topic, number): member.name.member_id
        for member in view.members
        for topic, numbers in (read_assignment(view, member) or {}).items()
        for number in numbers
    }


def _failure_title(group_id: str) -> str:
    return f"The offsets of {printable(group_id)} are not set"


def _format_changes(wanted: Sequence[TargetOffset]) -> str:
    changes = [f"{one.topic}-{one.partition}={one.offset}" for one in wanted[:_MAX_LISTED]]
    more = f" and {len(wanted) - _MAX_LISTED} more" if len(wanted) > _MAX_LISTED else ""
    return f"set {', '.join(changes)}{more}"
