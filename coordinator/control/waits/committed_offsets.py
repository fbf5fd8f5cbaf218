"""What a group has committed, as far as it is durable."""

from coordinator.control.asking import GroupAsker
from coordinator.control.problem import Problem
from coordinator.control.waits.sight import Offsets
from coordinator.group.requests import FetchOffsets
from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)

_VERSION = 8
"""The first of OffsetFetch that asks for several groups."""


async def committed_offsets(asker: GroupAsker, group_id: str) -> Offsets | None:
    """All of them. Out: when the disk has what they were committed with; None while the group cannot be asked."""
    answer = await _ask(asker, group_id, None)
    if answer is None:
        return None
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in answer.topics
        for partition in topic.partitions
    }


async def settled(asker: GroupAsker, group_id: str) -> None:
    """Waits until everything that a group has told by now is durable, or the group cannot be asked."""
    await _ask(asker, group_id, [])


async def _ask(
    asker: GroupAsker, group_id: str, topics: list[OffsetFetchRequestTopics] | None
) -> OffsetFetchResponseGroup | None:
    request = FetchOffsets(OffsetFetchRequestGroup(group_id=group_id, topics=topics))
    try:
        answer: OffsetFetchResponseGroup = await asker.ask(group_id, request, _VERSION)
    except Problem:
        return None
    return None if answer.error_code != ErrorCode.NONE else answer
