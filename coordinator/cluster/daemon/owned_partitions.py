"""Partitions that this broker owns in a cluster on etcd: gained and lost coordinators and replicated
partitions, planned moves, and the recent history of ownership.

A planned move pins the partition to a broker, or gives it up here and takes it back. A pin may set a minimum
time during which the new owner reports that the partition is loading. The owner does so once: it removes the
time from the pin when it gains the partition.
The control plane listens to changes of ownership. It is created on first use, and then also gets the changes
of the last seconds.
"""

import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from itertools import chain
from typing import Any, Final

from coordinator.broker.lazy_transaction_coordinator import LazyTransactionCoordinator
from coordinator.broker.services import Services
from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.daemon.replicated_partitions import ReplicatedPartitions
from coordinator.cluster.key_value_store import (
    KeyValueStore,
    KeyValueStoreError,
    Put,
    StoreTransaction,
    WrittenAt,
)
from coordinator.cluster.member.cluster_member import ClusterMember, OwnershipCause
from coordinator.cluster.partition_appends import PartitionId
from coordinator.cluster.partition_claims import PartitionToken
from coordinator.cluster.partition_log_store import retry_unavailable
from coordinator.cluster.partition_ownership import ClusterOperationError
from coordinator.core import clock
from coordinator.core.shared_types import COORDINATOR_TOPICS, TRANSACTION_STATE
from coordinator.runtime.engine import Engine
from coordinator.runtime.partition_lifecycle import PartitionState
from storage.log import PartitionLog
from storage.topic_partition import TopicPartition

_LOG: Final = logging.getLogger("Cluster")
RETENTION_S: Final = 5
"""Age in seconds at which a change of ownership no longer explains later events."""
_MAX_KEPT: Final = 1000
OwnershipHistoryListener = Callable[[TopicPartition, str], None]
"""Takes a partition and a description of the change."""


class OwnedCoordinators:
    """The coordinators that this broker owns. All methods belong to the event loop's thread."""

    def __init__(self, engine: Engine, transactions: LazyTransactionCoordinator) -> None:
        """Create the coordinators over the engine of a server."""
        self._engine = engine
        self._transactions = transactions

    def iterate_logs(self) -> Iterator[tuple[TopicPartition, PartitionLog]]:
        """Iterate over the open logs of the partitions that this broker coordinates."""
        for partition in self._engine.list_partitions():
            if partition.state is PartitionState.OWNED and partition.log is not None:
                yield partition.name, partition.log

    def find_log(self, name: TopicPartition) -> PartitionLog | None:
        """Return the log of a partition; None while it is not open."""
        return self._engine.runtimes[name.topic].partitions[name.partition].log

    def on_partition_gained(self, name: TopicPartition, hold_s: float) -> None:
        """Load a partition that this broker has claimed. It is LOADING for at least `hold_s` seconds."""
        self._engine.open_partition(name, hold_s)

    def on_partition_lost(self, name: TopicPartition, reason: str) -> None:
        """Release a partition: its waiting requests get NOT_COORDINATOR, and its markers are dropped."""
        if name.topic == TRANSACTION_STATE:
            self._transactions.on_partition_lost(name.partition)
        self._engine.release_partition(name, reason)


class PartitionMoves:
    """Planned moves of partitions. All methods belong to the event loop's thread."""

    def __init__(
        self,
        store: KeyValueStore,
        keys: ClusterKeys,
        member: Callable[[], ClusterMember],
        why_not: Callable[[TopicPartition, int], str | None],
        in_background: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """Create the moves of a cluster member.

        Args:
            store: Store of the cluster.
            keys: Keys of the cluster in the store.
            member: Returns the member that this daemon currently is.
            why_not: Returns why a broker cannot own a partition; None if it can.
            in_background: Runs a coroutine as a background task.
        """
        self._store = store
        self._keys = keys
        self._member = member
        self._why_not = why_not
        self._in_background = in_background
        self._holds: dict[PartitionId, float] = {}
        """Minimum loading time in seconds of partitions that this broker takes back."""

    def move_partition(
        self, partition: TopicPartition, to: int, hold_loading_s: float, owner: int | None
    ) -> bool:
        """Start to move a partition to a broker. Return whether that broker is not its owner yet.

        Args:
            partition: The partition.
            to: Node id of the new owner, which must be live.
            hold_loading_s: Minimum loading time in seconds at the new owner.
            owner: The current owner, if known.

        Raises:
            ClusterOperationError: The broker is not live or cannot own the partition.
        """
        if to not in self._member().table.brokers:
            raise ClusterOperationError(f"broker {to} is not live")
        why_not = self._why_not(partition, to)
        if why_not is not None:
            raise ClusterOperationError(why_not)
        self.pin_partition(partition, to, 0 if owner == to else hold_loading_s)
        return owner != to

    def pin_partition(self, partition: TopicPartition, to: int, hold_loading_s: float = 0) -> None:
        """Pin a partition to a live broker, which then owns it as long as it lives."""
        self._in_background(self._write_pin(PartitionId(*partition), to, round(hold_loading_s * 1000)))

    async def _write_pin(self, partition: PartitionId, to: int, hold_ms: int) -> None:
        try:
            await retry_unavailable(lambda: self._member().move_partition(partition, to, hold_ms))
        except KeyValueStoreError as error:
            _LOG.error("Failed to move %s-%d to broker %d: %s", *partition, to, error)

    def retake_partition(self, partition: TopicPartition, hold_loading_s: float) -> None:
        """Give up a partition and take it back, if this broker still owns it."""
        partition_id, member = PartitionId(*partition), self._member()
        if partition_id in member.owned:
            self._holds[partition_id] = hold_loading_s
            member.doubt_partition(partition_id)

    def take_hold_s(self, partition: PartitionId) -> float:
        """Return the minimum loading time in seconds of a partition that this broker has just gained, and
        forget it.
        """
        if partition in self._holds:
            return self._holds.pop(partition)
        member = self._member()
        hold_ms, written_at = member.table.holds.get(partition, (0, 0))
        if not hold_ms or member.table.pins.get(partition) != member.node_id:
            return 0
        self._in_background(self._clear_hold(partition, written_at))
        return hold_ms / 1000

    async def _clear_hold(self, partition: PartitionId, written_at: int) -> None:
        pin = self._keys.pin(*partition)
        plain = Put(pin, b"%d" % self._member().node_id)
        try:
            await retry_unavailable(
                lambda: self._store.transact(StoreTransaction((WrittenAt(pin, written_at),), (plain,)))
            )
        except KeyValueStoreError as error:
            _LOG.warning(
                "%s-%d may answer COORDINATOR_LOAD_IN_PROGRESS longer after its next move: %s",
                *partition,
                error,
            )


class OwnershipHistory:
    """The recent changes of ownership, and their listeners. All methods belong to the event loop's
    thread."""

    def __init__(self) -> None:
        self._listeners: list[OwnershipHistoryListener] = []
        self._recent: deque[tuple[int, TopicPartition, str]] = deque(maxlen=_MAX_KEPT)

    def publish_change(self, partition: TopicPartition, what: str) -> None:
        """Record a change of ownership and notify the listeners."""
        self._recent.append((clock.monotonic_ns(), partition, what))
        for listener in self._listeners:
            listener(partition, what)

    def add_listener(self, listener: OwnershipHistoryListener) -> None:
        """Add a listener and pass it the changes of the last RETENTION_S seconds."""
        since_ns = clock.monotonic_ns() - RETENTION_S * 1_000_000_000
        for published_ns, partition, what in self._recent:
            if published_ns >= since_ns:
                listener(partition, what)
        self._listeners.append(listener)


class OwnedPartitions:
    """All partitions that this broker owns: coordinators and replicated partitions of topics. All methods
    belong to the event loop's thread."""

    def __init__(
        self,
        member: Callable[[], ClusterMember],
        moves: PartitionMoves,
        drop_partition: Callable[[PartitionId], None],
        reserve_bytes: Callable[[int], bool],
    ) -> None:
        """Create the partitions of a cluster member.

        Args:
            member: Returns the member that this daemon currently is.
            moves: Planned moves, with the minimum loading times.
            drop_partition: Drops the pending appends of a partition.
            reserve_bytes: Reserves bytes of the store. Returns whether the limit allows them.
        """
        self.topics = ReplicatedPartitions(self.doubt_partition, reserve_bytes)
        self.history = OwnershipHistory()
        """Gained and lost partitions, with the causes."""
        self._member = member
        self._moves = moves
        self._drop_partition = drop_partition
        self.coordinators: OwnedCoordinators
        self._services: Services

    def connect_services(self, services: Services) -> None:
        """Take the parts of the server over which the partitions are served."""
        self._services = services
        self.coordinators = OwnedCoordinators(services.engine, services.transactions)

    def iterate_logs(self) -> Iterator[tuple[TopicPartition, PartitionLog]]:
        """Iterate over the open logs of all owned partitions."""
        return chain(self.coordinators.iterate_logs(), self.topics.iterate_logs())

    def find_log(self, name: TopicPartition) -> PartitionLog | None:
        """Return the log of an owned partition; None while it is not open."""
        return self._find_holder(name).find_log(name)

    def _find_holder(self, name: TopicPartition) -> OwnedCoordinators | ReplicatedPartitions:
        return self.coordinators if name.topic in COORDINATOR_TOPICS else self.topics

    def _publish_change(self, name: TopicPartition, what: str) -> None:
        self.history.publish_change(name, f"broker {self._member().node_id} {what}")

    def on_partition_gained(
        self, partition: PartitionId, owned: PartitionToken, cause: OwnershipCause
    ) -> None:
        """Load a partition that this broker now owns."""
        name = TopicPartition(*partition)
        _LOG.info("Owner of %s, leader epoch %d: %s", name, owned.epoch, cause)
        self._publish_change(name, f"owns it: {cause}")
        self._find_holder(name).on_partition_gained(name, self._moves.take_hold_s(partition))

    def on_partition_lost(self, partition: PartitionId, cause: OwnershipCause) -> None:
        """Release a partition that this broker no longer owns, and complete its fetches."""
        name = TopicPartition(*partition)
        _LOG.info("No longer owner of %s: %s", name, cause)
        self._publish_change(name, f"no longer owns it: {cause}")
        self.release_partition(name, str(cause))
        self._services.topics.complete_fetches(
            self._services.data_plane.on_leader_changed(name, clock.monotonic_ms())
        )

    def doubt_partition(self, name: TopicPartition) -> None:
        """Give up a partition with uncertain content in etcd. The member takes it back if it still owns it."""
        self._publish_change(name, f"gives it up: {OwnershipCause.DOUBTED}")
        self.release_partition(name, "its content in etcd is uncertain")
        self._member().doubt_partition(PartitionId(*name))

    def release_partition(self, name: TopicPartition, reason: str) -> None:
        """Stop serving a partition, before a move or before this broker takes it back."""
        self._drop_partition(PartitionId(*name))
        self._find_holder(name).on_partition_lost(name, reason)
