"""The partition of a record, as Kafka's producer chooses it.

Source: Kafka's `BuiltInPartitioner`, `Utils.murmur2`.
"""

import random
from typing import Final

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_32_BITS: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return Kafka's hash of a key: 32 bits, not negative."""
    length = len(data)
    hash_ = _SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * _MULTIPLIER & _32_BITS
        word ^= word >> 24
        hash_ = hash_ * _MULTIPLIER & _32_BITS ^ word * _MULTIPLIER & _32_BITS
    if whole < length:
        hash_ = (hash_ ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _32_BITS
    hash_ ^= hash_ >> 13
    hash_ = hash_ * _MULTIPLIER & _32_BITS
    return hash_ ^ hash_ >> 15


class RecordPartitioner:
    """Records with equal keys share a partition; records without a key stick to a random one until `next_batch`."""

    def __init__(self, partitions: int) -> None:
        """In: the number of partitions of the topic."""
        self._partitions = partitions
        self._sticky = random.randrange(partitions)

    def choose(self, key: bytes | None) -> int:
        """Return the partition of a record."""
        return self._sticky if key is None else (murmur2(key) & 0x7FFFFFFF) % self._partitions

    def next_batch(self) -> None:
        """Choose another partition for records without a key."""
        self._sticky = random.randrange(self._partitions)
