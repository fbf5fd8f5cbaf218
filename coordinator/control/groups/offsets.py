"""The committed offsets of a group: shown beside where the partitions end, and set while it has no members."""

from collections.abc import Sequence

from coordinator.control.acts import Acts
from coordinator.control.asking import GroupAsker
from coordinator.control.groups.groups import Groups
from coordinator.control.groups.offset_description import (
    GroupOffsets,
    OffsetChange,
    OffsetChanges,
    OffsetDescription,
)
from coordinator.control.groups.partition_ends import ends_of
from coordinator.control.groups.partitions_of import assignment_of
from coordinator.control.groups.refusal import refused
from coordinator.control.groups.reset import MOST, OffsetReset, Wanted, work_out
from coordinator.control.problem import Problem, ProblemKind
from coordinator.control.slices import Slices
from coordinator.group.requests import FetchOffsets
from coordinator.group.view import GroupView
from coordinator.net.peer import printable
from coordinator.topics.data_plane import DataPlane
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup

_FETCH_VERSION = 9
_COMMIT_VERSION = 9
_MOST_SAID = 5


class Offsets:
    """All methods belong to the event loop's thread."""

    def __init__(self, groups: Groups, asker: GroupAsker, plane: DataPlane, acts: Acts) -> None:
        self._groups = groups
        self._asker = asker
        self._plane = plane
        self._acts = acts

    async def describe(self, group_id: str) -> GroupOffsets:
        """How far a group is. Raises Problem (no-such-group, loading)."""
        view = self._groups.view(group_id)
        slices = Slices()
        committed = await self._committed(group_id)
        owners = _owners(view)
        found = []
        for topic, number in sorted(committed.keys() | owners.keys()):
            offset, metadata = committed.get((topic, number), (None, ""))
            ends = ends_of(self._plane, topic, number)
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
            await slices.rest()
        lags = [one.lag for one in found if one.lag is not None]
        return GroupOffsets(
            group_id=group_id, state=view.state, lag=sum(lags) if lags else None, offsets=found
        )

    async def reset(self, group_id: str, reset: OffsetReset, by: str | None) -> OffsetChanges:
        """Sets offsets of a group without members; it is made if there is none. In: who, in their own words. Raises
        Problem (bad-request, no-such-topic, not-possible, refused with Kafka's error, loading)."""
        view = self._groups.find(group_id)
        if view is not None and view.members:
            # What the commit would be answered: said of a dry run, too.
            raise refused(ErrorCode.UNKNOWN_MEMBER_ID, _what(group_id), view)
        committed = {key: offset for key, (offset, _) in (await self._committed(group_id)).items()}
        slices = Slices()
        wanted: list[Wanted] = []
        for one in work_out(reset, committed, self._plane):
            wanted.append(one)
            if len(wanted) > MOST:
                detail = f"One call sets {MOST} offsets at most."
                raise Problem(ProblemKind.BAD_REQUEST, "These are too many offsets", detail)
            await slices.rest()
        wanted.sort()
        if wanted and not reset.dry_run:
            await self._commit(group_id, wanted)
            self._acts.note("offsets", _said(wanted), group_id, by)
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

    async def _committed(self, group_id: str) -> dict[tuple[str, int], tuple[int, str]]:
        """Offset and metadata by topic and partition."""
        request = FetchOffsets(OffsetFetchRequestGroup(group_id=group_id, topics=None))
        answer: OffsetFetchResponseGroup = await self._asker.ask(group_id, request, _FETCH_VERSION)
        return {
            (topic.name, part.partition_index): (part.committed_offset, part.metadata or "")
            for topic in answer.topics
            for part in topic.partitions
        }

    async def _commit(self, group_id: str, wanted: Sequence[Wanted]) -> None:
        """As a consumer without group management."""
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for one in wanted:
            if one.topic not in topics:
                topic = self._plane.catalogue.get(one.topic)
                if topic is None:
                    raise Problem(ProblemKind.NO_SUCH_TOPIC, "A topic is gone", f"{one.topic} was deleted.")
                topics[one.topic] = OffsetCommitRequestTopic(
                    name=one.topic, topic_id=topic.topic_id, partitions=[]
                )
            topics[one.topic].partitions.append(
                OffsetCommitRequestPartition(partition_index=one.partition, committed_offset=one.offset)
            )
        request = OffsetCommitRequest(group_id=group_id, topics=list(topics.values()))
        response: OffsetCommitResponse = await self._asker.ask(group_id, request, _COMMIT_VERSION)
        codes = (part.error_code for topic in response.topics for part in topic.partitions)
        error = ErrorCode(next(filter(None, codes), ErrorCode.NONE))
        if error is not ErrorCode.NONE:
            raise refused(error, _what(group_id), self._groups.find(group_id))


def _owners(view: GroupView) -> dict[tuple[str, int], str]:
    """Who was assigned which partition: the last, where there are several."""
    return {
        (topic, number): member.name.member_id
        for member in view.members
        for topic, numbers in (assignment_of(view, member) or {}).items()
        for number in numbers
    }


def _what(group_id: str) -> str:
    return f"The offsets of {printable(group_id)} are not set"


def _said(wanted: Sequence[Wanted]) -> str:
    said = [f"{one.topic}-{one.partition}={one.offset}" for one in wanted[:_MOST_SAID]]
    more = f" and {len(wanted) - _MOST_SAID} more" if len(wanted) > _MOST_SAID else ""
    return f"set {', '.join(said)}{more}"
