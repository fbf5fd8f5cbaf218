"""Topics of offset requests: resolved, filtered, and put back where the request named them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from coordinator.apis.offset_handlers import OffsetFetchHandler
from coordinator.broker.server import Server
from coordinator.core.time_budget import TimeBudget
from protocol.error_codes import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.broker.harness import Client, join_alone, serving

UNKNOWN = bytes(15) + b"\7"


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving(topics=[("orders", 3), ("payments", 1)]) as server:
        yield server


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    async with Client(server) as client:
        yield client


def topic_id(server: Server, name: str) -> bytes:
    topic = server.data_plane.catalogue.find_topic(name)
    assert topic is not None
    return topic.topic_id


def commit(
    topics: dict[str | bytes, list[int]], *, group: str = "g", member_id: str = "", generation_id: int = -1
) -> OffsetCommitRequest:
    """Commits offset 10 + partition to each partition of each topic, by name or id."""
    asked = []
    for topic, partitions in topics.items():
        parts = [
            OffsetCommitRequestPartition(
                partition_index=number, committed_offset=10 + number, committed_metadata="m"
            )
            for number in partitions
        ]
        if isinstance(topic, str):
            asked.append(OffsetCommitRequestTopic(name=topic, partitions=parts))
        else:
            asked.append(OffsetCommitRequestTopic(topic_id=topic, partitions=parts))
    return OffsetCommitRequest(
        group_id=group, member_id=member_id, generation_id_or_member_epoch=generation_id, topics=asked
    )


def errors(answer: Any) -> dict[object, dict[int, int]]:
    return {
        topic.name or topic.topic_id: {part.partition_index: part.error_code for part in topic.partitions}
        for topic in answer.topics
    }


@pytest.mark.parametrize("version", range(10))
async def test_unknown_partitions_are_refused_and_the_others_committed(client: Client, version: int) -> None:
    answer = await client.call(commit({"orders": [0, 2, 3, -1], "nowhere": [0], "payments": [0]}), version)
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors(answer) == {
        "orders": {0: 0, 2: 0, 3: missing, -1: missing},
        "nowhere": {0: missing},
        "payments": {0: 0},
    }
    fetched = await client.call(OffsetFetchRequest(group_id="g", topics=None), 2)
    offsets = {
        topic.name: {p.partition_index: p.committed_offset for p in topic.partitions}
        for topic in fetched.topics
    }
    assert offsets == {"orders": {0: 10, 2: 12}, "payments": {0: 10}}


@pytest.mark.parametrize("known", [{}, {"orders": [0]}])
async def test_a_refused_topic_that_is_named_twice_is_answered_once(
    client: Client, known: dict[str | bytes, list[int]]
) -> None:
    request = commit({"orders": [7], "nowhere": [0], **known})
    request.topics += commit({"nowhere": [1], "orders": [8]}).topics
    answer = await client.call(request, 9)
    assert sorted(topic.name for topic in answer.topics) == ["nowhere", "orders"]
    assert errors(answer)["nowhere"].keys() == {0, 1}


async def test_topics_by_id(server: Server, client: Client) -> None:
    orders = topic_id(server, "orders")
    answer = await client.call(commit({orders: [0, 7], UNKNOWN: [0]}), 10)
    assert errors(answer) == {
        orders: {0: 0, 7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
        UNKNOWN: {0: ErrorCode.UNKNOWN_TOPIC_ID},
    }
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(
                group_id="g",
                topics=[
                    OffsetFetchRequestTopics(topic_id=UNKNOWN, partition_indexes=[4]),
                    OffsetFetchRequestTopics(topic_id=orders, partition_indexes=[0, 1]),
                ],
            ),
            OffsetFetchRequestGroup(group_id="g", topics=None),
        ]
    )
    some, everything = (await client.call(request, 10)).groups
    found = {
        topic.topic_id: [(p.partition_index, p.committed_offset, p.error_code) for p in topic.partitions]
        for topic in some.topics
    }
    assert found == {
        UNKNOWN: [(4, -1, ErrorCode.UNKNOWN_TOPIC_ID)],
        orders: [(0, 10, 0), (1, -1, 0)],
    }
    assert [topic.topic_id for topic in everything.topics] == [orders]


@pytest.mark.parametrize("version", [2, 9])
async def test_a_commit_of_nothing_that_exists_never_consults_the_group(client: Client, version: int) -> None:
    stranger = {"member_id": "stranger", "generation_id": 5}
    answer = await client.call(commit({"nowhere": [0]}, **stranger), version)  # type: ignore[arg-type]
    assert errors(answer) == {"nowhere": {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}}
    known = await client.call(commit({"orders": [0]}, **stranger), version)  # type: ignore[arg-type]
    assert errors(known)["orders"][0] != ErrorCode.NONE
    empty = await client.call(commit({}, **stranger), version)  # type: ignore[arg-type]
    assert empty.topics == []
    assert (await client.call(ListGroupsRequest(), 0)).groups == []


@pytest.mark.parametrize("version", range(8))
async def test_every_single_form_of_offset_fetch(client: Client, version: int) -> None:
    await client.call(commit({"orders": [1]}), 2)
    topics = [OffsetFetchRequestTopic(name="orders", partition_indexes=[1, 2])]
    answer = await client.call(OffsetFetchRequest(group_id="g", topics=topics), version)
    assert answer.error_code == ErrorCode.NONE
    parts = [
        (p.partition_index, p.committed_offset, p.metadata, p.error_code) for p in answer.topics[0].partitions
    ]
    assert parts == [(1, 11, "m", 0), (2, -1, "", 0)]


@pytest.mark.parametrize("version", [7, 9, 10])
async def test_a_topic_of_more_partitions_than_a_step_has_one_entry(
    server: Server, client: Client, version: int
) -> None:
    await client.call(commit({"orders": [0, 2], "payments": [0]}), 2)
    wanted = {"orders": list(range(2_100)), "nowhere": [5], "payments": [0, 1], "missing": list(range(1_100))}
    ids = dict.fromkeys(wanted, UNKNOWN) | {name: topic_id(server, name) for name in ("orders", "payments")}
    topics = [
        OffsetFetchRequestTopics(name=name, topic_id=ids[name], partition_indexes=partitions)
        for name, partitions in wanted.items()
    ]
    if version == 7:
        single = [
            OffsetFetchRequestTopic(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in topics
        ]
        found = (await client.call(OffsetFetchRequest(group_id="g", topics=single), version)).topics
    else:
        group = OffsetFetchRequestGroup(group_id="g", topics=topics)
        found = (await client.call(OffsetFetchRequest(groups=[group]), version)).groups[0].topics
    numbers = [[part.partition_index for part in topic.partitions] for topic in found]
    assert sorted(numbers) == sorted(wanted.values())
    offsets = {
        (len(topic.partitions), part.partition_index): part.committed_offset
        for topic in found
        for part in topic.partitions
        if part.committed_offset >= 0
    }
    assert offsets == {(2_100, 0): 10, (2_100, 2): 12, (2, 0): 10}
    if version < 10:
        assert [topic.name for topic in found] == list(wanted)


@pytest.mark.parametrize("version", [8, 9])
async def test_several_groups_at_once_in_the_order_asked_for(client: Client, version: int) -> None:
    names = [f"g{number}" for number in range(8)]
    for name in names[::2]:
        await client.call(commit({"orders": [0]}, group=name), 2)
    groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in [*names, names[0]]]
    answer = await client.call(OffsetFetchRequest(groups=groups), version)
    found = [(group.group_id, len(group.topics)) for group in answer.groups]
    assert found == [*((name, 1 - number % 2) for number, name in enumerate(names)), (names[0], 1)]


async def test_deleting_offsets(client: Client) -> None:
    def request(group: str, topics: dict[str, list[int]]) -> OffsetDeleteRequest:
        return OffsetDeleteRequest(
            group_id=group,
            topics=[
                OffsetDeleteRequestTopic(
                    name=name,
                    partitions=[OffsetDeleteRequestPartition(partition_index=part) for part in parts],
                )
                for name, parts in topics.items()
            ],
        )

    await client.call(commit({"orders": [0, 1]}), 2)
    answer = await client.call(request("g", {"orders": [0, 9], "nowhere": [0]}), 0)
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.error_code == ErrorCode.NONE
    assert errors(answer) == {"orders": {0: 0, 9: missing}, "nowhere": {0: missing}}
    fetched = await client.call(OffsetFetchRequest(group_id="g", topics=None), 2)
    assert [p.partition_index for p in fetched.topics[0].partitions] == [1]
    for group, error in (("absent", ErrorCode.GROUP_ID_NOT_FOUND), ("", ErrorCode.INVALID_GROUP_ID)):
        refused = await client.call(request(group, {"nowhere": [0]}), 0)
        assert (refused.error_code, refused.topics) == (error, [])


async def test_groups_are_described_and_deleted_in_the_order_asked_for(client: Client) -> None:
    names = [f"g{number}" for number in range(6)]
    for name in names:
        await client.call(commit({"orders": [0]}, group=name), 2)
    asked = [names[4], "absent", names[1], names[4]]
    described = (await client.call(DescribeGroupsRequest(groups=asked), 5)).groups
    assert [(g.group_id, g.group_state) for g in described] == [
        (names[4], "Empty"),
        ("absent", "Dead"),
        (names[1], "Empty"),
        (names[4], "Empty"),
    ]
    deleted = (await client.call(DeleteGroupsRequest(groups_names=asked), 1)).results
    assert [(r.group_id, r.error_code) for r in deleted] == [
        (names[4], 0),
        ("absent", ErrorCode.GROUP_ID_NOT_FOUND),
        (names[1], 0),
    ]
    left = (await client.call(ListGroupsRequest(), 4)).groups
    assert {group.group_id for group in left} == {names[0], names[2], names[3], names[5]}
    assert (await client.call(DescribeGroupsRequest(groups=[]), 5)).groups == []
    assert (await client.call(DeleteGroupsRequest(groups_names=[]), 1)).results == []


async def test_groups_are_listed_by_state(client: Client) -> None:
    await join_alone(client, "live")
    await client.call(commit({"orders": [0]}, group="simple"), 2)

    async def listed(*states: str) -> set[str]:
        answer = await client.call(ListGroupsRequest(states_filter=list(states)), 4)
        return {group.group_id for group in answer.groups}

    assert await listed() == {"live", "simple"}
    assert await listed("stable") == {"live"}
    assert await listed("Empty", "Stable") == {"live", "simple"}
    assert await listed("no such state") == set()


async def test_the_offsets_of_each_group_are_joined_in_a_step_of_their_own(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From v10 on the handler replaces names by ids in the answer of each group."""
    groups = [f"g{number}" for number in range(20)]
    for group in groups:
        await client.call(commit({"orders": [0]}, group=group), 9)
    steps: list[int] = [0]
    add_ids = OffsetFetchHandler._add_ids

    def count_group(*arguments: Any) -> Any:
        steps[-1] += 1
        return add_ids(*arguments)

    async def begin_step(_: TimeBudget) -> None:
        steps.append(0)

    monkeypatch.setattr(OffsetFetchHandler, "_add_ids", count_group)
    monkeypatch.setattr(TimeBudget, "checkpoint", begin_step)
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups]
    )
    fetched = await client.call(request, 10)
    assert [len(group.topics) for group in fetched.groups] == [1] * len(groups)
    assert sum(steps) == len(groups)
    assert max(steps) == 1
