"""The cost of many or large transactions, and operations without a cost."""

import gc
import tracemalloc

from coordinator.core.outcome import Context, Now
from coordinator.transactions.transaction_event_types import RecordTooLarge, TransactionRequestRefused
from coordinator.transactions.transaction_requests import (
    AddPartitions,
    AddPartitionsResult,
    DescribeTransaction,
    MarkersWritten,
    TransactionTimerKey,
    TransactionTimerKind,
)
from coordinator.transactions.transaction_shard import TransactionShard
from protocol.messages.end_txn import EndTxnRequest
from tests.transactions.config import transaction_config
from tests.transactions.coordinator import A0, FIRST_ID, START, Coordinator

MANY = 10_000
KEY = TransactionTimerKey(TransactionTimerKind.ABORT_TIMED_OUT)


def test_a_transaction_of_many_partitions() -> None:
    coordinator = Coordinator()
    coordinator.init()
    partitions = [("topic", number) for number in range(MANY)]
    coordinator.add(*partitions)
    coordinator.end(True)
    (markers,) = coordinator.markers
    assert len(markers.partitions) == MANY
    coordinator.restart()
    (markers,) = coordinator.markers
    for start in range(0, MANY, 1000):
        assert coordinator.state() == "PrepareCommit"
        coordinator.tell(markers.build_markers_written(partitions[start : start + 1000]))
    assert coordinator.state() == "CompleteCommit"


def test_one_whose_record_would_be_too_large_goes_on_without_what_was_too_much() -> None:
    coordinator = Coordinator(message_max_bytes=5000)
    coordinator.init()
    few, many = [("topic", number) for number in range(100)], [("topic", number) for number in range(2000)]
    assert set(coordinator.add(*few).values()) == {0}
    assert set(coordinator.add(*many).values()) == {-1}
    assert coordinator.find_events(TransactionRequestRefused)[0].detail == RecordTooLarge(2000, 5000)
    assert set(coordinator.add(*many[:1150]).values()) == {0}
    coordinator.end(True)
    assert len(coordinator.markers[0].partitions) == 1150


def open_shard(count: int) -> tuple[TransactionShard, Coordinator]:
    """A shard that has loaded so many open transactions, and one like them."""
    one = Coordinator()
    one.init(timeout_ms=1000)
    one.add(A0)
    record = one.records[-1]
    shard = TransactionShard(transaction_config(), 1)
    for number in range(count):
        key = type(record.key)(transactional_id=f"t{number}")
        shard.replay(type(record)(key, record.value, record.value_version))
    return shard, one


def test_many_open_transactions_time_out_in_short_turns() -> None:
    shard, _ = open_shard(MANY)
    outcome = shard.on_loaded(START)
    at = Now(START.monotonic_ms + 10_000, START.wall_ms + 10_000)
    assert outcome.timers[KEY] == at.monotonic_ms
    aborted = turns = 0
    while shard.list_open_ids():
        outcome = shard.fire_timer(KEY, at)
        assert len(outcome.records) <= 200
        aborted += len(outcome.messages)
        turns += 1
    assert (aborted, turns) == (MANY, MANY / 200)
    shard.check_invariants()


def test_many_ended_transactions_are_loaded_with_all_their_markers() -> None:
    shard, one = open_shard(0)
    one.end(True)
    record = one.records[-1]
    for number in range(MANY):
        key = type(record.key)(transactional_id=f"t{number}")
        shard.replay(type(record)(key, record.value, record.value_version))
    outcome = shard.on_loaded(START)
    assert [message.key for message in outcome.messages] == [f"t{number}" for number in range(MANY)]


def test_ids_that_nobody_initialized_take_no_memory() -> None:
    shard = TransactionShard(transaction_config(), 1)
    context = Context(1, 5, "", "")

    def ask(name: str) -> None:
        end = EndTxnRequest(transactional_id=name, producer_id=1, producer_epoch=0, committed=True)
        written = MarkersWritten(name, 1, 0, 1, [A0])
        for request in (
            AddPartitions(name, FIRST_ID, 0, [A0], False, 0),
            end,
            DescribeTransaction(name),
            written,
        ):
            outcome = shard.handle(request, context, START)
            assert not outcome.records
            assert not outcome.timers

    ask("warm")
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(2000):
            ask(f"unknown-{number}")
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 20_000
    assert shard.list_transactional_ids() == []


def test_an_answer_names_every_partition_that_was_asked_for_once() -> None:
    coordinator = Coordinator()
    coordinator.init()
    request = AddPartitions("payments", FIRST_ID, 0, [A0, A0], False, 0)
    answer = coordinator.send(request).answer(AddPartitionsResult)
    assert dict(answer.errors) == {A0: 0}
    assert coordinator.describe().topics[0].partitions == [0]
