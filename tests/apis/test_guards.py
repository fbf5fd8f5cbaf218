"""Every API has a rule of authorization. The audit log, remembered heartbeats and large requests behind guards."""

import asyncio
import gc
import logging
import sys
import time

import pytest

from coordinator.apis.api_authorization import ApiAuthorization, GuardedHandler
from coordinator.apis.auth_helper import AuthHelper
from coordinator.apis.authorization_rules import WholeRequest
from coordinator.apis.authorization_table import RULES
from coordinator.apis.client_guards import guard_produce
from coordinator.apis.topic_guards import guard_create_topics
from coordinator.security.core.acl import AclOperation, AclPermissionType, PatternType
from protocol.apis import APIS, ApiKey
from protocol.codec import decode
from protocol.error_codes import ErrorCode
from protocol.framing import response_body_position
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.apis.authorized_clients import GROUP, TOPIC, acl, allow, authorizing, change
from tests.broker.harness import Client, heartbeat_request, join_alone, join_request, serving

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
MOST_HELD_S = 0.1


def test_every_api_that_is_served_has_a_rule() -> None:
    assert set(RULES) == set(APIS)


async def test_without_an_authorizer_no_guard_is_there() -> None:
    parts = (
        *(ApiAuthorization, GuardedHandler, AuthHelper),
        *(WholeRequest, guard_produce, guard_create_topics),
    )
    names = {each.__module__ for each in parts}
    code = f"import sys, coordinator.broker.server\nsys.exit(bool({names} & sys.modules.keys()))"
    asked = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    assert await asked.wait() == 0
    async with serving() as server, Client(server) as client:
        answer = await client.call(MetadataRequest(topics=None), 9)
        assert "orders" in [topic.name for topic in answer.topics]


async def test_a_remembered_heartbeat_ends_with_what_allowed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with authorizing(monkeypatch) as server, Client(server, "alice") as alice:
        await allow(server, "alice", AclOperation.READ, GROUP, "billing")
        member_id, generation = await join_alone(alice, "billing")
        beat = heartbeat_request("billing", member_id, generation)
        for _ in range(3):
            assert (await alice.call(beat, 3)).error_code == ErrorCode.NONE
        await change(server, removed=[acl("alice", AclOperation.READ, GROUP, "billing")])
        assert (await alice.call(beat, 3)).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        await allow(server, "alice", AclOperation.READ, GROUP, "billing")
        for _ in range(3):
            assert (await alice.call(beat, 3)).error_code == ErrorCode.NONE


async def test_denials_are_logged_as_kafka_does_and_not_again_and_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kafka.authorizer.logger")
    async with authorizing(monkeypatch) as server, Client(server, "alice") as alice:
        await allow(server, "alice", AclOperation.DESCRIBE, GROUP, "billing")
        for _ in range(3):
            await alice.call(join_request("bill\ning"), 3)
    lines = [record.getMessage() for record in caplog.records if record.name == "kafka.authorizer.logger"]
    assert len(lines) == 1
    assert lines[0] == (
        "Principal = User:alice is Denied operation = READ from host = 127.0.0.1 on resource = "
        "Group:LITERAL:bill\\ning for request = JoinGroup with resourceRefCount = 1 based on rule DefaultDeny"
    )


async def test_what_is_allowed_is_logged_for_whoever_debugs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "kafka.authorizer.logger")
    async with authorizing(monkeypatch) as server:
        await allow(server, "alice", AclOperation.READ, GROUP, "billing")
        async with Client(server, "alice") as alice, Client(server, "admin") as admin:
            for client in (alice, admin):
                await client.call(HeartbeatRequest(group_id="billing", generation_id=1, member_id="m"), 3)
    lines = [record.getMessage() for record in caplog.records if record.name == "kafka.authorizer.logger"]
    assert ["is Allowed operation = READ" in line for line in lines] == [True, True]
    assert "based on rule MatchingAcl(acl=StandardAcl[" in lines[0]
    assert lines[1].endswith("based on rule SuperUser")


async def test_what_is_only_left_out_is_not_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "kafka.authorizer.logger")
    async with authorizing(monkeypatch) as server, Client(server, "alice") as alice:
        await allow(server, "alice", AclOperation.DESCRIBE, TOPIC, "orders")
        request = MetadataRequest(topics=None, include_topic_authorized_operations=True)
        assert [topic.name for topic in (await alice.call(request, 9)).topics] == ["orders"]
    assert not [record for record in caplog.records if record.name == "kafka.authorizer.logger"]


async def test_many_topics_and_many_acls_keep_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 names in one request, half of them refused, with 10,000 ACLs."""
    async with authorizing(monkeypatch, {"auto.create.topics.enable": "false"}) as server:
        acls = [acl("alice", AclOperation.DESCRIBE, TOPIC, f"t-{number}") for number in range(10_000)]
        acls += [
            acl("alice", AclOperation.READ, TOPIC, "x" * length, AclPermissionType.DENY, PatternType.PREFIXED)
            for length in range(1, 40)
        ]
        await change(server, added=acls)
        names = [MetadataRequestTopic(name=f"t-{number}") for number in range(20_000)]
        request = MetadataRequest(
            topics=names, allow_auto_topic_creation=False, include_topic_authorized_operations=True
        )
        gc.disable()  # which the daemon does not leave to chance either
        try:
            async with Client(server, "alice") as alice:
                alice.writer.write(alice.frame(request, 9))
                answered = asyncio.ensure_future(alice.receive_frame())
                longest_s = await longest_hold_s(until=answered)
                frame = await answered
        finally:
            gc.enable()
        answer = decode(MetadataResponse, 9, frame, response_body_position(ApiKey.METADATA, 9, frame))
        refused = [topic for topic in answer.topics if topic.error_code == DENIED]
        assert (len(answer.topics), len(refused)) == (20_000, 10_000)
        assert longest_s < MOST_HELD_S


async def longest_hold_s(until: asyncio.Future[bytes]) -> float:
    """The longest that an iteration of the loop takes of the processor, until something is done."""
    longest_s, began_s = 0.0, time.thread_time()
    while not until.done():
        await asyncio.sleep(0)
        now_s = time.thread_time()
        longest_s, began_s = max(longest_s, now_s - began_s), now_s
    return longest_s
