"""Groups over HTTP, for a group with members."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final
from urllib.parse import quote

import pytest

from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
    encode_assignment,
    encode_subscription,
)
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.harness import Client, sync_request
from tests.http.api.api_port import Api, serving_api
from tests.http.test_http import Caller

GROUP: Final = "/v1/groups/billing"


def subscription(*topics: str) -> bytes:
    return encode_subscription(ConsumerProtocolSubscription(topics=list(topics)), 0)


def assignment(partitions: Mapping[str, list[int]]) -> bytes:
    assigned = [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in partitions.items()]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=assigned), 0)


def join(
    group: str, instance: str | None = None, metadata: bytes = subscription("orders")
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )


@asynccontextmanager
async def members(
    api: Api, *clients: tuple[str, str | None], owned: Mapping[int, Mapping[str, list[int]]]
) -> AsyncIterator[list[str]]:
    """Make group billing Stable and yield its member ids. `clients` are client and instance ids; `owned` are the
    partitions by position.
    """
    async with AsyncExitStack() as stack:
        connections = [await stack.enter_async_context(Client(api.server, name)) for name, _ in clients]
        for connection, (_, instance) in zip(connections, clients, strict=True):
            connection.send(join("billing", instance), 3 if instance is None else 5)
        joined = [await connection.receive() for connection in connections]
        leader, generation = joined[0].leader, joined[0].generation_id
        ids = [answer.member_id for answer in joined]
        assigned = {ids[number]: assignment(partitions) for number, partitions in owned.items()}
        for connection, member in zip(connections, ids, strict=True):
            given = assigned if member == leader else None
            connection.send(sync_request("billing", member, generation, given), 3)
        for connection in connections:
            assert (await connection.receive()).error_code == 0
        yield ids


async def commit(api: Api, group: str, offset: int) -> None:
    """As a consumer without group management."""
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name="orders", partitions=[part])]
    )
    async with Client(api.server) as client:
        answer = await client.call(request, 2)
        assert answer.topics[0].partitions[0].error_code == 0


async def test_a_group_with_its_members_and_what_nobody_has() -> None:
    async with serving_api(None, {"group.initial.rebalance.delay.ms": "300"}) as api:
        owned = {0: {"orders": [0]}, 1: {"orders": [2]}}
        async with members(api, ("alice", None), ("bob", "bob-1"), owned=owned) as (alice, bob):
            answer = await api.call("GET", GROUP)
            group = answer.value
            assert answer.status == 200
            assert (group["state"], group["generation_id"], group["protocol_name"]) == ("Stable", 1, "range")
            assert group["unowned"] == {"orders": [1]}
            assert group["rebalance"] is None
            by_id = {member["member_id"]: member for member in group["members"]}
            assert by_id.keys() == {alice, bob}
            assert by_id[alice]["assignment"] == {"orders": [0]}
            assert by_id[bob]["subscription"] == ["orders"]
            assert by_id[bob]["group_instance_id"] == "bob-1"
            assert all(member["is_connected"] for member in group["members"])
            assert [member["is_leader"] for member in group["members"]].count(True) == 1
            for reference, expected in (("alice", alice), (alice, alice), ("bob-1", bob), ("bob", bob)):
                found = (await api.call("GET", f"{GROUP}/members/{reference}")).value
                assert found.keys() == by_id[expected].keys()
                assert found["member_id"] == expected
            missing = await api.call("GET", f"{GROUP}/members/carol")
            assert missing.problem == "no-such-member"
            assert "alice" in missing.value["detail"]


async def test_a_name_of_several_members_is_asked_back() -> None:
    async with (
        serving_api(None, {"group.initial.rebalance.delay.ms": "300"}) as api,
        members(api, ("twin", None), ("twin", None), owned={}) as ids,
    ):
        answer = await api.call("GET", f"{GROUP}/members/twin")
        assert answer.problem == "ambiguous-member"
        assert sorted(answer.value["candidates"]) == sorted(ids)


async def test_groups_are_listed_by_state_and_prefix() -> None:
    async with serving_api() as api:
        for name in ("audit", "bills", "billing-2"):
            await commit(api, name, 1)
        async with members(api, ("alice", None), owned={}):

            async def listed(query: str) -> list[str]:
                answer = await api.call("GET", f"/v1/groups?{query}")
                return [group["group_id"] for group in answer.value["groups"]]

            assert await listed("") == ["audit", "billing", "billing-2", "bills"]
            assert await listed("state=Stable") == ["billing"]
            assert await listed("state=empty&prefix=billing") == ["billing-2"]
            assert await listed("prefix=x") == []


async def test_only_a_group_without_members_is_deleted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with serving_api() as api:
        async with members(api, ("alice", None), owned={}):
            refused = await api.call("DELETE", GROUP)
            assert (refused.status, refused.problem) == (409, "refused")
            assert refused.value["error"] == "NON_EMPTY_GROUP"
            assert "alice" in refused.value["detail"]
        await commit(api, "audit", 1)
        deleted = await api.call("DELETE", "/v1/groups/audit", headers={"X-Groupd-Actor": "the\u202e team"})
        assert (deleted.status, deleted.body) == (204, b"")
        assert (await api.call("GET", "/v1/groups/audit")).problem == "no-such-group"
        assert (await api.call("DELETE", "/v1/groups/audit")).problem == "no-such-group"
    lines = [record.getMessage() for record in caplog.records if record.name == "Control"]
    assert lines == [line for line in lines if line.isprintable()]
    assert sum("audit" in line and "team" in line for line in lines) == 1
    assert not any("billing" in line for line in lines)


async def test_members_whose_bytes_say_nothing_are_shown_all_the_same() -> None:
    async with serving_api() as api, Client(api.server, "strange") as client:
        joined = await client.call(join("billing", metadata=b"\xff\xff"), 3)
        data = {joined.member_id: b"\0\0\0\0\0\1"}
        await client.call(sync_request("billing", joined.member_id, 1, data), 3)
        (member,) = (await api.call("GET", GROUP)).value["members"]
        assert (member["subscription"], member["assignment"]) == (None, None)
        assert (await api.call("GET", GROUP)).value["unowned"] == {}


async def test_an_assignment_has_no_topics_without_partitions() -> None:
    """Some assignors list every subscribed topic."""
    async with serving_api() as api:
        owned = {0: {"clicks": [], "orders": [0, 1, 2]}}
        async with members(api, ("alice", None), owned=owned):
            (member,) = (await api.call("GET", GROUP)).value["members"]
            assert member["assignment"] == {"orders": [0, 1, 2]}
            (entry,) = (await api.call("GET", f"{GROUP}/ledger")).value["entries"]
            assert entry["members"][0]["owned"] == {"orders": [0, 1, 2]}


async def test_a_member_whose_connection_is_gone_says_so() -> None:
    async with serving_api() as api:
        async with members(api, ("alice", None), owned={0: {"orders": [0, 1, 2]}}):
            assert (await api.call("GET", f"{GROUP}/members/alice")).value["is_connected"]
        await asyncio.wait_for(api.server.connections.emptied.wait(), 60)
        member = (await api.call("GET", f"{GROUP}/members/alice")).value
        assert not member["is_connected"]
        assert member["connection_closed_ms_ago"] >= 0


@pytest.mark.parametrize("name", ["{billing}", "a/b", "..", ".", "ä b", "%2F", "a%", "x?y#z", "wait"])
async def test_a_group_of_any_name_is_found(name: str) -> None:
    async with serving_api() as api:
        path = f"/v1/groups/{quote(name, safe='').replace('.', '%2E')}"
        async with Caller(api.port) as caller:
            # A client library would have words of its own for such a path.
            body = b'{"to": "latest", "topics": ["orders-0"]}'
            head = f"PUT {path}/offsets HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            caller.writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            assert b" 200 " in await asyncio.wait_for(caller.reader.readline(), 60)
        (group,) = (await api.call("GET", "/v1/groups")).value["groups"]
        assert group["group_id"] == name


async def test_a_subscription_that_is_too_large_is_not_shown() -> None:
    async with serving_api() as api, Client(api.server, "large") as client:
        joined = await client.call(join("billing", metadata=subscription(*["orders"] * 50_000)), 3)
        assert joined.error_code == 0
        (described,) = (await api.call("GET", GROUP)).value["members"]
        assert (described["subscription"], described["is_subscription_too_large"]) == (None, True)
        assert (await api.call("GET", f"{GROUP}/explain")).status == 200
