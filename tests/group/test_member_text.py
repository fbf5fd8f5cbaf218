from hypothesis import given
from hypothesis import strategies as st

from coordinator.group.member_text import (
    format_assignment,
    format_member,
    format_member_address,
    printable_name,
)
from protocol.consumer_protocol import ConsumerProtocolAssignment, TopicPartitions, encode_assignment
from tests.group.ask import named

UUID = "e4fa5815-9c2b-4c1e-8f7a-0123456789ab"


@given(st.binary(max_size=300))
def test_any_assignment_makes_a_short_text_of_one_line(data: bytes) -> None:
    for version in (b"", b"\0\1", b"\0\1\0\0\0\1"):
        text = format_assignment(version + data, "consumer")
        assert text.isprintable()
        assert 0 < len(text) < 2_000


@given(st.dictionaries(st.text(max_size=300), st.lists(st.integers(-(2**31), 2**31 - 1), max_size=50)))
def test_so_does_any_that_is_one(owned: dict[str, list[int]]) -> None:
    topics = [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in owned.items()]
    text = format_assignment(
        encode_assignment(ConsumerProtocolAssignment(assigned_partitions=topics), 3), "consumer"
    )
    assert text.isprintable()
    assert len(text) < 2_000
    assert (text == "nothing") == (not any(owned.values()))


def test_partitions_are_spelt_as_ranges_whatever_their_order() -> None:
    topics = [
        TopicPartitions(topic="orders", partitions=[3, 1, 0, 2]),
        TopicPartitions(topic="payments", partitions=[7, 2]),
        TopicPartitions(topic="orders", partitions=[9]),
        TopicPartitions(topic="empty", partitions=[]),
    ]
    data = encode_assignment(ConsumerProtocolAssignment(assigned_partitions=topics), 1)
    assert format_assignment(data, "consumer") == "orders 0-3 9, payments 2 7"
    assert format_assignment(data, "connect") == f"{len(data)} bytes"
    assert format_assignment(b"", "consumer") == "nothing"


def test_a_member_is_named_by_the_beginning_of_its_id() -> None:
    bob = printable_name(named(f"bob-{UUID}", client_id="bob"))
    assert format_member(bob) == "bob-e4fa5815"
    assert format_member_address(bob) == "bob-e4fa5815 at 10.0.0.1"
    static = printable_name(named(f"i1-{UUID}", "i1", "bob"))
    assert format_member(static) == "i1-e4fa5815 (client bob)"
    assert format_member(printable_name(named("own-id", client_id=""))) == "own-id (client without a name)"
