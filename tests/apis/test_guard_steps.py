"""Guards that need more than one time slice do not change the response."""

import asyncio

import pytest

from coordinator.apis import authorization_rules
from coordinator.core import time_budget
from coordinator.security.core.acl import AclOperation
from protocol.error_codes import ErrorCode
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.metadata import MetadataRequest
from tests.apis.authorized_clients import GROUP, TOPIC, admin_and_alice, allow
from tests.apis.test_group_guards import heartbeat_of
from tests.apis.test_offset_guards import commit, errors_of
from tests.apis.test_record_guards import end_of, produce, produced
from tests.broker.harness import Client
from tests.broker.test_log_cleaner import one_turn

NONE, DENIED = ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture(autouse=True)
def _a_step_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_budget, "SLICE_NS", 0)
    monkeypatch.setattr(authorization_rules, "ELEMENTS_PER_STEP", 1)


async def test_answers_keep_their_order_and_their_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    async with admin_and_alice(monkeypatch) as (server, _, alice):
        await allow(server, "alice", AclOperation.ALL, TOPIC, "orders")
        await allow(server, "alice", AclOperation.READ, GROUP, "g")
        alice.send(MetadataRequest(topics=None), 9)
        alice.send(commit(server, 8, "secret", "orders"), 8)
        alice.send(ListGroupsRequest(), 4)
        alice.send(produce(server, 9, "secret", "orders"), 9)
        assert [topic.name for topic in (await alice.receive()).topics] == ["orders"]
        assert errors_of(server, await alice.receive(), 8) == {"secret": DENIED, "orders": NONE}
        assert [group.group_id for group in (await alice.receive()).groups] == ["g"]
        answer = await alice.receive()
        assert produced(server, answer, 9) == [("orders", NONE, 0), ("secret", DENIED, -1)]


async def test_who_wants_no_answer_is_disconnected_when_the_rest_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with admin_and_alice(monkeypatch) as (server, admin, alice):
        await allow(server, "alice", AclOperation.WRITE, TOPIC, "orders")
        alice.send(produce(server, 9, "secret", "orders", acks=0), 9)
        assert await alice.closed()
        assert await end_of(admin, "orders") == 1


async def test_names_of_a_consumer_group_heartbeat_are_checked_in_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with admin_and_alice(monkeypatch) as (server, _, alice):
        await allow(server, "alice", AclOperation.ALL, TOPIC, "orders")
        await allow(server, "alice", AclOperation.READ, GROUP, "g")
        for names, error in (["orders"] * 30, NONE), ([*["orders"] * 30, "secret"], DENIED):
            alice.send(heartbeat_of("g", *names), 1)
            answer, waits = asyncio.ensure_future(alice.receive()), 0
            while not answer.done():
                waits += len(server.run_queue)
                await asyncio.sleep(0)
            assert waits, "the guard has let other requests run"
            assert answer.result().error_code == error


async def test_nothing_comes_of_what_nobody_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async with admin_and_alice(monkeypatch) as (server, admin, _):
        await allow(server, "alice", AclOperation.READ, GROUP, "g")
        async with Client(server, "alice") as alice:
            alice.send(commit(server, 8, *["orders"] * 500), 8)
            while not len(server.run_queue):  # noqa: ASYNC110 - only some iterations of the loop have it there
                await asyncio.sleep(0)
            alice.writer.transport.abort()
            while len(server.connections.open) > 2:
                await one_turn()
        assert not len(server.run_queue)
        assert (await admin.call(ListGroupsRequest(), 4)).error_code == NONE
