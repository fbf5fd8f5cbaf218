"""Questions about offsets: commits, of members and of others, fetches, deletions."""

from collections.abc import Callable
from typing import Any, Final

from protocol.error_codes import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.hostile.wire.question import GROUPS, SIMPLE_GROUPS, TOPICS, Question, Stage, some_version
from tests.hostile.wire.reading import NO_OFFSET, Write

_MEMBERS_SINCE: Final = 1
_BY_NAME_UP_TO: Final = 9
_SEVERAL_GROUPS_SINCE: Final = 8


def _version_by_name(stage: Stage, request: type[Any], first: int = 0) -> int:
    return min(some_version(stage.chance, request, first), _BY_NAME_UP_TO)


def commit(stage: Stage) -> Question:
    """Of a member, or of a group without members."""
    chance, reading = stage.chance, stage.reading
    is_member = chance.random() < 0.5
    member = stage.some_member()
    group_id = member.group_id if is_member else chance.choice(SIMPLE_GROUPS)
    topic, partitions = chance.choice(list(TOPICS.items()))
    asked = reading.asks(group_id)
    writes: list[Write] = []
    parts: list[OffsetCommitRequestPartition] = []
    for number in chance.sample(range(partitions), chance.randint(1, partitions)):
        offset = next(stage.offsets)
        writes.append(reading.writes(asked, (group_id, topic, number), offset))
        text = chance.choice(("", "noted", "x" * 1000))
        parts.append(
            OffsetCommitRequestPartition(
                partition_index=number, committed_offset=offset, committed_metadata=text
            )
        )
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=member.generation_id if is_member else -1,
        member_id=member.member_id if is_member else "",
        topics=[OffsetCommitRequestTopic(name=topic, partitions=parts)],
    )

    def hear(answer: OffsetCommitResponse) -> None:
        for write, part in zip(writes, answer.topics[0].partitions, strict=True):
            reading.wrote(write, part.error_code)

    return Question(request, _version_by_name(stage, OffsetCommitRequest, _MEMBERS_SINCE), hear)


def fetch(stage: Stage) -> Question:
    """All offsets of a group that was named."""
    chance = stage.chance
    group_id = chance.choice(GROUPS + SIMPLE_GROUPS)
    version = _version_by_name(stage, OffsetFetchRequest)
    if version < _SEVERAL_GROUPS_SINCE:
        request = OffsetFetchRequest(
            group_id=group_id,
            topics=[
                OffsetFetchRequestTopic(name=topic, partition_indexes=list(range(partitions)))
                for topic, partitions in TOPICS.items()
            ],
        )
    else:
        topics = [
            OffsetFetchRequestTopics(name=topic, partition_indexes=list(range(partitions)))
            for topic, partitions in TOPICS.items()
        ]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)])
    asked = stage.reading.asks(group_id)

    def hear(answer: Any) -> None:
        topics = answer.topics if version < _SEVERAL_GROUPS_SINCE else answer.groups[0].topics
        assert sum(len(topic.partitions) for topic in topics) == sum(TOPICS.values())
        for topic in topics:
            for part in topic.partitions:
                assert part.error_code == ErrorCode.NONE
                place = (group_id, topic.name, part.partition_index)
                stage.reading.fetched(asked, place, part.committed_offset)

    return Question(request, version, hear)


def delete_offsets(stage: Stage) -> Question:
    """A deletion of offsets. A group with members refuses it, unless no member subscribes to the topic."""
    chance, reading = stage.chance, stage.reading
    group_id = chance.choice(SIMPLE_GROUPS)
    topic, partitions = chance.choice(list(TOPICS.items()))
    asked = reading.asks(group_id)
    writes = [reading.writes(asked, (group_id, topic, number), NO_OFFSET) for number in range(partitions)]
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=one) for one in range(partitions)],
            )
        ],
    )

    def hear(answer: OffsetDeleteResponse) -> None:
        if answer.error_code:
            for write in writes:
                reading.wrote(write, answer.error_code)
            return
        for write, part in zip(writes, answer.topics[0].partitions, strict=True):
            reading.wrote(write, part.error_code)

    return Question(request, 0, hear)


def delete_group(stage: Stage) -> Question:
    """One that has no members."""
    reading = stage.reading
    group_id = stage.chance.choice(SIMPLE_GROUPS)
    asked = reading.asks(group_id)
    places = [(group_id, topic, one) for topic, partitions in TOPICS.items() for one in range(partitions)]
    writes = [reading.writes(asked, place, NO_OFFSET) for place in places]

    def hear(answer: DeleteGroupsResponse) -> None:
        for write in writes:
            reading.wrote(write, answer.results[0].error_code)

    request = DeleteGroupsRequest(groups_names=[group_id])
    return Question(request, some_version(stage.chance, DeleteGroupsRequest), hear)


QUESTIONS: Final[tuple[Callable[[Stage], Question], ...]] = (
    commit,
    commit,
    fetch,
    fetch,
    delete_offsets,
    delete_group,
)
