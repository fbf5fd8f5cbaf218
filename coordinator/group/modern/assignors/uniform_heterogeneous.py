"""The uniform assignor where members subscribe to different topics.

Members are numbered in the order in which an assignor meets them. Source: Kafka's
`UniformHeterogeneousAssignmentBuilder`.
"""

from collections.abc import Iterable
from typing import Final

from coordinator.group.modern.assignors.assignor import GroupSpec, Partitions
from coordinator.group.modern.assignors.load_range import LoadRanges
from coordinator.group.modern.assignors.target import Target
from coordinator.group.modern.java_order import room_for

NOBODY: Final = -1
_MOST_ROUNDS: Final = 16


def balance(group: GroupSpec) -> dict[str, Partitions]:
    """What each member gets: what it has stays where it can, the rest goes to whoever has least, then partitions
    move from those that have most."""
    balancing = _Balancing(group)
    balancing.keep_old_targets()
    balancing.hand_out_the_rest()
    balancing.even_out()
    return balancing.result()


class _Balancing:
    """The owner of each partition by topic, and how many partitions each member has."""

    def __init__(self, group: GroupSpec) -> None:
        self._members = group.in_order()
        self._partitions = group.partitions
        self._subscribers: dict[bytes, list[int]] = {}
        for number, member in enumerate(self._members):
            for topic_id in member.topic_ids:
                self._subscribers.setdefault(topic_id, []).append(number)
        self._owners = {topic_id: [NOBODY] * group.partitions[topic_id] for topic_id in self._subscribers}
        self._sizes = [0] * len(self._members)
        self._targets = [Target(member.assigned) for member in self._members]

    def keep_old_targets(self) -> None:
        """Members keep what they have of topics to which they still subscribe."""
        for number, member in enumerate(self._members):
            subscribed = frozenset(member.topic_ids)
            for topic_id, partitions in member.assigned.items():
                if topic_id not in subscribed:
                    self._targets[number].drop(topic_id)
                    continue
                self._sizes[number] += len(partitions)
                owners = self._owners[topic_id]
                for partition in partitions:
                    owners[partition] = number

    def hand_out_the_rest(self) -> None:
        """Gives what nobody has to the subscribers that have least, topic by topic."""
        rest = {
            topic_id: [partition for partition, owner in enumerate(owners) if owner == NOBODY]
            for topic_id, owners in self._owners.items()
        }
        for topic_id in self._busiest_first(topic_id for topic_id, partitions in rest.items() if partitions):
            ranges = LoadRanges(self._sizes, self._subscribers[topic_id])
            for partition in rest[topic_id]:
                self._give(topic_id, partition, ranges.next_least_loaded())

    def even_out(self) -> None:
        """Moves partitions, topic by topic, until no topic has any to move, or for so many rounds."""
        topics = self._busiest_first(
            topic_id for topic_id, subscribers in self._subscribers.items() if len(subscribers) > 1
        )
        since_a_move = 0
        for _ in range(_MOST_ROUNDS):
            for topic_id in topics:
                since_a_move = 1 if self._even_out_topic(topic_id) else since_a_move + 1
                if since_a_move >= len(topics):
                    return

    def result(self) -> dict[str, Partitions]:
        """What each member has now, by its id."""
        return {
            member.member_id: target.result()
            for member, target in zip(self._members, self._targets, strict=True)
        }

    def _busiest_first(self, topic_ids: Iterable[bytes]) -> list[bytes]:
        """Topics by how many partitions a subscriber gets, the most first; then by subscribers, then by id."""

        def place(topic_id: bytes) -> tuple[float, int, int, int]:
            subscribers = len(self._subscribers[topic_id])
            upper, lower = (int.from_bytes(half, signed=True) for half in (topic_id[:8], topic_id[8:]))
            return -self._partitions[topic_id] / subscribers, subscribers, upper, lower

        return sorted(topic_ids, key=place)

    def _even_out_topic(self, topic_id: bytes) -> bool:
        """Moves partitions from the subscribers that have most to those that have least. Whether any moved."""
        subscribers = self._subscribers[topic_id]
        loads = [self._sizes[number] for number in subscribers]
        if max(loads) - min(loads) <= 1:
            return False
        ranges = LoadRanges(self._sizes, subscribers)
        movable: dict[int, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic_id]):
            movable.setdefault(owner, []).append(partition)
        moved = False
        while not ranges.are_even():
            giver = ranges.next_most_loaded()
            while giver is not None and not movable.get(giver):
                ranges.pass_over_most_loaded()
                giver = ranges.next_most_loaded()
            if giver is None:
                break
            partition, taker = movable[giver].pop(), ranges.next_least_loaded()
            if ranges.are_even():
                break
            self._give(topic_id, partition, taker)
            moved = True
        return moved

    def _give(self, topic_id: bytes, partition: int, taker: int) -> None:
        owners = self._owners[topic_id]
        owner = owners[partition]
        if owner != NOBODY:
            self._targets[owner].remove(topic_id, partition)
            self._sizes[owner] -= 1
        expected = -(-self._partitions[topic_id] // len(self._subscribers[topic_id]))
        self._targets[taker].add(topic_id, partition, room_for(expected))
        self._sizes[taker] += 1
        owners[partition] = taker
