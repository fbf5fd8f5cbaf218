"""Commits that take progress back, come too late, or point at nothing."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coordinator.control.diagnosis.violation import OracleName, Severity, WrittenOffset
from coordinator.group.group_event_types import TransactionEnded
from coordinator.group.group_shard import GroupShard
from protocol.error_codes import ErrorCode
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdResponse
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.harness import begin_producer
from tests.broker.transactor import until_answered
from tests.control.diagnosis.watched_server import (
    Member,
    Watched,
    generation,
    orders,
    until_happened,
    watched,
)

ALL = orders(0, 1, 2, 3)


@pytest.fixture
async def watch(tmp_path: Path) -> AsyncIterator[Watched]:
    """A server with the profile for tests, in which commits are watched."""
    async with watched(tmp_path) as watch:
        yield watch


async def test_a_commit_that_lowers_an_offset_names_both_writers(watch: Watched) -> None:
    async with Member(watch, "alice") as alice, Member(watch, "carol") as carol:
        await generation({alice: orders(2, 3), carol: orders(0, 1)})
        assert await carol.commit(0, 57) == 0
        written_by = carol.generation_id
        await generation({alice: orders(0, 1), carol: orders(2, 3)})
        assert await alice.commit(0, 41) == 0
        (found,) = watch.of(OracleName.COMMIT_WENT_BACK)
    assert (found.severity, found.topic, found.partition) == (Severity.NOTICE, "orders", 0)
    assert found.from_ == WrittenOffset(
        offset=57, member_id=carol.member_id, client_id="carol", generation_id=written_by
    )
    assert found.to == WrittenOffset(
        offset=41, member_id=alice.member_id, client_id="alice", generation_id=alice.generation_id
    )
    assert [member.client_id for member in found.members] == ["alice", "carol"]


async def test_progress_and_repeated_offsets_are_not_reported(watch: Watched) -> None:
    async with Member(watch, "alice") as alice:
        await generation({alice: ALL})
        for offset in (0, 0):
            assert await alice.commit(0, offset) == 0
    assert watch.of(OracleName.COMMIT_WENT_BACK) == []


async def test_resets_of_an_empty_group_are_not_reported(watch: Watched) -> None:
    async with Member(watch, "alice") as alice, Member(watch, "tool") as tool:
        await generation({alice: ALL})
        assert await alice.commit(0, 57) == 0
        left = await alice.call(LeaveGroupRequest(group_id=alice.group, member_id=alice.member_id), 2)
        assert left.error_code == 0
        assert await tool.commit(0, 0) == 0
    assert watch.of(OracleName.COMMIT_WENT_BACK) == []


async def test_a_tool_that_is_refused_by_an_active_group_is_no_zombie(watch: Watched) -> None:
    async with Member(watch, "alice") as alice, Member(watch, "tool") as tool:
        await generation({alice: ALL})
        assert await tool.commit(0, 0) == ErrorCode.UNKNOWN_MEMBER_ID
    assert watch.of(OracleName.ZOMBIE_COMMIT) == []


async def test_a_stale_commit_names_the_offset_of_the_owner(watch: Watched) -> None:
    async with Member(watch, "alice") as alice, Member(watch, "carol") as carol:
        await generation({alice: ALL, carol: ()})
        await generation({alice: (), carol: ALL})
        assert await carol.commit(0, 57) == 0
        alice.generation_id -= 1
        assert await alice.commit(0, 41) == ErrorCode.ILLEGAL_GENERATION
        (found,) = watch.of(OracleName.ZOMBIE_COMMIT)
        assert found.severity is Severity.NOTICE
        assert found.from_ is not None
        assert (found.from_.offset, found.from_.client_id) == (57, "carol")
        assert found.to == WrittenOffset(
            offset=41, member_id=alice.member_id, client_id="alice", generation_id=alice.generation_id
        )
        assert "57" in found.detail
        assert [member.client_id for member in found.members] == ["alice", "carol"]

        assert await alice.commit(1, 41) == ErrorCode.ILLEGAL_GENERATION
        (again,) = watch.of(OracleName.ZOMBIE_COMMIT)
    assert (again.seq, again.times) == (found.seq, 2)


async def test_a_member_that_is_gone_is_a_zombie(watch: Watched) -> None:
    async with Member(watch, "alice") as alice:
        await generation({alice: ALL})
        await alice.call(LeaveGroupRequest(group_id=alice.group, member_id=alice.member_id), 2)
        assert await alice.commit(0, 41) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await alice.commit(0, 41, "payments") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(watch.of(OracleName.ZOMBIE_COMMIT)) == 1


async def test_only_offsets_beyond_the_end_are_reported(watch: Watched) -> None:
    async with Member(watch, "alice") as alice:
        await generation({alice: ALL})
        assert await alice.commit(0, 0) == 0
        assert watch.of(OracleName.COMMIT_BEYOND_END) == []
        assert await alice.commit(0, 9) == 0
    (found,) = watch.of(OracleName.COMMIT_BEYOND_END)
    assert (found.severity, found.partitions) == (Severity.NOTICE, ["orders-0"])
    assert found.to is not None
    assert found.to.offset == 9


async def test_commits_are_not_watched_where_that_is_off(tmp_path: Path) -> None:
    properties = {"oracle.commits": "false"}
    async with watched(tmp_path, properties) as watch, Member(watch, "alice") as alice:
        # Nothing stands in front of the groups.
        assert {type(part.machine) for part in watch.server.runtime.partitions} == {GroupShard}
        await generation({alice: ALL})
        assert await alice.commit(0, 57) == 0
        assert await alice.commit(0, 41) == 0
    assert watch.in_group() == []


async def test_reloaded_offsets_count_as_committed(tmp_path: Path) -> None:
    async with watched(tmp_path) as watch, Member(watch, "alice") as alice:
        await generation({alice: ALL})
        assert await alice.commit(0, 57) == 0
    async with watched(tmp_path) as watch, Member(watch, "alice") as again:
        again.member_id, again.generation_id = alice.member_id, alice.generation_id
        assert await again.commit(0, 41) == 0
        (found,) = watch.of(OracleName.COMMIT_WENT_BACK)
    assert found.from_ == WrittenOffset(offset=57, member_id=None, client_id=None, generation_id=None)


# Of transactions


class Processor(Member):
    """A member that commits its consumed offsets in a transaction of its producer."""

    def __init__(self, watch: Watched, client_id: str, transactional_id: str | None = None) -> None:
        super().__init__(watch, client_id)
        self.transactional_id = transactional_id or f"of-{client_id}"
        self.producer: InitProducerIdResponse | None = None

    async def write(self, partition: int, offset: int) -> None:
        """Its transaction begins, if none is open, and has this offset."""
        if self.producer is None:
            self.producer = await begin_producer(self, self.transactional_id)
        part = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=""
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=self.group,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            generation_id_or_member_epoch=self.generation_id,
            member_id=self.member_id,
            topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[part])],
        )

        async def ask() -> ErrorCode:
            answer = await self.call(request, 5)
            return ErrorCode(answer.topics[0].partitions[0].error_code)

        await until_answered(ask)  # the transaction before may not be wound up yet

    async def end(self, *, is_committed: bool = True) -> None:
        """Its transaction has ended, and the group knows."""
        producer = self.producer
        assert producer is not None
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=is_committed,
        )
        await until_happened(self.watch, TransactionEnded, lambda: self.send(request, 5))
        answer = await self.receive()
        assert answer.error_code == 0, answer
        producer.producer_id, producer.producer_epoch = answer.producer_id, answer.producer_epoch


async def test_a_transaction_that_lowers_an_offset_counts_once_it_is_committed(watch: Watched) -> None:
    async with Processor(watch, "alice") as alice, Processor(watch, "carol") as carol:
        await generation({alice: orders(2, 3), carol: orders(0, 1)})
        await carol.write(0, 57)
        await carol.end()
        written_by = carol.generation_id
        await generation({alice: orders(0, 1), carol: orders(2, 3)})
        await alice.write(0, 41)
        await alice.end(is_committed=False)
        assert watch.of(OracleName.COMMIT_WENT_BACK) == []
        await alice.write(0, 41)
        await alice.end()
        (found,) = watch.of(OracleName.COMMIT_WENT_BACK)
    assert found.from_ == WrittenOffset(
        offset=57, member_id=carol.member_id, client_id="carol", generation_id=written_by
    )
    assert found.to == WrittenOffset(
        offset=41, member_id=alice.member_id, client_id="alice", generation_id=alice.generation_id
    )


async def test_an_overtaken_transactional_offset_is_not_reported(watch: Watched) -> None:
    async with Processor(watch, "alice") as alice:
        await generation({alice: ALL})
        await alice.write(0, 41)
        assert await alice.commit(0, 57) == 0
        await alice.end()
        assert await alice.commit(0, 57) == 0
    assert watch.of(OracleName.COMMIT_WENT_BACK) == []


async def test_progress_in_transactions_is_not_reported(watch: Watched) -> None:
    async with Processor(watch, "alice") as alice:
        await generation({alice: ALL})
        for offset in (0, 0):
            await alice.write(0, offset)
            await alice.end()
        await alice.write(0, 7)
        await alice.write(0, 0)
        await alice.end()
    assert watch.in_group() == []


async def test_an_offset_of_a_transaction_behind_the_end_is_found_with_its_writer(watch: Watched) -> None:
    async with Processor(watch, "alice") as alice:
        await generation({alice: ALL})
        await alice.write(0, 9)
        assert watch.of(OracleName.COMMIT_BEYOND_END) == []
        await alice.end()
    (found,) = watch.of(OracleName.COMMIT_BEYOND_END)
    assert [member.client_id for member in found.members] == ["alice"]


async def test_of_a_transaction_that_was_open_at_a_failover_no_writer_is_known(watch: Watched) -> None:
    """The oracle then attributes a lower offset to no writer."""
    async with Processor(watch, "alice") as alice:
        await generation({alice: ALL})
        await alice.write(0, 57)
        await alice.end()
        await alice.write(0, 41)
        partition = watch.server.runtime.find_partition(alice.group)
        await watch.control.failover.failover_partition(partition.number, 0, 0)
        await alice.end()
    (found,) = [
        violation
        for violation in watch.of(OracleName.COMMIT_BEYOND_END)
        if violation.to and violation.to.offset == 41
    ]
    assert found.members == []
    assert watch.of(OracleName.COMMIT_WENT_BACK) == []
