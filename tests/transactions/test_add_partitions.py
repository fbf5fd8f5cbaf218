from coordinator.transactions.transaction_event_types import (
    EpochDiffers,
    MarkersOutstanding,
    PartitionsMissing,
    ProducerIdDiffers,
    TransactionBegan,
    TransactionRequestRefused,
)
from protocol.error_codes import ErrorCode
from tests.transactions.coordinator import A0, A1, B0, FIRST_ID, TID, Coordinator

NONE = ErrorCode.NONE


def ready() -> Coordinator:
    """A transactional id that is Empty at epoch 0."""
    coordinator = Coordinator()
    coordinator.init()
    return coordinator


def test_the_first_partition_begins_the_transaction_and_others_join_it() -> None:
    coordinator = ready()
    coordinator.advance(100)
    assert coordinator.add(A0, B0) == {A0: NONE, B0: NONE}
    began_ms = coordinator.now.wall_ms
    coordinator.advance(100)
    assert coordinator.add(A1, A0) == {A0: NONE, A1: NONE}
    described = coordinator.describe()
    assert described.transaction_start_time_ms == began_ms
    assert [(topic.topic, topic.partitions) for topic in described.topics] == [("a", [0, 1]), ("b", [0])]
    assert coordinator.find_events(TransactionBegan) == [TransactionBegan(TID, FIRST_ID, 0, 2)]


def test_what_is_in_it_already_is_not_written_again() -> None:
    coordinator = ready()
    coordinator.add(A0, A1)
    written = len(coordinator.records)
    assert coordinator.add(A1) == {A1: NONE}
    assert coordinator.add() == {}
    assert len(coordinator.records) == written


def test_the_next_transaction_begins_without_the_partitions_of_the_last_one() -> None:
    coordinator = ready()
    coordinator.add(A0)
    coordinator.end(True, version=4)
    coordinator.finish_markers()
    coordinator.add(B0)
    coordinator.end(True, version=4)
    assert coordinator.markers[0].partitions == [B0]


def test_the_level_of_who_adds_is_written() -> None:
    coordinator = ready()
    coordinator.add(A0, level=2)
    assert coordinator.value().client_transaction_version == 2
    coordinator.add(A1, level=0)
    assert coordinator.value().client_transaction_version == 0


def test_a_value_that_was_handed_out_never_changes() -> None:
    coordinator = ready()
    coordinator.add(A0)
    before = coordinator.shard.copy_durable()
    partitions = repr(before.values[TID])
    coordinator.add(A1, B0)
    assert repr(before.values[TID]) == partitions


def test_verifying_tells_of_each_partition_and_writes_nothing() -> None:
    coordinator = ready()
    coordinator.add(A0)
    written = len(coordinator.records)
    answer = coordinator.add(A0, A1, B0, verifies=True)
    missing = ErrorCode.TRANSACTION_ABORTABLE
    assert answer == {A0: NONE, A1: missing, B0: missing}
    assert len(coordinator.records) == written
    assert coordinator.find_events(TransactionRequestRefused)[-1].detail == PartitionsMissing(2)


def test_why_it_is_refused_is_told() -> None:
    coordinator = ready()
    coordinator.add(A0)
    coordinator.add(B0, epoch=4)
    coordinator.add(B0, producer_id=5)
    coordinator.add(B0, tid="nobody")
    coordinator.end(True)
    coordinator.add(B0)
    refused = coordinator.find_events(TransactionRequestRefused)
    assert [(event.error, event.state, event.detail) for event in refused] == [
        (90, "Ongoing", EpochDiffers(4, 0)),
        (49, "Ongoing", ProducerIdDiffers(5, FIRST_ID)),
        (49, "", None),
        (51, "PrepareCommit", MarkersOutstanding(1)),
    ]
    assert [(event.transactional_id, event.producer_id, event.producer_epoch) for event in refused] == [
        (TID, FIRST_ID, 4),
        (TID, 5, 0),
        ("nobody", FIRST_ID, 0),
        (TID, FIRST_ID, 0),
    ]


def test_nobody_is_sent_away_because_a_record_is_on_its_way() -> None:
    """Kafka returns CONCURRENT_TRANSACTIONS until the previous record is durable.

    Here the second outcome builds on the first, and the runtime sends both responses once the log is durable up
    to there.
    """
    coordinator = Coordinator()
    first, second = coordinator.init(), coordinator.init()
    assert [(answer.error, answer.epoch) for answer in (first, second)] == [(0, 0), (0, 1)]
    assert coordinator.add(A0, epoch=1) == {A0: NONE}
    assert coordinator.add(B0, epoch=1) == {B0: NONE}
    assert coordinator.end(True, epoch=1).error == NONE
    assert len(coordinator.records) == 5
