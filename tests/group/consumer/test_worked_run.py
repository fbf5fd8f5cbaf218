"""Two members share a topic: the responses to each step equal those of a Kafka broker."""

from protocol.error_codes import ErrorCode
from tests.group.consumer.members import FOO, Members


def test_a_partition_changes_hands() -> None:
    group = Members()
    assert group.enter("A") == (2, {FOO: [0, 1, 2]})
    assert group.epochs() == ("Stable", 2, 2)
    assert group.enter("B") == (2, {})
    assert group.epochs() == ("Assigning", 3, 2)
    group.advance(1_000)
    assert group.say("A", 2) == (2, {FOO: [0, 1]})
    assert group.epochs() == ("Reconciling", 3, 3)
    assert group.say("A", 2, owned={FOO: [0, 1, 2]}) == (2, None)
    assert group.say("B", 2) == (3, None)
    assert group.say("A", 2, owned={FOO: [0, 1]}) == (3, None)
    assert group.say("A", 2, owned={FOO: [0, 1]}) == (3, None)
    error, _ = group.say("A", 2)
    assert error is ErrorCode.FENCED_MEMBER_EPOCH
    assert group.say("B", 3) == (3, {FOO: [2]})
    assert group.epochs() == ("Stable", 3, 3)
