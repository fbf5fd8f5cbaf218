"""Permissions on transactional ids, and on descriptions of other clients' transactions."""

from typing import Any

from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
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
from tests.oracle.batches import batch, produce_request
from tests.oracle.guarded import CLIENT, NAMES, Guarded, Stage, cases, of_each, play_guarded
from tests.oracle.peers import SECURED
from tests.oracle.play import Play
from tests.oracle.producer import NEW, OLD, filled, transactional
from tests.oracle.rights import grant
from tests.oracle.secured import enter
from tests.oracle.session import session

_PRODUCER: dict[str, Any] = {"producer_id": 4_000_000, "producer_epoch": 0}
"""An unknown producer."""
_ADDED_ONE_BY_ONE = 3
"""The newest version of AddPartitionsToTxn that clients send."""


def _init(stage: Stage) -> Any:
    return InitProducerIdRequest(transactional_id=stage.name, transaction_timeout_ms=60_000)


def _init_without_id(stage: Stage) -> Any:
    return InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)


def _add_partitions(stage: Stage) -> Any:
    names = [*stage.names, stage.play.name("nothing")]
    topics = [AddPartitionsToTxnTopic(name=name, partitions=[0, 1]) for name in names]
    if stage.version > _ADDED_ONE_BY_ONE:
        transaction = AddPartitionsToTxnTransaction(transactional_id=stage.name, topics=topics, **_PRODUCER)
        return AddPartitionsToTxnRequest(transactions=[transaction])
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=stage.name,
        v3_and_below_producer_id=4_000_000,
        v3_and_below_topics=topics,
    )


def _add_offsets(stage: Stage) -> Any:
    return AddOffsetsToTxnRequest(transactional_id=stage.name, group_id=stage.name, **_PRODUCER)


def _end(stage: Stage) -> Any:
    return EndTxnRequest(transactional_id=stage.name, committed=True, **_PRODUCER)


def _commit(stage: Stage) -> Any:
    row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    topics = [
        TxnOffsetCommitRequestTopic(name=topic.name, topic_id=topic.id, partitions=[row])
        for topic in stage.topics
    ]
    return TxnOffsetCommitRequest(
        transactional_id=stage.name, group_id=stage.name, topics=topics, **_PRODUCER
    )


def _markers(stage: Stage) -> Any:
    topics = [WritableTxnMarkerTopic(name=name, partition_indexes=[0, 1]) for name in stage.names]
    marker = WritableTxnMarker(transaction_result=True, topics=topics, coordinator_epoch=0, **_PRODUCER)
    return WriteTxnMarkersRequest(markers=[marker])


def _three_transactions(stage: Stage) -> None:
    for name in NAMES:
        filled(transactional(stage.play, name), *((topic, 0) for topic in stage.topics))


def _describe(stage: Stage) -> Any:
    return DescribeTransactionsRequest(transactional_ids=[*stage.names, stage.play.name("nothing")])


def _list(stage: Stage) -> Any:
    return ListTransactionsRequest(state_filters=[], producer_id_filters=[])


def ids_of(answer: Any) -> list[str]:
    """The transactional ids of an answer, in its order."""
    return [each.transactional_id for each in answer.transaction_states]


OWN_ID = {"the id": (f"WRITE TXN {NAMES[1]}",)}
WITH_GROUP = {**OWN_ID, "and the group": (f"READ GROUP {NAMES[1]}",)}
TABLE = {
    "InitProducerId": Guarded((0, 2, 5), _init, OWN_ID, has_topics=False),
    "InitProducerId-by-writing": Guarded(
        (0, 3, 5), _init_without_id, {"a topic": ("WRITE TOPIC orders",)}, has_topics=False
    ),
    "InitProducerId-by-prefix": Guarded(
        (4,), _init_without_id, {"topics": ("WRITE TOPIC ord...",)}, has_topics=False
    ),
    "InitProducerId-by-all": Guarded(
        (4,), _init_without_id, {"a topic": ("ALL TOPIC ord",)}, has_topics=False
    ),
    "InitProducerId-of-the-cluster": Guarded(
        (0, 3, 5), _init_without_id, {"the cluster": ("IDEMPOTENT_WRITE CLUSTER",)}, has_topics=False
    ),
    "InitProducerId-denied": Guarded(
        (4,),
        _init_without_id,
        {
            "a topic that is denied": ("WRITE TOPIC orders", "DENY WRITE TOPIC ord..."),
            "another": ("WRITE TOPIC another",),
            "all denied": ("DENY WRITE TOPIC *",),
        },
        has_topics=False,
    ),
    "AddPartitionsToTxn": Guarded(
        (0, 3, 4, 5),
        _add_partitions,
        {**OWN_ID, **of_each("WRITE"), "the cluster": ("CLUSTER_ACTION CLUSTER",)},
    ),
    "AddOffsetsToTxn": Guarded((0, 2, 4), _add_offsets, WITH_GROUP, has_topics=False),
    "EndTxn": Guarded((0, 3, 5), _end, OWN_ID, has_topics=False),
    "TxnOffsetCommit": Guarded((0, 3, 5, 6), _commit, {**WITH_GROUP, **of_each("READ")}),
    "WriteTxnMarkers": Guarded(
        (1, 2), _markers, {"writing": ("WRITE TOPIC *",), "the cluster": ("CLUSTER_ACTION CLUSTER",)}
    ),
    "WriteTxnMarkers-by-altering": Guarded((1,), _markers, {"the cluster": ("ALTER CLUSTER",)}),
    "DescribeTransactions": Guarded(
        (0,),
        _describe,
        {**of_each("DESCRIBE", "TXN"), "a topic": ("DESCRIBE TOPIC orders",)},
        ids_of,
        prepare=_three_transactions,
    ),
    "ListTransactions": Guarded(
        (0, 1, 2), _list, of_each("DESCRIBE", "TXN"), own=True, prepare=_three_transactions
    ),
}


@session(setup=SECURED, case=cases(TABLE))
def rights_to_transactions(play: Play, case: str) -> None:
    play_guarded(play, TABLE, case)


@session(setup=SECURED, versions=("old", "new"))
def a_transaction_of_who_may_less_and_less(play: Play, versions: str) -> None:
    enter(play, CLIENT)
    orders, other = play.topic("orders", 1), play.topic("other", 1)
    grant(play, CLIENT, "WRITE TXN t", "WRITE TOPIC orders", "READ GROUP g")
    mine = transactional(play, by=CLIENT, versions={"old": OLD, "new": NEW}[versions])
    if versions == "old":
        mine.add((orders, 0), note="may be written")
        mine.add((orders, 0), (other, 0), note="one may not")
    mine.produce(orders, note="may be written")
    mine.produce(other, note="may not")
    if versions == "old":
        mine.add_offsets(note="of its group")
        mine.add_offsets(play.name("another"), note="of another group")
    mine.commit_offsets({(orders, 0): 5}, note="of a topic that it may not read")
    grant(play, CLIENT, "DENY WRITE TXN t")
    mine.produce(orders, note="with an id that it lost")
    mine.end_now(note="with an id that it lost")
    mine.init("with an id that it lost")


@session(setup=SECURED, version=(3, 9, 12))
def batches_of_a_transaction_without_the_id(play: Play, version: int) -> None:
    """A transactional id alone is not looked at, a batch is."""
    enter(play, CLIENT)
    orders, other = play.topic("orders", 1), play.topic("other", 1)
    grant(play, CLIENT, "WRITE TOPIC orders")
    in_transaction = batch(producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    idempotent = batch(producer_id=5, producer_epoch=0, base_sequence=0)
    for note, data in (
        ("a transaction's", in_transaction),
        ("any", batch()),
        ("an idempotent producer's", idempotent),
    ):
        asked = produce_request((orders, 0, data), (other, 0, data), transactional_id=play.name("t"))
        play.ask(asked, version, CLIENT, note)
    play.ask(produce_request((orders, 0, in_transaction)), version, CLIENT, "without naming the id")
