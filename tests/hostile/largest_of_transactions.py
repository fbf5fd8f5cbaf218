"""Of the requests about transactions, the largest that the bounds of each API allow."""

from typing import Any, Final

from protocol.apis import MAX_NAMES
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.hostile.shapes import KNOWN, KNOWN_PARTITIONS, Largest, names, over_topics


def _add(topics: list[tuple[str, list[Any]]]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=1,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in topics
        ],
    )


def _add_batch(transactions: int) -> AddPartitionsToTxnRequest:
    topics = [AddPartitionsToTxnTopic(name=KNOWN, partitions=[0])]
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=name, producer_id=1, producer_epoch=0, verify_only=False, topics=topics
            )
            for name in names(transactions)
        ]
    )


def _markers(topics: list[tuple[str, list[Any]]]) -> WriteTxnMarkersRequest:
    marker = WritableTxnMarker(
        producer_id=1,
        producer_epoch=0,
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=numbers) for name, numbers in topics],
        coordinator_epoch=0,
    )
    return WriteTxnMarkersRequest(markers=[marker])


def _txn_commits(topics: list[tuple[str, list[Any]]]) -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        transactional_id="t",
        group_id="g",
        producer_id=1,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in topics],
    )


def _txn_commit(index: int) -> TxnOffsetCommitRequestPartition:
    return TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata="")


OF_TRANSACTIONS: Final[dict[str, Largest]] = {
    **over_topics("AddPartitionsToTxn", 3, _add, lambda index: index),
    "AddPartitionsToTxn: transactions": Largest(lambda: _add_batch(40_000), 4),
    **over_topics("WriteTxnMarkers", 1, _markers, lambda index: index),
    "WriteTxnMarkers: known": Largest(lambda: _markers([(KNOWN, [*range(KNOWN_PARTITIONS)])]), 1),
    **over_topics("TxnOffsetCommit", 4, _txn_commits, _txn_commit),
    "TxnOffsetCommit: known": Largest(
        lambda: _txn_commits([(KNOWN, [_txn_commit(number) for number in range(KNOWN_PARTITIONS)])]), 4
    ),
    **over_topics(
        "DescribeProducers",
        0,
        lambda topics: DescribeProducersRequest(
            topics=[
                DescribeProducersTopicRequest(name=name, partition_indexes=numbers)
                for name, numbers in topics
            ]
        ),
        lambda index: index,
    ),
    "DescribeTransactions": Largest(
        lambda: DescribeTransactionsRequest(transactional_ids=names(MAX_NAMES)), 0
    ),
    "ListTransactions": Largest(
        lambda: ListTransactionsRequest(state_filters=names(1000), producer_id_filters=[*range(1000)]), 0
    ),
}
"""By what they are of."""
