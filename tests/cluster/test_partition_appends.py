"""Appends: the size of one transaction, and the effect of a lost or rejected one."""

from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.key_value_store import (
    Put,
    StoreFull,
    StoreRequestTooLarge,
    StoreTransaction,
    StoreUnavailable,
    TransactionResult,
)
from coordinator.cluster.partition_appends import (
    MAX_BYTES,
    MAX_PARTITIONS,
    AppendDone,
    AppendFenced,
    AppendRejected,
    PartitionAppender,
    PartitionId,
)

KEYS = ClusterKeys("c")
DONE = TransactionResult(True, 9)
REFUSED = TransactionResult(False, 9)
FIRST, SECOND = PartitionId("t", 0), PartitionId("t", 1)


def sent(transaction: StoreTransaction | None) -> dict[bytes, bytes]:
    assert transaction is not None
    return {each.key: each.value for each in transaction.operations if isinstance(each, Put)}


def test_what_gathers_while_one_is_in_flight_goes_with_the_next() -> None:
    appender = PartitionAppender(KEYS)
    appender.append(FIRST, 5, 0, 1, b"a", "a")
    assert sent(appender.next_transaction()) == {KEYS.log("t", 0, 0): b"a"}
    appender.append(FIRST, 5, 1, 2, b"b", "b")
    appender.append(FIRST, 5, 2, 4, b"cd", "cd")
    assert appender.next_transaction() is None
    assert appender.apply_answer(DONE) == [AppendDone(FIRST, ("a",))]
    assert sent(appender.next_transaction()) == {KEYS.log("t", 0, 1): b"bcd"}
    assert appender.apply_answer(DONE) == [AppendDone(FIRST, ("b", "cd"))]
    assert appender.next_transaction() is None


def test_what_is_given_up_is_given_up_with_all_that_waits_behind_it() -> None:
    appender = PartitionAppender(KEYS)
    appender.append(FIRST, 5, 0, 1, b"a", "a")
    appender.append(SECOND, 6, 0, 1, b"x", "x")
    appender.next_transaction()
    appender.append(FIRST, 5, 1, 2, b"b", "b")
    appender.drop_partition(SECOND)
    full = StoreFull("full")
    assert appender.abandon_in_flight(full) == [AppendRejected(FIRST, ("a", "b"), full)]
    assert appender.next_transaction() is None
    appender.append(FIRST, 7, 0, 1, b"a", "again")
    assert sent(appender.next_transaction()) == {KEYS.log("t", 0, 0): b"a"}


def test_an_unknown_outcome_and_a_full_engine_have_the_same_transaction_sent_again() -> None:
    appender = PartitionAppender(KEYS)
    appender.append(FIRST, 5, 0, 1, b"a", "a")
    transaction = appender.next_transaction()
    for error in StoreUnavailable("no answer"), StoreFull("full"):
        appender.append(SECOND, 6, 0, 1, b"x", "x")
        appender.drop_partition(SECOND)
        assert appender.apply_answer(error) == []
        assert appender.next_transaction() is None
        assert appender.repeat_transaction() == transaction


def test_a_proof_waits_for_a_transaction_that_begins_after_it() -> None:
    appender = PartitionAppender(KEYS)
    appender.append(FIRST, 5, 0, 1, b"a", "a")
    appender.next_transaction()
    appender.prove_token(FIRST, 5, "proof")
    assert appender.apply_answer(DONE) == [AppendDone(FIRST, ("a",))]
    proof = appender.next_transaction()
    assert proof is not None
    assert proof.compares
    assert not proof.operations
    assert appender.apply_answer(DONE) == [AppendDone(FIRST, ("proof",))]


def test_only_who_lost_a_partition_is_fenced() -> None:
    appender = PartitionAppender(KEYS)
    appender.append(FIRST, 5, 0, 1, b"a", "a")
    appender.append(SECOND, 6, 0, 1, b"x", "x")
    appender.next_transaction()
    appender.append(FIRST, 5, 1, 2, b"b", "b")
    assert appender.apply_answer(REFUSED) == []
    assert sent(appender.next_transaction()) == {KEYS.log("t", 0, 0): b"a"}
    assert appender.apply_answer(REFUSED) == [AppendFenced(FIRST, ("a", "b"))]
    assert sent(appender.next_transaction()) == {KEYS.log("t", 1, 0): b"x"}
    assert appender.apply_answer(DONE) == [AppendDone(SECOND, ("x",))]
    assert appender.next_transaction() is None


def test_what_is_too_large_fails_alone() -> None:
    appender = PartitionAppender(KEYS)
    appender.append(FIRST, 5, 0, 1, b"a", "a")
    appender.next_transaction()
    problem = StoreRequestTooLarge("too large")
    assert appender.apply_answer(problem) == [AppendRejected(FIRST, ("a",), problem)]


def test_a_dropped_partition_is_not_heard_of_again_and_may_come_back_with_another_token() -> None:
    appender = PartitionAppender(KEYS)
    appender.append(FIRST, 5, 0, 1, b"a", "a")
    appender.next_transaction()
    appender.append(FIRST, 5, 1, 2, b"b", "b")
    appender.drop_partition(FIRST)
    appender.append(FIRST, 7, 0, 1, b"c", "c")
    assert appender.apply_answer(REFUSED) == []
    assert sent(appender.next_transaction()) == {KEYS.log("t", 0, 0): b"c"}
    assert appender.apply_answer(DONE) == [AppendDone(FIRST, ("c",))]


def test_a_transaction_is_bounded_and_nothing_is_left_out() -> None:
    appender = PartitionAppender(KEYS)
    for number in range(MAX_PARTITIONS + 1):
        appender.append(PartitionId("t", number), 5, 0, 1, b"a", number)
    assert len(sent(appender.next_transaction())) == MAX_PARTITIONS
    appender.apply_answer(DONE)
    assert len(sent(appender.next_transaction())) == 1
    appender.apply_answer(DONE)
    half = b"a" * (MAX_BYTES // 2)
    for offset in range(3):
        appender.append(FIRST, 5, offset, offset + 1, half, offset)
    assert sent(appender.next_transaction()) == {KEYS.log("t", 0, 0): half + half}
    appender.apply_answer(DONE)
    assert sent(appender.next_transaction()) == {KEYS.log("t", 0, 2): half}
