"""What this broker of a cluster serves of what it owns: partitions of coordinators, and of topics with replicas."""

import logging
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final

from coordinator import clock
from coordinator.cluster.append import Partition
from coordinator.cluster.claims import Owned
from coordinator.cluster.member.member import Cause, Member
from coordinator.names import COORDINATED
from coordinator.server.cluster.coordinators import Coordinators
from coordinator.server.cluster.moves import Moves
from coordinator.server.cluster.ownership_news import OwnershipNews
from coordinator.server.cluster.replicated_topics import ReplicatedTopics
from storage.log import PartitionLog
from storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from coordinator.server.server import Server

_LOG: Final = logging.getLogger("Cluster")


class Served:
    """All methods belong to the event loop's thread."""

    def __init__(
        self,
        member: Callable[[], Member],
        moves: Moves,
        drop: Callable[[Partition], None],
        take_room: Callable[[int], bool],
    ) -> None:
        """In: who knows for how long a partition is to be loading; who forgets what was to be appended to one; who
        knows whether the engine may have so many bytes more."""
        self.coordinators = Coordinators()
        self.topics = ReplicatedTopics(self.doubt, take_room)
        self.news = OwnershipNews()
        """Of each partition that was gained or lost, and why."""
        self._member = member
        self._moves = moves
        self._drop = drop
        self._server: Server

    def attach(self, server: "Server") -> None:
        """To parts that are open."""
        self._server = server
        self.coordinators.attach(server)

    def logs(self) -> Iterator[tuple[TopicPartition, PartitionLog]]:
        """All that are open."""
        return chain(self.coordinators.logs(), self.topics.logs())

    def log(self, name: TopicPartition) -> PartitionLog | None:
        """That of a partition that is owned; None while it is not open."""
        return self._holder(name).log(name)

    def _holder(self, name: TopicPartition) -> Coordinators | ReplicatedTopics:
        return self.coordinators if name.topic in COORDINATED else self.topics

    def _tell(self, name: TopicPartition, what: str) -> None:
        self.news.tell(name, f"broker {self._member().node_id} {what}")

    def gained(self, partition: Partition, owned: Owned, cause: Cause) -> None:
        """This broker owns a partition."""
        name = TopicPartition(*partition)
        _LOG.info("Owner of %s, leader epoch %d: %s", name, owned.epoch, cause)
        self._tell(name, f"owns it: {cause}")
        self._holder(name).gained(name, self._moves.hold_s(partition))

    def lost(self, partition: Partition, cause: Cause) -> None:
        """This broker owns a partition no longer."""
        name = TopicPartition(*partition)
        _LOG.info("No longer owner of %s: %s", name, cause)
        self._tell(name, f"owns it no longer: {cause}")
        self.put_aside(name, str(cause))
        self._server.topics.complete(self._server.data_plane.interrupted(name, clock.monotonic_ms()))

    def doubt(self, name: TopicPartition) -> None:
        """It is given up here, and taken anew if it is still owned."""
        self._tell(name, f"gives it up: {Cause.DOUBTED}")
        self.put_aside(name, "it is doubted what etcd has")
        self._member().doubt(Partition(*name))

    def put_aside(self, name: TopicPartition, reason: str) -> None:
        """This broker serves a partition no longer: what is still owned is moved, or taken anew, after that."""
        self._drop(Partition(*name))
        self._holder(name).lost(name, reason)
