"""A group with a time of its own, and offsets pending in it: their transactions have the time of the process."""

from contextlib import AsyncExitStack

import pytest

from coordinator.broker.server import Server
from coordinator.control.control_plane import ControlPlane
from protocol.error_codes import ErrorCode
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdResponse
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.harness import Client, begin_producer
from tests.broker.test_group_partitions import code, commit
from tests.control.clock.living_member import GROUP, all_settled, members_of, there
from tests.control.clock.test_advance import HOUR_MS, advance

DAY_MS = 24 * HOUR_MS
FIRST, SECOND, NOTHING = 7, 8, -1
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


async def leave_pending(client: Client) -> InitProducerIdResponse:
    """The second offset, in a transaction that is open."""
    producer = await begin_producer(client, "copier")
    part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=SECOND, committed_metadata="")
    request = TxnOffsetCommitRequest(
        transactional_id="copier",
        group_id=GROUP,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[part])],
    )
    answer = await client.call(request, 5)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    return producer


async def end(client: Client, producer: InitProducerIdResponse, *, commits: bool) -> None:
    request = EndTxnRequest(
        transactional_id="copier",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=commits,
    )
    assert (await client.call(request, 5)).error_code == ErrorCode.NONE


async def stable(client: Client) -> tuple[int, ErrorCode]:
    """Return the stable committed offset of orders-0."""
    topic = OffsetFetchRequestTopic(name="orders", partition_indexes=[0])
    request = OffsetFetchRequest(group_id=GROUP, topics=[topic], require_stable=True)
    (part,) = (await client.call(request, 7)).topics[0].partitions
    return part.committed_offset, ErrorCode(part.error_code)


async def until_stable(client: Client) -> int:
    """That offset, once nothing is pending: the marker comes after the answer."""
    found = await stable(client)
    while found[1] is UNSTABLE:
        found = await stable(client)
    assert found[1] is ErrorCode.NONE
    return found[0]


@pytest.mark.parametrize("commits", [True, False])
async def test_a_transaction_ends_while_the_time_of_its_group_stands_still(
    server: Server, control: ControlPlane, stack: AsyncExitStack, commits: bool
) -> None:
    async with Client(server) as client:
        alice, bob = await members_of(stack, server, "alice", "bob")
        await control.clocks.set_clock(GROUP, frozen=True, expires_disconnected=False)
        producer = await leave_pending(client)
        assert await stable(client) == (NOTHING, UNSTABLE)
        await bob.die()
        await advance(control, HOUR_MS)
        await all_settled([alice])
        assert there(control) == {"alice"}
        assert await stable(client) == (NOTHING, UNSTABLE), "an hour is over for the group alone"
        await end(client, producer, commits=commits)
        assert await until_stable(client) == (SECOND if commits else NOTHING)
        state = control.clocks.find_state(GROUP)
        assert state is not None
        assert state.frozen


async def test_offsets_outlive_retention_while_pending_ones_exist(
    server: Server, control: ControlPlane
) -> None:
    """As in Kafka, the end of the transaction does not change the commit time of the offset."""
    async with Client(server) as client:
        assert code(await client.call(commit(FIRST, group=GROUP), 2)) == ErrorCode.NONE
        producer = await leave_pending(client)
        advanced = await advance(control, 8 * DAY_MS, silent=[])
        assert [fired.events for fired in advanced.fired if fired.events] == []
        assert await stable(client) == (NOTHING, UNSTABLE)
        await end(client, producer, commits=False)
        assert await until_stable(client) == FIRST
        advanced = await advance(control, HOUR_MS, silent=[])
        assert ["OffsetsExpired 1", "GroupDeleted"] in [fired.events for fired in advanced.fired]
        assert await until_stable(client) == NOTHING
