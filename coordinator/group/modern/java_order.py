"""The iteration orders of Kafka's hash maps, which influence assignments.

Java's hash maps have no declared order, but a deterministic one: it follows from the hashes of the keys, the size
of the table, and the order of insertion. Kafka's assignors iterate over them, so equal assignments need equal
orders.

Sources: `java.util.HashMap` and `HashSet`, Kafka's `org.apache.kafka.timeline.TimelineHashMap`, `Uuid.hashCode`.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator
from functools import lru_cache
from typing import Final, Generic, TypeVar

from protocol.partitioner import compute_java_hash

Key = TypeVar("Key")

MAX_MIXED_NAMES: Final = 65_536
"""Topic names with a cached hash: Java's hash takes time linear in the name, and is needed for each member."""
SMALLEST_TABLE: Final = 16
"""The slots of a HashMap that is created without a capacity."""
_LONGEST_CHAIN: Final = 8
_MIN_TREE_CAPACITY: Final = 64
_SMALLEST_TIMELINE_TABLE: Final = 2
_GOLDEN: Final = 0x9E3779B97F4A7C15
_64_BITS: Final = 0xFFFFFFFFFFFFFFFF


def mix_string(text: str) -> int:
    """Return the hash of a string as a HashMap mixes it: not negative; its lower bits select the slot."""
    return _mix(compute_java_hash(text) & 0xFFFFFFFF)


def mix_topic_id(topic_id: bytes) -> int:
    """Return the hash of a topic id (16 bytes) as a HashMap mixes it."""
    halves = int.from_bytes(topic_id)
    folded = (halves >> 64 ^ halves) & _64_BITS
    return _mix((folded >> 32 ^ folded) & 0xFFFFFFFF)


def mix_number(partition: int) -> int:
    """Return the hash of a number from 0 to 2**31 - 1 as a HashMap mixes it."""
    return _mix(partition)


def _mix(value: int) -> int:
    return value ^ value >> 16


mix_topic_name: Final = lru_cache(MAX_MIXED_NAMES)(mix_string)
"""Return the hash of a topic's name as a HashMap mixes it, computed once."""


def compute_capacity(keys: int) -> int:
    """Return the capacity that Kafka requests for a known number of keys: Java's `n / 0.75 + 1`."""
    return keys * 4 // 3 + 1


def compute_slots(capacity: int) -> int:
    """Return the slots of a table that is created with a capacity."""
    return 1 << max(capacity - 1, 0).bit_length()


def compute_copy_capacity(keys: int) -> int:
    """Return the capacity of a HashSet that is created from a collection of `keys` keys."""
    return max(compute_capacity(keys), SMALLEST_TABLE)


class HashOrder(Generic[Key]):
    """The keys of a HashMap or HashSet, in the order in which Java iterates over it.

    Not modelled: Java turns slots with nine or more keys into trees, from 64 slots on. Here their keys keep the
    order of insertion.

    Created from the function that mixes a key (such as `mix_string`), the capacity at creation, and the first keys.
    """

    __slots__ = ("_first", "_keys", "_last", "_mixed", "_slots")

    def __init__(
        self, mixed: Callable[[Key], int], capacity: int = SMALLEST_TABLE, keys: Iterable[Key] = ()
    ) -> None:
        self._mixed = mixed
        self._slots = compute_slots(capacity)
        self._keys: dict[Key, int] = {}
        self._first = self._last = 0
        for key in keys:
            self.insert(key)

    def insert(self, key: Key) -> None:
        """Insert a key behind the others of its slot, as Java's `put` does; an existing key keeps its place."""
        if key in self._keys:
            return
        self._break_chain(key, _LONGEST_CHAIN)
        self._last += 1
        self._keys[key] = self._last
        self._grow()

    def insert_first(self, key: Key) -> None:
        """Insert a key before the others of its slot, as `computeIfAbsent` does. The table grows before the lookup
        of the key, not after the insertion.
        """
        self._grow()
        if key in self._keys:
            return
        self._break_chain(key, _LONGEST_CHAIN - 1)
        self._first -= 1
        self._keys[key] = self._first

    def remove(self, key: Key) -> None:
        """Remove a key if it exists. The table does not shrink."""
        self._keys.pop(key, None)

    def _grow(self) -> None:
        if len(self._keys) > self._slots * 3 // 4:
            self._slots *= 2

    def _break_chain(self, key: Key, longest: int) -> None:
        """Grow a small table instead of a chain of more than `longest` keys."""
        if len(self._keys) < longest or self._slots >= _MIN_TREE_CAPACITY:
            return
        mask = self._slots - 1
        slot = self._mixed(key) & mask
        if sum(self._mixed(other) & mask == slot for other in self._keys) >= longest:
            self._slots *= 2

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[Key]:
        """Iterate slot by slot, and within a slot in order of insertion."""
        mask, mixed, keys = self._slots - 1, self._mixed, self._keys
        return iter(sorted(keys, key=lambda key: (mixed(key) & mask, keys[key])))


def ordered_names(names: Collection[str], known: Container[str], count: int | None = None) -> tuple[str, ...]:
    """Return the known names of a subscription, in the order of Kafka's set.

    Args:
        names: the names in the order of the request or the record. Unknown names may be omitted if
            `is_table_fixed`.
        known: the known names.
        count: the number of names including the omitted ones, if any were omitted.
    """
    count = len(names) if count is None else count
    room = compute_copy_capacity(count)
    if is_table_fixed(count):
        mask = compute_slots(room) - 1
        present = [name for name in names if name in known]
        return tuple(sorted(present, key=lambda name: mix_topic_name(name) & mask))
    return tuple(name for name in HashOrder(mix_string, room, names) if name in known)


def is_table_fixed(count: int) -> bool:
    """Return whether the table for `count` names never grows, so that a name does not change the order of
    others.
    """
    return compute_copy_capacity(count) >= _MIN_TREE_CAPACITY


def ordered_partitions(partitions: Collection[int]) -> tuple[int, ...]:
    """Return the partitions of a topic in the order of the HashSet that Kafka creates from a record's list."""
    room = compute_copy_capacity(len(partitions))
    if max(partitions, default=0) < room:
        return tuple(sorted(partitions))
    return tuple(HashOrder(mix_number, room, partitions))


class TimelineOrder:
    """The keys of a TimelineHashMap in its iteration order, which is the order of a group's members. A reload of
    the log rebuilds it in the order of the records.
    """

    __slots__ = ("_ordered", "_products", "_slots")

    def __init__(self) -> None:
        self._products: dict[str, int] = {}
        self._slots = _SMALLEST_TIMELINE_TABLE
        self._ordered: tuple[str, ...] | None = ()

    def insert(self, key: str) -> None:
        """Insert a key, or replace its value without moving it. Call it for each of Kafka's puts: even a
        replacement can double the table.
        """
        if (len(self._products) + 1) * 3 > self._slots * 4:
            self._slots *= 2
            self._ordered = None
        if key not in self._products:
            self._products[key] = compute_java_hash(key) * _GOLDEN & _64_BITS
            self._ordered = None

    def remove(self, key: str) -> None:
        """Remove a key if it exists. The table does not shrink."""
        if self._products.pop(key, None) is not None:
            self._ordered = None

    def adopt_history(self, other: "TimelineOrder") -> None:
        """Take the size of the table and the order of insertion from a table with the same keys. Raises ValueError
        if the keys differ.
        """
        if other._products.keys() != self._products.keys():
            raise ValueError("the order is that of other keys")
        self._products = {key: self._products[key] for key in other._products}
        self._slots, self._ordered = other._slots, other._ordered

    def __len__(self) -> int:
        return len(self._products)

    def __contains__(self, key: object) -> bool:
        return key in self._products

    def __iter__(self) -> Iterator[str]:
        """Iterate slot by slot, by the upper bits of the hash; within a slot the last inserted key comes first."""
        if self._ordered is None:
            products, shift = self._products, 64 - (self._slots.bit_length() - 1)
            last_first = list(reversed(products))
            last_first.sort(key=lambda key: products[key] >> shift)
            self._ordered = tuple(last_first)
        return iter(self._ordered)
