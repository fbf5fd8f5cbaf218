"""Random histories of a group and its topics, as input of assignors.

A history is a list of steps, each of them a list:
["topic", name, id as 32 hexadecimal digits, partitions]: create or extend a topic.
["delete", name]: delete a topic.
["put", member id, instance id or null, names]: put a member into the group's map of members.
["remove", member id]: remove a member and its target.
["assign", name of the assignor]: compute the targets of all members.
"""

import random
from collections.abc import Iterator
from typing import Any, TypeAlias

Step: TypeAlias = list[Any]
History: TypeAlias = list[Step]

FEW, MANY = range(1, 13), range(40, 200)


class _Writer:
    """Writes one history. `chance` is the source of randomness."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.steps: History = []
        self.topics: dict[str, tuple[str, int]] = {}
        self.members: dict[str, tuple[str | None, list[str]]] = {}
        self.most_members = chance.choice((3, 6, 12, 20, 40))
        self.most_topics = chance.choice((1, 3, 6, 20))
        self.sizes = chance.choice((FEW, FEW, MANY))
        # Ids of a few bits collide in hash slots. Ids of 128 bits are random, as in a cluster.
        self.id_bits = chance.choice((5, 128))
        self.is_homogeneous = chance.random() < 0.5
        self.joint: list[str] = []

    def topic(self) -> None:
        """Create a topic, unless its random name or id exists already."""
        name = f"t{self.chance.randrange(1000)}"
        topic_id = f"{self.chance.getrandbits(self.id_bits):032x}"
        if name in self.topics or any(topic_id == other for other, _ in self.topics.values()):
            return
        self._put_topic(name, topic_id, self.chance.choice(self.sizes))

    def grow(self) -> None:
        """Add partitions to a topic."""
        if self.topics:
            name = self.chance.choice(list(self.topics))
            topic_id, partitions = self.topics[name]
            self._put_topic(name, topic_id, partitions + self.chance.randint(1, 20))

    def delete(self) -> None:
        """Delete a topic; members stay subscribed to its name."""
        if len(self.topics) > 1:
            name = self.chance.choice(list(self.topics))
            del self.topics[name]
            self.steps.append(["delete", name])

    def join(self) -> None:
        """Add a member. Kafka puts it into its map twice, once for each of its first two records."""
        if len(self.members) < self.most_members:
            name = f"{self.chance.getrandbits(32):08x}"
            instance_id = f"i{self.chance.randrange(1000)}" if self.chance.random() < 0.3 else None
            if any(instance_id is not None and instance_id == other for other, _ in self.members.values()):
                instance_id = None
            self._put_member(name, instance_id, self._subscription())
            self._put_member(name, instance_id, self.members[name][1])

    def leave(self) -> None:
        """Remove a member."""
        if len(self.members) > 1:
            member_id = self.chance.choice(list(self.members))
            del self.members[member_id]
            self.steps.append(["remove", member_id])

    def subscribe(self) -> None:
        """Change the subscription of one member, or of all members in a homogeneous group."""
        self.joint = []
        for member_id in list(self.members) if self.is_homogeneous else list(self.members)[:1]:
            self._put_member(member_id, self.members[member_id][0], self._subscription())

    def mix(self) -> None:
        """Make the group homogeneous or heterogeneous."""
        self.is_homogeneous = not self.is_homogeneous
        self.subscribe()

    def assign(self) -> None:
        """Add an assignment, if the group has members."""
        if self.members:
            self.steps.append(["assign", "range" if self.chance.random() < 0.25 else "uniform"])

    def _subscription(self) -> list[str]:
        if self.is_homogeneous and self.joint:
            return self.chance.sample(self.joint, len(self.joint))
        names = [*self.topics, "absent"]
        self.joint = self.chance.sample(names, self.chance.randint(1, len(names)))
        return self.joint

    def _put_topic(self, name: str, topic_id: str, partitions: int) -> None:
        self.topics[name] = (topic_id, partitions)
        self.steps.append(["topic", name, topic_id, partitions])

    def _put_member(self, member_id: str, instance_id: str | None, names: list[str]) -> None:
        self.members[member_id] = (instance_id, names)
        self.steps.append(["put", member_id, instance_id, names])


def history(seed: int, assignments: int = 10) -> History:
    """Return a random history of one group with this number of assignments."""
    chance = random.Random(seed)
    writer = _Writer(chance)
    for _ in range(chance.randint(1, writer.most_topics)):
        writer.topic()
    for _ in range(chance.randint(1, writer.most_members)):
        writer.join()
    changes = (
        *(writer.join, writer.join, writer.join, writer.leave, writer.leave, writer.topic, writer.grow),
        *(writer.delete, writer.subscribe, writer.mix),
    )
    writer.assign()
    for _ in range(assignments - 1):
        for _ in range(chance.randint(1, 3)):
            chance.choice(changes)()
        writer.assign()
    return writer.steps


def histories(count: int) -> Iterator[History]:
    """Yield `count` histories, the same ones in each run."""
    return map(history, range(count))
