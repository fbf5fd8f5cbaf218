"""The daemon's answers about its groups after the departure of all clients."""

from typing import Final

from protocol.error_codes import ErrorCode
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.broker.harness import Client
from tests.soak.promises import Place

_LIST_VERSION: Final = 4
_FETCH_VERSION: Final = 8


async def states(port: int) -> dict[str, str]:
    """Of all groups, by name."""
    async with Client(port=port) as client:
        answer = await client.call(ListGroupsRequest(), _LIST_VERSION)
    assert answer.error_code == ErrorCode.NONE, answer
    return {group.group_id: group.group_state for group in answer.groups}


async def offsets(port: int) -> dict[Place, tuple[int, str]]:
    """Every committed offset with its metadata."""
    found: dict[Place, tuple[int, str]] = {}
    groups = sorted(await states(port))
    async with Client(port=port) as client:
        asked = [OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups]
        answer = await client.call(OffsetFetchRequest(groups=asked), _FETCH_VERSION)
    for group in answer.groups:
        assert group.error_code == ErrorCode.NONE, group
        for topic in group.topics:
            for part in topic.partitions:
                place = (group.group_id, topic.name, part.partition_index)
                # confluent-kafka sends the end of its C string as well.
                found[place] = (part.committed_offset, (part.metadata or "").removesuffix("\0"))
    return found
