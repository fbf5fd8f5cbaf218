"""Topics that are created, extended and deleted."""

from collections.abc import Callable
from typing import Final

from coordinator.group.topics_image import TopicImage, TopicsImage
from tests.simulation.world import World

NAMES: Final = ("orders", "orders-late", "payments")
MOST_PARTITIONS: Final = 8


class Topics:
    """The current topics. `reborn` has the names of recreated topics: such a name does not identify one topic."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.listener: Callable[[], None] | None = None
        self.reborn: set[str] = set()
        self._names = {"orders", "payments"}
        self.image = TopicsImage([self._new("orders"), self._new("payments")], version=1)

    @property
    def counts(self) -> dict[str, int]:
        """The number of partitions by topic name."""
        return {name: topic.partitions for name, topic in self.image.by_name.items()}

    def make_or_grow(self) -> None:
        """Create a topic, or add partitions to one."""
        name = self._world.random.choice(NAMES)
        known = self.image.by_name.get(name)
        if known is None:
            if name in self._names:
                self.reborn.add(name)
            self._names.add(name)
            self._become({**self.image.by_name, name: self._new(name)})
        elif known.partitions < MOST_PARTITIONS:
            grown = known._replace(partitions=known.partitions + self._world.random.randint(1, 2))
            self._become({**self.image.by_name, name: grown})

    def delete(self) -> None:
        """Delete a topic."""
        if self.image.by_name:
            name = self._world.random.choice(sorted(self.image.by_name))
            self._become({other: topic for other, topic in self.image.by_name.items() if other != name})

    def _new(self, name: str) -> TopicImage:
        return TopicImage(name, self._world.new_value().to_bytes(16), self._world.random.randint(1, 4))

    def _become(self, topics: dict[str, TopicImage]) -> None:
        self.image = TopicsImage(topics.values(), self.image.version + 1)
        self._world.say("topics", " ".join(f"{name}:{topic.partitions}" for name, topic in topics.items()))
        if self.listener is not None:
            self.listener()
