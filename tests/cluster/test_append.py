"""Appends: what one transaction takes, and what a lost or refused one means."""

from coordinator.cluster.append import MAX_BYTES, MAX_PARTITIONS, Appender, Done, Failed, Fenced, Partition
from coordinator.cluster.engine.engine import NoSpace, Outcome, Put, TooLarge, Transaction, Unavailable
from coordinator.cluster.keys import Keys

KEYS = Keys("c")
DONE = Outcome(True, 9)
REFUSED = Outcome(False, 9)
FIRST, SECOND = Partition("t", 0), Partition("t", 1)


def sent(transaction: Transaction | None) -> dict[bytes, bytes]:
    assert transaction is not None
    return {each.key: each.value for each in transaction.operations if isinstance(each, Put)}


def test_what_gathers_while_one_is_in_flight_goes_with_the_next() -> None:
    appender = Appender(KEYS)
    appender.append(FIRST, 5, 0, 1, b"a", "a")
    assert sent(appender.next()) == {KEYS.log("t", 0, 0): b"a"}
    appender.append(FIRST, 5, 1, 2, b"b", "b")
    appender.append(FIRST, 5, 2, 4, b"cd", "cd")
    assert appender.next() is None
    assert appender.answered(DONE) == [Done(FIRST, ("a",))]
    assert sent(appender.next()) == {KEYS.log("t", 0, 1): b"bcd"}
    assert appender.answered(DONE) == [Done(FIRST, ("b", "cd"))]
    assert appender.next() is None


def test_what_is_given_up_is_given_up_with_all_that_waits_behind_it() -> None:
    appender = Appender(KEYS)
    appender.append(FIRST, 5, 0, 1, b"a", "a")
    appender.append(SECOND, 6, 0, 1, b"x", "x")
    appender.next()
    appender.append(FIRST, 5, 1, 2, b"b", "b")
    appender.drop(SECOND)
    full = NoSpace("full")
    assert appender.give_up(full) == [Failed(FIRST, ("a", "b"), full)]
    assert appender.next() is None
    appender.append(FIRST, 7, 0, 1, b"a", "again")
    assert sent(appender.next()) == {KEYS.log("t", 0, 0): b"a"}


def test_an_unknown_outcome_and_a_full_engine_have_the_same_transaction_sent_again() -> None:
    appender = Appender(KEYS)
    appender.append(FIRST, 5, 0, 1, b"a", "a")
    transaction = appender.next()
    for error in Unavailable("no answer"), NoSpace("full"):
        appender.append(SECOND, 6, 0, 1, b"x", "x")
        appender.drop(SECOND)
        assert appender.answered(error) == []
        assert appender.next() is None
        assert appender.again() == transaction


def test_a_proof_waits_for_a_transaction_that_begins_after_it() -> None:
    appender = Appender(KEYS)
    appender.append(FIRST, 5, 0, 1, b"a", "a")
    appender.next()
    appender.prove(FIRST, 5, "proof")
    assert appender.answered(DONE) == [Done(FIRST, ("a",))]
    proof = appender.next()
    assert proof is not None
    assert proof.compares
    assert not proof.operations
    assert appender.answered(DONE) == [Done(FIRST, ("proof",))]


def test_only_who_lost_a_partition_is_fenced() -> None:
    appender = Appender(KEYS)
    appender.append(FIRST, 5, 0, 1, b"a", "a")
    appender.append(SECOND, 6, 0, 1, b"x", "x")
    appender.next()
    appender.append(FIRST, 5, 1, 2, b"b", "b")
    assert appender.answered(REFUSED) == []
    assert sent(appender.next()) == {KEYS.log("t", 0, 0): b"a"}
    assert appender.answered(REFUSED) == [Fenced(FIRST, ("a", "b"))]
    assert sent(appender.next()) == {KEYS.log("t", 1, 0): b"x"}
    assert appender.answered(DONE) == [Done(SECOND, ("x",))]
    assert appender.next() is None


def test_what_is_too_large_fails_alone() -> None:
    appender = Appender(KEYS)
    appender.append(FIRST, 5, 0, 1, b"a", "a")
    appender.next()
    problem = TooLarge("too large")
    assert appender.answered(problem) == [Failed(FIRST, ("a",), problem)]


def test_a_dropped_partition_is_not_heard_of_again_and_may_come_back_with_another_token() -> None:
    appender = Appender(KEYS)
    appender.append(FIRST, 5, 0, 1, b"a", "a")
    appender.next()
    appender.append(FIRST, 5, 1, 2, b"b", "b")
    appender.drop(FIRST)
    appender.append(FIRST, 7, 0, 1, b"c", "c")
    assert appender.answered(REFUSED) == []
    assert sent(appender.next()) == {KEYS.log("t", 0, 0): b"c"}
    assert appender.answered(DONE) == [Done(FIRST, ("c",))]


def test_a_transaction_is_bounded_and_nothing_is_left_out() -> None:
    appender = Appender(KEYS)
    for number in range(MAX_PARTITIONS + 1):
        appender.append(Partition("t", number), 5, 0, 1, b"a", number)
    assert len(sent(appender.next())) == MAX_PARTITIONS
    appender.answered(DONE)
    assert len(sent(appender.next())) == 1
    appender.answered(DONE)
    half = b"a" * (MAX_BYTES // 2)
    for offset in range(3):
        appender.append(FIRST, 5, offset, offset + 1, half, offset)
    assert sent(appender.next()) == {KEYS.log("t", 0, 0): half + half}
    appender.answered(DONE)
    assert sent(appender.next()) == {KEYS.log("t", 0, 2): half}
