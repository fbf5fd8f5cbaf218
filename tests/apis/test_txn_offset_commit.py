"""TxnOffsetCommit through the server: events during the verification with the transaction coordinator."""

import asyncio

from coordinator.runtime.partition_lifecycle import PartitionState
from coordinator.topics.long_work import AddOrVerifyRequest, AddOrVerifyResult
from protocol.error_codes import ErrorCode
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.harness import Client, serving
from tests.broker.test_log_cleaner import one_turn

V = 4


def commit() -> TxnOffsetCommitRequest:
    part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
    return TxnOffsetCommitRequest(
        transactional_id="t",
        group_id="g",
        producer_id=7,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[part])],
    )


async def test_a_producer_survives_its_group_being_read_again_meanwhile() -> None:
    async with serving() as server, Client(server) as client:
        asked: asyncio.Queue[AddOrVerifyRequest] = asyncio.Queue()
        verified: asyncio.Future[AddOrVerifyResult] = asyncio.get_running_loop().create_future()

        def ask(question: AddOrVerifyRequest, *, retries: bool = True) -> asyncio.Future[AddOrVerifyResult]:
            asked.put_nowait(question)
            return verified

        server.transactions.start()
        assert server.transactions.coordinator is not None
        server.transactions.coordinator.add_partitions_manager.request_partitions = ask  # type: ignore[method-assign]
        client.send(commit(), V)
        question = await asked.get()
        partition = server.runtime.find_partition("g")
        server.runtime.lifecycle.reload_partition(partition)
        while partition.state is not PartitionState.OWNED:
            await one_turn()
        verified.set_result(dict.fromkeys(question.partitions, ErrorCode.NONE))
        (topic,) = (await client.receive()).topics
        # INVALID_TXN_STATE, which a batch without verification gets, would be the end of a Java producer.
        assert topic.partitions[0].error_code == ErrorCode.NOT_COORDINATOR
