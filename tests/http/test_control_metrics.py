"""The metrics of rebalances, members, clocks and faults, compared with the events of a test."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from coordinator.control.faults.fault_rule import ActionSpec, FaultRule, RequestMatch
from coordinator.control.ledger.ledger_entry import EntryResult
from coordinator.group.group_event_types import RebalanceStarted
from protocol.error_codes import ErrorCode
from tests.broker.harness import Client
from tests.control.clock.test_consumer_groups import (
    ASSIGNMENT_INTERVAL_MS,
    REVOCATION_MS,
    SESSION_MS,
    beat,
)
from tests.control.diagnosis.watched_server import (
    GROUP,
    Member,
    Watched,
    generation,
    orders,
    sync,
    until_happened,
)
from tests.http.api.api_port import Api, serving_api
from tests.http.scraped import scrape

MINUTE_MS = 60_000


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with serving_api() as api:
        yield api


async def members(stack: AsyncExitStack, api: Api, *names: str) -> list[Member]:
    """Of one group; they have not joined."""
    watch = Watched(api.server, api.control)
    return [await stack.enter_async_context(Member(watch, name)) for name in names]


async def passes(api: Api, ms: int, group: str = GROUP) -> None:
    """Advance the clock of a group without heartbeats from its members."""
    silent = [member.name.client_id for member in api.control.groups.get_group(group).members]
    await api.control.clock_commands.advance_clock(
        group, ms, silent=silent, settle_ms=0, description="advance", actor=None
    )


async def test_a_histogram_adds_up_to_what_the_ledger_says(api: Api) -> None:
    async with AsyncExitStack() as stack:
        alice, bob = await members(stack, api, "alice", "bob")
        await generation({alice: orders(0)})
        await generation({alice: orders(0), bob: orders(1)})
        ended = [
            entry
            for entry in api.control.ledger.list_entries()
            if entry.result in (EntryResult.STABLE, EntryResult.EMPTY)
        ]
        found = await scrape(api)
    assert len(ended) == 2
    for phase in ("join", "sync", "total"):
        took_ms = sum(getattr(entry, f"{phase}_ms") for entry in ended)
        assert found.get("groupd_rebalance_seconds_count", phase=phase) == len(ended)
        assert found.get("groupd_rebalance_seconds_sum", phase=phase) == pytest.approx(took_ms / 1000)
        assert found.get("groupd_rebalance_seconds_bucket", phase=phase, le="+Inf") == len(ended)
        assert found.get("groupd_rebalance_seconds_bucket", phase=phase, le="600.0") == len(ended)


async def test_a_moved_clock_lengthens_no_rebalance(api: Api) -> None:
    async with AsyncExitStack() as stack:
        alice, bob = await members(stack, api, "alice", "bob")
        alice.session_timeout_ms = bob.session_timeout_ms = 30 * MINUTE_MS
        await generation({alice: orders(0), bob: orders(1)})
        await until_happened(alice.watch, RebalanceStarted, alice.ask_to_join)
        await passes(api, MINUTE_MS + 1000)  # bob never comes
        await alice.joined()
        await sync({alice: orders(0, 1)})
        found = await scrape(api)
    slow = api.control.ledger.list_entries(last=1)[0]
    assert slow.total_ms >= MINUTE_MS
    assert slow.real is not None
    assert found.get("groupd_rebalance_seconds_bucket", phase="total", le="60.0") == found.get(
        "groupd_rebalance_seconds_count", phase="total"
    )


async def test_an_open_rebalance_is_timed_until_it_is_over(api: Api) -> None:
    async with AsyncExitStack() as stack:
        alice, bob = await members(stack, api, "alice", "bob")
        await generation({alice: orders(0), bob: orders(1)})
        assert (await scrape(api)).get("groupd_rebalance_open_seconds") == 0
        await until_happened(bob.watch, RebalanceStarted, alice.ask_to_join)
        first = (await scrape(api)).get("groupd_rebalance_open_seconds")
        second = (await scrape(api)).get("groupd_rebalance_open_seconds")
        assert first is not None
        assert second is not None
        assert 0 < first < second
        bob.ask_to_join()
        await alice.joined()
        await bob.joined()
        await sync({alice: orders(0), bob: orders(1)})
        assert (await scrape(api)).get("groupd_rebalance_open_seconds") == 0


async def test_members_that_were_put_out_are_counted_by_what_they_did_not_do(api: Api) -> None:
    async with AsyncExitStack() as stack:
        alice, bob = await members(stack, api, "alice", "bob")
        bob.session_timeout_ms = alice.session_timeout_ms = 30 * MINUTE_MS
        await generation({alice: orders(0), bob: orders(1)})
        await until_happened(alice.watch, RebalanceStarted, alice.ask_to_join)
        await passes(api, MINUTE_MS + 1000)
        await alice.joined()
        found = await scrape(api)
        assert found.get("groupd_members_evicted_total", phase="join") == 1
        assert found.get("groupd_members_evicted_total", phase="sync") == 0
        await passes(api, MINUTE_MS + 1000)  # alice leads, and never brings an assignment
        found = await scrape(api)
        assert found.get("groupd_members_evicted_total", phase="sync") == 1
        assert found.get("groupd_members_evicted_total", phase="revoke") == 0
        assert found.get("groupd_member_sessions_expired_total") == 0


async def test_a_session_that_ends_is_counted(api: Api) -> None:
    async with AsyncExitStack() as stack:
        (alice,) = await members(stack, api, "alice")
        await generation({alice: orders(0)})
        await passes(api, 2 * MINUTE_MS)
        assert (await scrape(api)).get("groupd_member_sessions_expired_total") == 1


async def test_members_of_consumer_groups_are_counted_too(api: Api) -> None:
    async with Client(api.server, "alice") as alice, Client(api.server, "bob") as bob:
        topic = api.server.data_plane.catalogue.find_topic("orders")
        assert topic is not None
        epoch = await beat(alice, "a", 0)
        await beat(bob, "b", 0)
        await passes(api, ASSIGNMENT_INTERVAL_MS)
        # The member gets a request to revoke a partition and never does.
        await beat(alice, "a", epoch, 0, 1, 2, topic_id=topic.topic_id)
        await passes(api, REVOCATION_MS)
        found = await scrape(api)
        assert found.get("groupd_members_evicted_total", phase="revoke") == 1
        assert found.get("groupd_member_sessions_expired_total") == 0
        await passes(api, SESSION_MS)
        found = await scrape(api)
        assert found.get("groupd_member_sessions_expired_total") == 1
        ended = [entry for entry in api.control.ledger.list_entries() if entry.result in ("stable", "empty")]
        assert found.get("groupd_rebalance_seconds_count", phase="total") == len(ended) > 0


async def test_refused_commits_are_counted_by_their_error(api: Api) -> None:
    async with AsyncExitStack() as stack:
        (alice,) = await members(stack, api, "alice")
        await generation({alice: orders(0)})
        assert (await scrape(api)).labels("groupd_commits_refused_total", "error") == []
        alice.generation_id += 1
        assert await alice.commit(0, 5) == ErrorCode.ILLEGAL_GENERATION
        assert await alice.commit(0, 5) == ErrorCode.ILLEGAL_GENERATION
        found = await scrape(api)
    assert found.get("groupd_commits_refused_total", error="ILLEGAL_GENERATION") == 2


async def test_groups_whose_clock_stands_still_are_counted(api: Api) -> None:
    async def frozen() -> float | None:
        return (await scrape(api)).get("groupd_frozen_groups")

    async with AsyncExitStack() as stack:
        (alice,) = await members(stack, api, "alice")
        await generation({alice: orders(0)})
        assert await frozen() == 0
        for path, expected in ((f"/v1/groups/{GROUP}/clock", 1), ("/v1/clock", 1), ("/v1/groups/b/clock", 2)):
            assert (await api.call("PUT", path, {"frozen": True})).status == 200
            assert await frozen() == expected
        for path in (f"/v1/groups/{GROUP}/clock", "/v1/clock", "/v1/groups/b/clock"):
            assert (await api.call("DELETE", path)).status in (200, 204)
        assert await frozen() == 0


async def test_the_margin_is_that_of_the_member_that_was_silent_longest(api: Api) -> None:
    async def margin() -> float:
        found = (await scrape(api)).get("groupd_session_margin_ratio")
        assert found is not None
        return found

    assert await margin() == 1
    async with AsyncExitStack() as stack:
        alice, bob = await members(stack, api, "alice", "bob")
        alice.session_timeout_ms = bob.session_timeout_ms = 10 * MINUTE_MS
        await generation({alice: orders(0), bob: orders(1)})
        await api.call("PUT", f"/v1/groups/{GROUP}/clock", {"frozen": True})
        await passes(api, 4 * MINUTE_MS)
        assert await alice.beat() == 0
        assert await margin() == pytest.approx(0.6, abs=0.05)
        assert await bob.beat() == 0
        assert await margin() == pytest.approx(1, abs=0.05)


async def test_hits_of_faults_outlive_them(api: Api) -> None:
    async with Client(api.server, "alice") as alice:
        for _ in range(2):
            rule = FaultRule(
                match=RequestMatch(api="ConsumerGroupHeartbeat"),
                do=ActionSpec(at="request", error="COORDINATOR_NOT_AVAILABLE"),
            )
            made = api.control.faults.install_fault(rule)
            with pytest.raises(AssertionError):
                await beat(alice, "a", 0)
            api.control.faults.remove_fault(made.name)
    found = await scrape(api)
    assert found.get("groupd_fault_hits_total", fault="error") == 2
    assert found.get("groupd_fault_hits_total", fault="hold") == 0


async def test_no_group_is_named(api: Api) -> None:
    async with AsyncExitStack() as stack:
        (alice,) = await members(stack, api, "alice")
        await generation({alice: orders(0)})
        assert GROUP not in (await api.call("GET", "/metrics")).body.decode()
