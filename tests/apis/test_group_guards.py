"""Members, described groups, coordinators: rejected and hidden groups, and their order."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from coordinator.security.core.acl import AclOperation
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.sync_group import SyncGroupRequest
from tests.apis.authorized_clients import (
    CLUSTER,
    GROUP,
    TOPIC,
    TRANSACTIONAL_ID,
    admin_and_alice,
    allow,
    authorizing,
)
from tests.broker.harness import Client, join_alone, join_request

NONE, DENIED = ErrorCode.NONE, ErrorCode.GROUP_AUTHORIZATION_FAILED
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
SYNC = SyncGroupRequest(
    group_id="g",
    generation_id=1,
    member_id="m",
    protocol_type="consumer",
    protocol_name="range",
    assignments=[],
)
LEAVE = LeaveGroupRequest(group_id="g", member_id="m", members=[MemberIdentity(member_id="m")])


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        *((join_request("g", "m"), version) for version in (0, 5, 9)),
        *((SYNC, version) for version in (0, 5)),
        *((HEARTBEAT, version) for version in (0, 4)),
        *((LEAVE, version) for version in (0, 2, 3, 5)),
    ],
)
async def test_a_member_needs_read_before_anybody_looks_for_its_group(
    monkeypatch: pytest.MonkeyPatch, request_: Any, version: int
) -> None:
    async with authorizing(monkeypatch) as server, Client(server, "alice") as alice:
        await allow(server, "alice", AclOperation.DESCRIBE, GROUP, "g")
        assert (await alice.call(request_, version)).error_code == DENIED
        await allow(server, "alice", AclOperation.READ, GROUP, "g")
        assert (await alice.call(request_, version)).error_code != DENIED


async def test_a_sync_without_its_protocol_is_told_so_first(monkeypatch: pytest.MonkeyPatch) -> None:
    async with authorizing(monkeypatch) as server, Client(server, "alice") as alice:
        request = SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=[])
        assert (await alice.call(request, 5)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert (await alice.call(request, 4)).error_code == DENIED


async def test_a_join_is_parked_and_answered_behind_its_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = {"group.initial.rebalance.delay.ms": "50"}
    async with authorizing(monkeypatch, properties) as server, Client(server, "alice") as alice:
        await allow(server, "alice", AclOperation.READ, GROUP, "g")
        await join_alone(alice, "g")


async def test_groups_that_may_not_be_described_come_first_and_say_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with admin_and_alice(monkeypatch) as (server, admin, alice):
        await allow(server, "alice", AclOperation.DESCRIBE, GROUP, "mine")
        await allow(server, "alice", AclOperation.READ, GROUP, "mine")
        await join_alone(admin, "mine")
        await join_alone(admin, "theirs")
        request = DescribeGroupsRequest(groups=["mine", "theirs", "none"], include_authorized_operations=True)
        answer = await alice.call(request, 5)
        assert [(group.group_id, group.error_code) for group in answer.groups] == [
            ("theirs", DENIED),
            ("none", DENIED),
            ("mine", NONE),
        ]
        refused, _, mine = answer.groups
        assert (refused.group_state, refused.members, refused.authorized_operations) == ("", [], -(2**31))
        assert mine.group_state == "Stable"
        assert mine.authorized_operations == 1 << AclOperation.READ | 1 << AclOperation.DESCRIBE
        all_of = (await admin.call(request, 5)).groups[0].authorized_operations
        assert all_of == sum(1 << operation for operation in (3, 6, 8, 10, 11))


async def test_groups_that_may_not_be_described_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with admin_and_alice(monkeypatch) as (server, admin, alice):
        await join_alone(admin, "mine")
        await join_alone(admin, "theirs")
        answer = await alice.call(ListGroupsRequest(), 5)
        assert (answer.error_code, answer.groups) == (NONE, [])
        await allow(server, "alice", AclOperation.READ, GROUP, "mine")
        answer = await alice.call(ListGroupsRequest(), 5)
        assert [group.group_id for group in answer.groups] == ["mine"]
        await allow(server, "alice", AclOperation.DESCRIBE, CLUSTER)
        answer = await alice.call(ListGroupsRequest(), 0)
        assert {group.group_id for group in answer.groups} == {"mine", "theirs"}


async def test_groups_that_may_not_be_deleted_come_last_and_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    async with authorizing(monkeypatch) as server, Client(server, "alice") as alice:
        await allow(server, "alice", AclOperation.DELETE, GROUP, "mine")
        answer = await alice.call(DeleteGroupsRequest(groups_names=["theirs", "mine", "theirs"]), 2)
        assert [(result.group_id, result.error_code) for result in answer.results] == [
            ("mine", ErrorCode.GROUP_ID_NOT_FOUND),
            ("theirs", DENIED),
        ]


@pytest.mark.parametrize(
    ("key_type", "resource_type", "denied"),
    [(0, GROUP, DENIED), (1, TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)],
)
async def test_coordinators_of_what_may_not_be_described_are_not_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    key_type: int,
    resource_type: Any,
    denied: ErrorCode,
) -> None:
    async with authorizing(monkeypatch) as server, Client(server, "alice") as alice:
        await allow(server, "alice", AclOperation.DESCRIBE, resource_type, "mine")
        for version in (1, 3):
            answer = await alice.call(FindCoordinatorRequest(key="theirs", key_type=key_type), version)
            assert (answer.error_code, answer.node_id, answer.host, answer.port) == (denied, -1, "", -1)
            assert answer.error_message.endswith("authorization failed.")
            answer = await alice.call(FindCoordinatorRequest(key="mine", key_type=key_type), version)
            assert answer.error_code == NONE
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["theirs", "mine", "others"])
        answer = await alice.call(request, 6)
        assert [(each.key, each.error_code, each.error_message) for each in answer.coordinators] == [
            ("theirs", denied, ""),
            ("mine", NONE, ""),
            ("others", denied, ""),
        ]
        assert answer.coordinators[0].node_id == -1


def heartbeat_of(group_id: str, *topics: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id="0123456789abcdefghijkl",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=list(topics),
        topic_partitions=[],
    )


async def test_a_consumer_group_needs_its_topics_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async with authorizing(monkeypatch) as server, Client(server, "alice") as alice:
        assert (await alice.call(heartbeat_of("g", "orders"), 1)).error_code == DENIED
        await allow(server, "alice", AclOperation.READ, GROUP, "g")
        await allow(server, "alice", AclOperation.READ, TOPIC, "orders")
        answer = await alice.call(heartbeat_of("g", "orders", "secret"), 1)
        assert (answer.error_code, answer.member_id) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
        assert (await alice.call(heartbeat_of("g", "orders"), 1)).error_code == NONE


async def test_a_regular_expression_matches_what_its_member_may_describe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with admin_and_alice(monkeypatch) as (server, admin, alice):
        await allow(server, "alice", AclOperation.READ, GROUP, "mine")
        await allow(server, "alice", AclOperation.DESCRIBE, TOPIC, "orders")

        async def assigned(client: Client, group_id: str) -> set[str]:
            """The topics that a member gets for an expression that matches both."""
            request = heartbeat_of(group_id)
            request.subscribed_topic_names, request.subscribed_topic_regex = None, "orders|secret"
            async with asyncio.timeout(60):
                while not (answer := await client.call(request, 1)).assignment.topic_partitions:
                    pass  # it is being looked up meanwhile
            catalogue = server.data_plane.catalogue
            topics = (
                catalogue.find_topic_by_id(each.topic_id) for each in answer.assignment.topic_partitions
            )
            return {topic.name for topic in topics if topic is not None}

        assert await assigned(alice, "mine") == {"orders"}
        assert await assigned(admin, "theirs") == {"orders", "secret"}


async def test_a_consumer_group_with_a_hidden_topic_is_not_described(monkeypatch: pytest.MonkeyPatch) -> None:
    async with admin_and_alice(monkeypatch) as (server, admin, alice):
        await allow(server, "alice", AclOperation.DESCRIBE, GROUP, "mine", "mixed")
        await allow(server, "alice", AclOperation.DESCRIBE, TOPIC, "orders")
        await admin.call(heartbeat_of("mine", "orders"), 1)
        await admin.call(heartbeat_of("mixed", "orders", "secret"), 1)
        request = ConsumerGroupDescribeRequest(
            group_ids=["mine", "theirs", "mixed"], include_authorized_operations=True
        )
        answer = await alice.call(request, 1)
        assert [(group.group_id, group.error_code, len(group.members)) for group in answer.groups] == [
            ("theirs", DENIED, 0),
            ("mine", NONE, 1),
            ("mixed", ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0),
        ]
        assert answer.groups[1].authorized_operations == 1 << AclOperation.DESCRIBE
        assert "not authorized" in answer.groups[2].error_message
