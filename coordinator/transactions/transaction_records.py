"""The records of `__transaction_state`: encoding, decoding, batch size, and the durable half of a shard, which
replays them.

Key and value each begin with their version, an int16. A key of another version belongs to another kind of record. A
value of another version is from a later Kafka and is skipped, as in Kafka. A known version with invalid content is
corrupt. Kafka refuses a record above the topic's `max.message.bytes`, such as that of a transaction with very many
partitions.

The durable half equals the log. `replay` is its only writer, for records that handlers emit and for records that
are read from the log. So loading any prefix of the log gives the state that the live shard had there.

Source: Kafka's `TransactionLog`, `TransactionStateManager.appendTransactionToLog`.
"""

from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from coordinator.core.outcome import NO_PRODUCER_ID, EncodedFact, Fact
from coordinator.transactions.transaction_state_machine import EMPTY, ONGOING, STATUSES, WRITTEN
from protocol.codec import decoder, writer
from protocol.primitives import Malformed
from protocol.records.transaction_state import (
    KEY_VERSION,
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
)
from protocol.schema import message_info
from storage.batch_size import calculate_batch_size

PLAIN_VERSION: Final = 0
FLEXIBLE_VERSION: Final = 1
"""The value version with previous and next producer ids and the client's transaction level."""
_INT16: Final = Struct(">h")
_VALUE_VERSIONS: Final = message_info(TransactionLogValue).versions
_EMPTY_STATUS: Final = STATUSES[EMPTY]
_KEY_PREFIX: Final = _INT16.pack(KEY_VERSION)
_write_key: Final = writer(TransactionLogKey, KEY_VERSION)
_VALUE_WRITERS: Final = {
    version: (_INT16.pack(version), writer(TransactionLogValue, version))
    for version in (PLAIN_VERSION, FLEXIBLE_VERSION)
}

_MAX_PARTITION_BYTES: Final = 300
"""Bytes: the longest topic name, and numbers."""
_MAX_CHARACTER_BYTES: Final = 3
_MAX_OTHER_BYTES: Final = 300


class UnknownValue(NamedTuple):
    """A value of an unknown version."""

    version: int


def fits_plain_version(value: TransactionLogValue) -> bool:
    """Return whether a value loses nothing in the plain version (0)."""
    return (
        value.previous_producer_id == -1
        and value.next_producer_id == -1
        and value.client_transaction_version == 0
        and value.next_producer_epoch == -1
    )


def build_fact(
    transactional_id: str, value: TransactionLogValue | None, *, is_flexible: bool = False
) -> Fact:
    """Build the record of a transactional id, a tombstone for None. `is_flexible` forces the flexible form even if
    the value does not need it.
    """
    key = TransactionLogKey(transactional_id=transactional_id)
    if value is None:
        return Fact(key, None)
    is_plain = not is_flexible and fits_plain_version(value)
    return Fact(key, value, PLAIN_VERSION if is_plain else FLEXIBLE_VERSION)


class TransactionRecordCodec:
    """The codec for records of `__transaction_state`."""

    contents: Final = f"transactions, of record type {KEY_VERSION}"

    def encode(self, fact: Fact) -> EncodedFact:
        """Return the key and the value of a fact."""
        key = bytearray(_KEY_PREFIX)
        _write_key(fact.key, key)
        if fact.value is None:
            return EncodedFact(bytes(key), None)
        prefix, write_value = _VALUE_WRITERS[fact.value_version]
        value = bytearray(prefix)
        write_value(fact.value, value)
        return EncodedFact(bytes(key), bytes(value))

    def encoder(self) -> Callable[[Fact], EncodedFact]:
        """Return `encode`, which caches nothing."""
        return self.encode

    def canonical_key(self, key: bytes) -> bytes | None:
        """Return the key unchanged, None for a key of another version. Raises Malformed."""
        if _read_version(key, "key") != KEY_VERSION:
            return None
        decoder(TransactionLogKey, KEY_VERSION)(key, _INT16.size)
        return key

    def decode(self, key: bytes, value: bytes) -> Fact:
        """Decode a fact of the log. The value of an unknown version becomes an UnknownValue. Raises Malformed."""
        assert _read_version(key, "key") == KEY_VERSION, key
        decoded_key = decoder(TransactionLogKey, KEY_VERSION)(key, _INT16.size)
        version = _read_version(value, "value")
        if version not in _VALUE_VERSIONS:
            return Fact(decoded_key, UnknownValue(version), version)
        decoded: TransactionLogValue = decoder(TransactionLogValue, version)(value, _INT16.size)
        _check_value(decoded)
        return Fact(decoded_key, decoded, version)


def _check_value(value: TransactionLogValue) -> None:
    status = value.transaction_status
    if status not in WRITTEN:
        raise Malformed(f"{status} is not a written state of a transaction")
    if value.transaction_partitions is None and status != _EMPTY_STATUS:
        raise Malformed(f"a transaction that is {WRITTEN[status].value} has no list of partitions")


def _read_version(data: bytes, part: str) -> int:
    if len(data) < _INT16.size:
        raise Malformed(f"a record {part} of {len(data)} bytes")
    version: int = _INT16.unpack_from(data)[0]
    return version


_CODEC: Final = TransactionRecordCodec()


def exceeds_max_bytes(
    transactional_id: str, partitions: Sequence[TransactionPartitions], count: int, max_bytes: int
) -> bool:
    """Return whether the batch with the record of an open transaction exceeds `max_bytes`. `count` is the number of
    `partitions`.
    """
    upper_bound = (
        count * _MAX_PARTITION_BYTES + len(transactional_id) * _MAX_CHARACTER_BYTES + _MAX_OTHER_BYTES
    )
    if upper_bound <= max_bytes:
        return False
    value = TransactionLogValue(
        producer_id=0,
        producer_epoch=0,
        transaction_timeout_ms=0,
        transaction_status=STATUSES[ONGOING],
        transaction_partitions=list(partitions),
        transaction_last_update_timestamp_ms=0,
        transaction_start_timestamp_ms=0,
        previous_producer_id=0,
        client_transaction_version=2,
    )
    return calculate_batch_size([_CODEC.encode(build_fact(transactional_id, value))]) > max_bytes


class DurableTransactions:
    """The newest value of each transactional id. Values are immutable."""

    __slots__ = ("skipped", "values")

    def __init__(self, values: dict[str, TransactionLogValue] | None = None) -> None:
        self.values: dict[str, TransactionLogValue] = {} if values is None else values
        """Read only."""
        self.skipped: list[UnknownValue] = []
        """Values of unknown versions; their records stay in the log."""

    def replay(self, record: Fact, _: int = NO_PRODUCER_ID) -> None:
        """Apply one record: the later one of a key wins, a tombstone removes it. Records of this log belong to no
        transaction."""
        value = record.value
        if type(value) is TransactionLogValue:
            self.values[record.key.transactional_id] = value
        elif value is None:
            self.values.pop(record.key.transactional_id, None)
        else:
            assert isinstance(value, UnknownValue), value
            self.values.pop(record.key.transactional_id, None)
            self.skipped.append(value)

    def copy(self) -> "DurableTransactions":
        """Return a copy that later records do not change."""
        return DurableTransactions(dict(self.values))

    def __len__(self) -> int:
        """Return the number of transactional ids."""
        return len(self.values)

    def facts(self) -> Iterator[Fact]:
        """Yield records that restore this state from an empty one, each in a version that can hold all fields of
        its value.
        """
        for transactional_id, value in self.values.items():
            yield build_fact(transactional_id, value)
