"""The target of a member while an assignor changes it, in the orders of Kafka's maps and sets."""

from collections.abc import Iterator

from coordinator.group.modern.assignors.assignor import Partitions
from coordinator.group.modern.java_order import (
    HashOrder,
    mixed_id,
    mixed_number,
    ordered_partitions,
    room_of_copy,
)


class Target:
    """What a member has. Until the first change it is the old target; Kafka copies that then.

    Source: Kafka's `AssignorHelpers.deepCopyAssignment`; an `Assignment` that was read from a record.
    """

    __slots__ = ("_changed", "_old", "_order")

    def __init__(self, old: Partitions) -> None:
        self._old = old
        self._order: HashOrder[bytes] | None = None
        self._changed: dict[bytes, HashOrder[int]] = {}

    def topics(self) -> Iterator[tuple[bytes, tuple[int, ...]]]:
        """The old target, in the order of Kafka's map of it and of its sets."""
        for topic_id in _in_old_order(self._old):
            yield topic_id, self._old[topic_id]

    def add(self, topic_id: bytes, partition: int, room: int) -> None:
        """Gives it a partition. `room`: the capacity of the set, when it is the first of this topic."""
        order = self._copy()
        partitions = self._of(topic_id)
        order.put_first(topic_id)
        if partitions is None:
            partitions = self._changed[topic_id] = HashOrder(mixed_number, room)
        partitions.put(partition)

    def remove(self, topic_id: bytes, partition: int) -> None:
        """Takes a partition from it, and with the last one the topic."""
        order = self._copy()
        partitions = self._of(topic_id)
        if partitions is not None:
            partitions.remove(partition)
            if not partitions:
                order.remove(topic_id)
                del self._changed[topic_id]

    def drop(self, topic_id: bytes) -> None:
        """Takes all partitions of a topic from it."""
        self._copy().remove(topic_id)
        self._changed.pop(topic_id, None)

    def result(self) -> Partitions:
        """What it has now; the old target itself when nothing was changed."""
        if self._order is None:
            return self._old
        return {topic_id: self._partitions(topic_id) for topic_id in self._order}

    def _copy(self) -> HashOrder[bytes]:
        if self._order is None:
            self._order = HashOrder(mixed_id, len(self._old), _in_old_order(self._old))
        return self._order

    def _of(self, topic_id: bytes) -> HashOrder[int] | None:
        """The set of a topic as one that can be changed; None when the member has none of it."""
        found = self._changed.get(topic_id)
        if found is None and self._order is not None and topic_id in self._order:
            old = ordered_partitions(self._old[topic_id])
            found = self._changed[topic_id] = HashOrder(mixed_number, room_of_copy(len(old)), old)
        return found

    def _partitions(self, topic_id: bytes) -> tuple[int, ...]:
        changed = self._changed.get(topic_id)
        return ordered_partitions(self._old[topic_id]) if changed is None else tuple(changed)


def _in_old_order(old: Partitions) -> HashOrder[bytes]:
    return HashOrder(mixed_id, keys=old)
