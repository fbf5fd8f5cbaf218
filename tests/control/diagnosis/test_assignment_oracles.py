"""The oracles find planted faults in the assignments of leaders, and nothing in correct hand-overs."""

import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coordinator.control.consumer_protocol_payloads import MAX_PAYLOAD_BYTES
from coordinator.control.diagnosis.violation import OracleName, Severity
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tests.control.diagnosis.watched_server import GROUP, Member, Watched, generation, orders, watched

_numbers = itertools.count(1)
EVERYTHING = orders(0, 1, 2, 3)


@pytest.fixture
async def watch(tmp_path: Path) -> AsyncIterator[Watched]:
    """Orphans are looked for soon."""
    async with watched(tmp_path, {"oracle.orphan.ms": "0"}) as watch:
        yield watch


async def looked_for_orphans(watch: Watched) -> None:
    """Waits until the oracle has looked at the groups that are there: a later one has an orphan."""
    group = f"later-{next(_numbers)}"
    async with Member(watch, "last", group) as last:
        await generation({last: orders(0, 1, 2)})
        await watch.found(OracleName.ORPHAN_PARTITION, group)


async def grow(watch: Watched, count: int) -> None:
    """Send CreatePartitions as a client does."""
    async with Member(watch, "admin") as admin:
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="orders", count=count, assignments=None)],
            timeout_ms=10_000,
            validate_only=False,
        )
        answer = await admin.call(request, 1)
    assert answer.results[0].error_code == 0, answer


async def test_a_partition_of_two_members_is_a_double_owner(watch: Watched) -> None:
    async with Member(watch, "alice") as alice, Member(watch, "bob") as bob:
        await generation({alice: orders(0, 1, 2), bob: orders(2, 3)})
        found = await watch.found(OracleName.DOUBLE_OWNER)
    assert (found.severity, found.group_id, found.generation_id) == (
        Severity.VIOLATION,
        GROUP,
        alice.generation_id,
    )
    assert (found.topic, found.partition, found.partitions) == ("orders", 2, ["orders-2"])
    assert {member.client_id for member in found.members} == {"alice", "bob"}
    assert "orders-2" in found.detail
    assert watch.server.metrics.violations == {"double_owner": 1}


async def test_reassigning_an_unrevoked_partition_is_a_double_owner(watch: Watched) -> None:
    async with Member(watch, "alice") as alice, Member(watch, "bob") as bob:
        alice.protocol = bob.protocol = "cooperative-sticky"
        await generation({alice: EVERYTHING})
        alice.owned = EVERYTHING
        await generation({alice: orders(0, 1), bob: orders(2, 3)})
        found = await watch.found(OracleName.DOUBLE_OWNER)
    assert found.partitions == ["orders-2", "orders-3"]
    assert [member.client_id for member in found.members] == ["bob", "alice"]
    assert "was not asked to revoke" in found.detail


async def test_a_cooperative_hand_over_is_not_a_double_owner(watch: Watched) -> None:
    async with Member(watch, "alice") as alice, Member(watch, "bob") as bob:
        alice.protocol = bob.protocol = "cooperative-sticky"
        await generation({alice: EVERYTHING})
        alice.owned = EVERYTHING
        await generation({alice: orders(0, 1), bob: ()})
        # However long alice takes to give them up, within its rebalance timeout.
        await looked_for_orphans(watch)
        alice.owned = orders(0, 1)
        await generation({alice: orders(0, 1), bob: orders(2, 3)})
        await looked_for_orphans(watch)
    assert watch.in_group() == []


async def test_a_stale_claim_of_a_lost_partition_is_not_ownership(watch: Watched) -> None:
    async with Member(watch, "alice") as alice, Member(watch, "bob") as bob:
        alice.protocol = bob.protocol = "cooperative-sticky"
        await generation({alice: EVERYTHING, bob: ()})
        alice.owned = EVERYTHING
        await generation({alice: EVERYTHING, bob: ()})
        alice.generation_id -= 1  # it never got the answer
        await generation({alice: orders(0, 1), bob: orders(2, 3)})
        await looked_for_orphans(watch)
    assert watch.of(OracleName.DOUBLE_OWNER) == []


async def test_an_eager_assignor_may_move_any_partition(watch: Watched) -> None:
    async with Member(watch, "alice") as alice, Member(watch, "bob") as bob:
        await generation({alice: EVERYTHING})
        await generation({alice: orders(0, 1), bob: orders(2, 3)})
        await generation({alice: orders(2, 3), bob: orders(0, 1)})
        await looked_for_orphans(watch)
    assert watch.in_group() == []


async def test_a_partition_without_an_owner_is_an_orphan(watch: Watched) -> None:
    async with Member(watch, "alice") as alice, Member(watch, "bob") as bob:
        await generation({alice: orders(0), bob: orders(2)})
        found = await watch.found(OracleName.ORPHAN_PARTITION)
    assert (found.severity, found.generation_id) == (Severity.VIOLATION, alice.generation_id)
    assert found.partitions == ["orders-1", "orders-3"]
    assert "range" in found.detail


async def test_an_unknown_assignor_may_leave_partitions_out(watch: Watched) -> None:
    async with Member(watch, "alice") as alice:
        alice.protocol = "only-one-of-each"
        await generation({alice: orders(0)})
        assert (await watch.found(OracleName.ORPHAN_PARTITION)).severity is Severity.NOTICE


async def test_groups_of_other_protocol_types_are_not_checked(watch: Watched) -> None:
    async with Member(watch, "worker-1") as one, Member(watch, "worker-2") as two:
        one.protocol_type = two.protocol_type = "connect"
        await generation({one: orders(0, 1), two: orders(1)}, {"nobody": orders(3)})
        await looked_for_orphans(watch)
    assert watch.in_group() == []


@pytest.mark.parametrize(
    "metadata", [b"", b"opaque", bytes(MAX_PAYLOAD_BYTES + 1)], ids=["none", "opaque", "long"]
)
async def test_unreadable_subscriptions_are_not_checked(watch: Watched, metadata: bytes) -> None:
    async with Member(watch, "alice") as alice, Member(watch, "bob") as bob:
        bob.metadata = metadata
        await generation({alice: orders(0), bob: ()})
        await looked_for_orphans(watch)
    assert watch.in_group() == []


async def test_members_may_read_different_topics_and_some_that_are_not_there(tmp_path: Path) -> None:
    topics = [("orders", 4), ("payments", 2)]
    async with (
        watched(tmp_path, {"oracle.orphan.ms": "0"}, topics=topics) as watch,
        Member(watch, "alice") as alice,
        Member(watch, "bob") as bob,
    ):
        bob.topics = ("payments", "no-such-topic")
        await generation({alice: EVERYTHING, bob: [("payments", 0), ("payments", 1)]})
        await looked_for_orphans(watch)
        assert watch.in_group() == []
        await generation({alice: EVERYTHING, bob: [("payments", 0)]})
        await watch.found(OracleName.ORPHAN_PARTITION)


async def test_partitions_that_came_while_the_group_had_members_may_be_unknown_to_them(
    watch: Watched,
) -> None:
    async with Member(watch, "alice") as alice, Member(watch, "bob") as bob:
        await generation({alice: EVERYTHING})
        await grow(watch, 8)
        await generation({alice: orders(0, 1), bob: orders(2, 3)})
        await looked_for_orphans(watch)
    assert watch.in_group() == []


async def test_an_assignment_to_unknown_ids_is_a_notice(watch: Watched) -> None:
    async with Member(watch, "alice") as alice:
        await generation({alice: orders(0, 1, 2)}, {"carol-9f": orders(3)})
        found = await watch.found(OracleName.ASSIGNMENT_OF_NOBODY)
    assert found.severity is Severity.NOTICE
    assert "carol-9f" in found.detail
    assert [member.client_id for member in found.members] == ["alice"]
