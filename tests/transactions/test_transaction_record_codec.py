import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.outcome import Fact
from coordinator.transactions.transaction_records import TransactionRecordCodec, UnknownValue, build_fact
from protocol.primitives import Malformed
from protocol.records.transaction_state import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
)
from tests.transactions.coordinator import A0, Coordinator

CODEC = TransactionRecordCodec()
INT16, INT32 = st.integers(-(2**15), 2**15 - 1), st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
VALUES = st.builds(
    TransactionLogValue,
    producer_id=INT64,
    producer_epoch=INT16,
    transaction_timeout_ms=INT32,
    transaction_status=st.integers(0, 5),
    transaction_partitions=st.lists(
        st.builds(
            TransactionPartitions, topic=st.text(max_size=9), partition_ids=st.lists(INT32, max_size=3)
        ),
        max_size=3,
    ),
    transaction_last_update_timestamp_ms=INT64,
    transaction_start_timestamp_ms=INT64,
    previous_producer_id=st.just(-1) | INT64,
    next_producer_id=st.just(-1) | INT64,
    client_transaction_version=st.integers(0, 2),
)


@given(st.text(max_size=30), VALUES, st.booleans())
def test_a_value_is_written_in_a_version_that_has_all_it_says(
    name: str, value: TransactionLogValue, is_flexible: bool
) -> None:
    fact = build_fact(name, value, is_flexible=is_flexible)
    key, data = CODEC.encode(fact)
    assert data is not None
    assert CODEC.canonical_key(key) == key
    assert CODEC.decode(key, data) == fact
    assert (data[0], data[1]) == (0, fact.value_version)


ID, EPOCH, TIMEOUT = "00000000000003e8", "0000", "0000ea60"
EMPTY, NEVER, NOW = "00", "ff" * 8, "0000018bcfe56800"
NULL_BEFORE, NULL_SINCE, ONE_TAG_PREVIOUS_ID = "ffffffff", "00", "010008" + ID


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        (0, ["0000", ID, EPOCH, TIMEOUT, EMPTY, NULL_BEFORE, NOW, NEVER]),
        (1, ["0001", ID, EPOCH, TIMEOUT, EMPTY, NULL_SINCE, NOW, NEVER, ONE_TAG_PREVIOUS_ID]),
        (2, ["0001", ID, EPOCH, TIMEOUT, EMPTY, NULL_SINCE, NOW, NEVER, ONE_TAG_PREVIOUS_ID]),
    ],
)
def test_the_bytes_of_an_id_that_was_just_initialized(level: int, expected: list[str]) -> None:
    """Laid out by hand from Kafka's schema, with the fields that a 4.4.0 broker fills."""
    coordinator = Coordinator(transaction_version=level)
    coordinator.init()
    key, value = CODEC.encode(coordinator.records[0])
    assert key == b"\x00\x00\x00\x08payments"
    assert value is not None
    assert value.hex() == "".join(expected)


def test_an_empty_id_has_no_list_of_partitions_and_one_that_is_over_an_empty_one() -> None:
    coordinator = Coordinator()
    coordinator.init()
    coordinator.add(A0)
    coordinator.end(True)
    coordinator.finish_markers()
    partitions = [record.value.transaction_partitions for record in coordinator.records]
    in_it = [TransactionPartitions(topic="a", partition_ids=[0])]
    assert partitions == [None, in_it, in_it, []]


def test_a_tombstone_is_a_key() -> None:
    fact = build_fact("t", None)
    assert CODEC.encode(fact) == (b"\x00\x00\x00\x01t", None)


def test_other_versions_are_skipped() -> None:
    assert CODEC.canonical_key(b"\x00\x01whatever") is None
    decoded = CODEC.decode(b"\x00\x00\x00\x01t", b"\x00\x02whatever")
    assert decoded == Fact(TransactionLogKey(transactional_id="t"), UnknownValue(2), 2)


@pytest.mark.parametrize("key", [b"", b"\x00", b"\x00\x00", b"\x00\x00\x00\x05ab", b"\x00\x00\x00\x01ab"])
def test_a_damaged_key_is_malformed(key: bytes) -> None:
    with pytest.raises(Malformed):
        CODEC.canonical_key(key)


def damaged() -> list[bytes]:
    """A good value cut short everywhere, with states that are never written, and open without partitions."""
    coordinator = Coordinator()
    coordinator.init()
    good = CODEC.encode(coordinator.records[0]).value
    assert good is not None
    state = 16
    with_state = [good[:state] + bytes([number]) + good[state + 1 :] for number in (1, 3, 5, 6, 7, 8, 255)]
    return [good[:length] for length in range(len(good))] + with_state


@pytest.mark.parametrize("value", damaged(), ids=bytes.hex)
def test_a_damaged_value_is_malformed(value: bytes) -> None:
    with pytest.raises(Malformed):
        CODEC.decode(b"\x00\x00\x00\x01t", value)
