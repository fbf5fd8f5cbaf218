"""How the facts of transactions are written in `__transaction_state`, and read back.

Key and value each begin with their version, an int16. A key of another version is no transaction's; a value of
another version is from a later Kafka, and is skipped as Kafka does. What is of a known version and makes no sense
is damage.

Source: Kafka's `TransactionLog`.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple

from coordinator.machine.outcome import EncodedFact, Fact
from coordinator.transactions.state import EMPTY, STATUSES, WRITTEN
from protocol.codec import decoder, writer
from protocol.malformed import Malformed
from protocol.records.transaction_state import KEY_VERSION, TransactionLogKey, TransactionLogValue
from protocol.schema import message_info

PLAIN_VERSION: Final = 0
FLEXIBLE_VERSION: Final = 1
"""The version of a value that has producer ids before and after, and the level of who ended the transaction."""
_INT16: Final = Struct(">h")
_VALUE_VERSIONS: Final = message_info(TransactionLogValue).versions
_EMPTY_STATUS: Final = STATUSES[EMPTY]
_KEY_PREFIX: Final = _INT16.pack(KEY_VERSION)
_write_key: Final = writer(TransactionLogKey, KEY_VERSION)
_VALUE_WRITERS: Final = {
    version: (_INT16.pack(version), writer(TransactionLogValue, version))
    for version in (PLAIN_VERSION, FLEXIBLE_VERSION)
}


class UnknownValue(NamedTuple):
    """A value of a version that is not known here."""

    version: int


def fits_plain_version(value: TransactionLogValue) -> bool:
    """Whether a value says nothing that its plain version would leave out."""
    return (
        value.previous_producer_id == -1
        and value.next_producer_id == -1
        and value.client_transaction_version == 0
        and value.next_producer_epoch == -1
    )


def fact_of(transactional_id: str, value: TransactionLogValue | None, *, is_flexible: bool = False) -> Fact:
    """The record of a transactional id, a tombstone for None. In: whether its form is to be flexible even where
    that says no more."""
    key = TransactionLogKey(transactional_id=transactional_id)
    if value is None:
        return Fact(key, None)
    is_plain = not is_flexible and fits_plain_version(value)
    return Fact(key, value, PLAIN_VERSION if is_plain else FLEXIBLE_VERSION)


class TransactionRecordCodec:
    """The records of `__transaction_state`."""

    contents: Final = f"transactions, of record type {KEY_VERSION}"

    def encode(self, fact: Fact) -> EncodedFact:
        """Key and value of a fact."""
        key = bytearray(_KEY_PREFIX)
        _write_key(fact.key, key)
        if fact.value is None:
            return EncodedFact(bytes(key), None)
        prefix, write_value = _VALUE_WRITERS[fact.value_version]
        value = bytearray(prefix)
        write_value(fact.value, value)
        return EncodedFact(bytes(key), bytes(value))

    def encoder(self) -> Callable[[Fact], EncodedFact]:
        """The same: there is nothing to remember."""
        return self.encode

    def canonical_key(self, key: bytes) -> bytes | None:
        """The key itself; None for one of another version. Raises Malformed."""
        if _version(key, "key") != KEY_VERSION:
            return None
        decoder(TransactionLogKey, KEY_VERSION)(key, _INT16.size)
        return key

    def decode(self, key: bytes, value: bytes) -> Fact:
        """A fact of the log; its value is an UnknownValue where the version is not known. Raises Malformed."""
        assert _version(key, "key") == KEY_VERSION, key
        decoded_key = decoder(TransactionLogKey, KEY_VERSION)(key, _INT16.size)
        version = _version(value, "value")
        if version not in _VALUE_VERSIONS:
            return Fact(decoded_key, UnknownValue(version), version)
        decoded: TransactionLogValue = decoder(TransactionLogValue, version)(value, _INT16.size)
        _check(decoded)
        return Fact(decoded_key, decoded, version)


def _check(value: TransactionLogValue) -> None:
    status = value.transaction_status
    if status not in WRITTEN:
        raise Malformed(f"{status} is no state of a transaction that is written")
    if value.transaction_partitions is None and status != _EMPTY_STATUS:
        raise Malformed(f"a transaction that is {WRITTEN[status].value} has no list of partitions")


def _version(data: bytes, what: str) -> int:
    if len(data) < _INT16.size:
        raise Malformed(f"a record {what} of {len(data)} bytes")
    version: int = _INT16.unpack_from(data)[0]
    return version
