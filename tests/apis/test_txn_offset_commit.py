"""TxnOffsetCommit through the server: what happens while the coordinator of the transaction is asked."""

import asyncio

from coordinator.engine.partition import PartitionState
from coordinator.topics.consent import AskConsent, Consent
from protocol.errors import ErrorCode
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.server.harness import Client, serving
from tests.server.test_cleaner import one_turn

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
        asked: asyncio.Queue[AskConsent] = asyncio.Queue()
        consent: asyncio.Future[Consent] = asyncio.get_running_loop().create_future()

        def ask(question: AskConsent, *, retries: bool = True) -> asyncio.Future[Consent]:
            asked.put_nowait(question)
            return consent

        server.transactions.begin()
        assert server.transactions.parts is not None
        server.transactions.parts.consents.ask = ask  # type: ignore[method-assign]
        client.send(commit(), V)
        question = await asked.get()
        partition = server.runtime.partition_of("g")
        server.runtime.ownership.reload(partition)
        while partition.state is not PartitionState.OWNED:
            await one_turn()
        consent.set_result(dict.fromkeys(question.partitions, ErrorCode.NONE))
        (topic,) = (await client.receive()).topics
        # INVALID_TXN_STATE, which a batch without consent gets, would be the end of a Java producer.
        assert topic.partitions[0].error_code == ErrorCode.NOT_COORDINATOR
