"""One daemon as a member of a cluster: the partitions that it owns, and how it claims and releases them.

Every daemon sees the same table and computes the same placement. A daemon claims the partitions that are placed
on it and have no owner. It hands over the partitions that it owns and that are placed elsewhere, one at a time,
once the other broker has been live for a while. The end of the session ends all ownership at once.

Coordinators may be on any broker. A replicated partition of a topic goes to the first of its live replicas, and
is claimed only while that topic exists.

A doubted partition (after a failed append or an internal error of its machine) is retaken: claimed again with a
new token, if the daemon still owns it.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Final, NamedTuple, Protocol

from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.cluster_session import ClusterSession, SessionBegan, SessionEnded, SessionEvent
from coordinator.cluster.key_value_store import (
    ABSENT,
    CreatedAt,
    Delete,
    KeyChanges,
    KeyEntry,
    KeyPage,
    KeyValueStore,
    KeyValueStoreError,
    Put,
    ReadRange,
    StoreFull,
    StoreTransaction,
    StoreUnavailable,
    TransactionResult,
    WrittenAt,
)
from coordinator.cluster.member.cluster_table import KEY_KINDS, ClusterTable
from coordinator.cluster.member.key_mirror import mirror_keys
from coordinator.cluster.member.session_keeper import SessionKeeper
from coordinator.cluster.partition_appends import PartitionId
from coordinator.cluster.partition_claims import (
    Claim,
    ClaimRefused,
    PartitionToken,
    create_release,
    place_partitions,
    place_replicas,
)
from coordinator.core import clock

_LOG: Final = logging.getLogger("Cluster")
_RETRY_S: Final = 0.1
_FULL_RETRY_S: Final = 1.0
_SWEEP_S: Final = 0.5
_HANDOVER_S: Final = 2.0


class OwnershipCause(StrEnum):
    """Why a daemon gained or lost a partition."""

    CLAIMED = "claimed"
    RETAKEN = "retaken"
    MOVED = "moved"
    DOUBTED = "doubted"
    SESSION_ENDED = "session-ended"
    SHUTDOWN = "shutdown"
    DELETED = "deleted"


class OwnershipListener(Protocol):
    """Interface for gained and lost partitions. Called synchronously, in the event loop's thread."""

    def on_partition_gained(
        self, partition: PartitionId, owned: PartitionToken, cause: OwnershipCause
    ) -> None:
        """Open a partition that this daemon has claimed."""

    def on_partition_lost(self, partition: PartitionId, cause: OwnershipCause) -> None:
        """Release a partition. Its waiting requests are answered before this returns."""


class ReplicatedTopic(NamedTuple):
    """A topic with its records in the store."""

    replicas: Sequence[Sequence[int]]
    """Replicas by partition, the preferred one first."""
    guard: CreatedAt
    """Holds while the store has this topic, and no other one of that name."""


class ClusterMember:
    """The membership of a daemon: its session and its partitions. All methods belong to the event loop's thread."""

    def __init__(
        self,
        store: KeyValueStore,
        keys: ClusterKeys,
        session: ClusterSession,
        move_delay_ms: int,
        topics: Mapping[str, int],
        replicated: Callable[[], Mapping[str, ReplicatedTopic]],
        listener: OwnershipListener,
    ) -> None:
        """Create a member, which `start` starts.

        Args:
            store: Store of the cluster.
            keys: Keys of the cluster in the store.
            session: Session of this broker.
            move_delay_ms: Time that another broker must be live before it gets partitions of this one.
            topics: Number of partitions by coordinator topic.
            replicated: Returns the other topics with owners in the cluster, as they are now.
            listener: Listener for gained and lost partitions.
        """
        self.node_id = session.node_id
        self.table = ClusterTable(keys)
        self.owned: dict[PartitionId, PartitionToken] = {}
        self.moves: dict[OwnershipCause, int] = dict.fromkeys(OwnershipCause, 0)
        self.keeper = SessionKeeper(store, session, self._on_session_event)
        self._store = store
        self._keys = keys
        self._move_delay_ms = move_delay_ms
        self._topics = dict(topics)
        self._replicated = replicated
        self._replicated_topics: Mapping[str, ReplicatedTopic] = {}
        """Replicated topics at the last reconciliation. The store rejects a claim for a deleted one."""
        self._listener = listener
        self._changing: dict[PartitionId, asyncio.Task[None]] = {}
        """Claims and handovers in progress."""
        self._doubted: dict[PartitionId, int] = {}
        """Tokens of partitions that were doubted during their claim."""
        self._tasks: list[asyncio.Task[None]] = []
        self._first_seen: dict[int, tuple[int, int]] = {}
        """By broker: its epoch, and since when (boot clock, ms) this daemon has seen it."""
        self._known_kinds: set[str] = set()
        self._is_draining = False
        self._has_reconciled = False
        """Whether the first reconciliation with a session is done."""
        self._moving: PartitionId | None = None
        self._changed = asyncio.Event()
        self._table_changed = asyncio.Event()

    def start(self) -> None:
        """Start the session and claim partitions."""
        self.keeper.start()
        loop = asyncio.get_running_loop()
        for kind in KEY_KINDS:
            begin, end = self._keys.kind_range(kind)
            reader = mirror_keys(
                self._store, begin, end, partial(self._on_keys_read, kind), self._on_keys_changed
            )
            self._tasks.append(loop.create_task(reader))
        self._tasks.append(loop.create_task(self._run()))

    def add_coordinated_topic(self, topic: str, partitions: int) -> None:
        """Own the partitions of one more coordinator topic from now on."""
        self._topics[topic] = partitions
        self.schedule_reconcile()

    def forget_topic(self, topic: str) -> None:
        """Release the partitions of a deleted topic."""
        for partition in [each for each in self.owned if each.topic == topic]:
            self._release_ownership(partition, OwnershipCause.DELETED)

    @property
    def is_settled(self) -> bool:
        """Whether the table is complete and no claims or handovers are pending."""
        return len(self._known_kinds) == len(KEY_KINDS) and self._has_reconciled and not self._changing

    # Table

    def _on_keys_read(self, kind: str, entries: Sequence[KeyEntry]) -> None:
        table = self.table
        if kind == "brokers":
            table.brokers, table.incarnations = {}, {}
        elif kind == "owner":
            table.owners = {}
        elif kind == "epoch":
            table.epochs, table.unclaimable = {}, set()
        else:
            table.pins, table.holds = {}, {}
        for entry in entries:
            table.put_entry(entry)
        self._known_kinds.add(kind)
        self.schedule_reconcile()

    def _on_keys_changed(self, changes: KeyChanges) -> None:
        self.table.apply_changes(changes)
        self.schedule_reconcile()

    def schedule_reconcile(self) -> None:
        """Reconcile soon, because the placement may have changed."""
        self._changed.set()
        self._table_changed.set()

    def _on_session_event(self, event: SessionEvent) -> None:
        if isinstance(event, SessionBegan):
            _LOG.info("Session %x of broker %d began", event.lease, self.node_id)
            self.schedule_reconcile()
        elif isinstance(event, SessionEnded):
            if not self._is_draining:
                _LOG.warning("The session of broker %d ended: %s", self.node_id, event.reason)
            for task in self._changing.values():
                task.cancel()
            self._changing.clear()
            self._doubted.clear()
            cause = OwnershipCause.SHUTDOWN if self._is_draining else OwnershipCause.SESSION_ENDED
            for partition in list(self.owned):
                self._release_ownership(partition, cause)
            self.schedule_reconcile()

    # Ownership

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            try:
                self._reconcile()
            except Exception as problem:  # noqa: BLE001 - the next reconciliation may succeed
                _LOG.error("Placing partitions", exc_info=problem)
            try:
                async with asyncio.timeout(_SWEEP_S):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _reconcile(self) -> None:
        now_ms = clock.boot_ms()
        table, session = self.table, self.keeper.session
        for node_id, epoch in table.incarnations.items():
            if self._first_seen.get(node_id, (0, 0))[0] != epoch:
                self._first_seen[node_id] = epoch, now_ms
        if self._is_draining or len(self._known_kinds) < len(KEY_KINDS) or not session.is_live(now_ms):
            return
        if table.incarnations.get(self.node_id) != session.broker_epoch:
            return  # wait until the table has the registration of this session
        self._has_reconciled = True
        replicated = self._replicated_topics = self._replicated()
        for partition in list(self.owned):
            topic = replicated.get(partition.topic)
            is_there = topic is not None and partition.number < len(topic.replicas)
            if partition.topic not in self._topics and not is_there:
                self._release_ownership(partition, OwnershipCause.DELETED)
        for name, count in self._topics.items():
            pins = table.find_pins(name)
            self._consider_topic(
                name, place_partitions(name, range(count), table.brokers, pins), pins, now_ms
            )
        for name, topic in replicated.items():
            pins = table.find_pins(name)
            placed = place_replicas(topic.replicas, table.brokers, pins)
            self._consider_topic(name, placed, pins, now_ms)

    def _consider_topic(
        self, topic: str, placed: Mapping[int, int], pins: Mapping[int, int], now_ms: int
    ) -> None:
        for number, node_id in placed.items():
            is_pinned = pins.get(number) == node_id
            self._consider_partition(PartitionId(topic, number), node_id, is_pinned=is_pinned, now_ms=now_ms)

    def _consider_partition(
        self, partition: PartitionId, node_id: int, *, is_pinned: bool, now_ms: int
    ) -> None:
        if partition in self._changing:
            return
        owner = self.table.owners.get(partition)
        if partition in self.owned:
            since_ms = self._first_seen[node_id][1]
            may_go = is_pinned or (self._moving is None and now_ms - since_ms >= self._move_delay_ms)
            if node_id != self.node_id and may_go:
                self._start_change(partition, self._hand_over_partition(partition))
        elif partition in self.table.unclaimable:
            return
        elif node_id == self.node_id and (owner is None or owner == self.node_id):
            self._start_change(partition, self._claim_partition(partition, None, OwnershipCause.CLAIMED))

    def _start_change(self, partition: PartitionId, work: "asyncio._CoroutineLike[None]") -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._changing[partition] = task
        task.add_done_callback(lambda done: self._on_change_done(partition, done))

    def _on_change_done(self, partition: PartitionId, task: "asyncio.Task[None]") -> None:
        if self._changing.get(partition) is task:
            del self._changing[partition]
            self._retake_partition(partition)
        if not task.cancelled() and (problem := task.exception()) is not None:
            _LOG.error("Failed to update the ownership of %s-%d", *partition, exc_info=problem)
        self.schedule_reconcile()

    async def _claim_partition(
        self, partition: PartitionId, token: int | None, cause: OwnershipCause
    ) -> None:
        session = self.keeper.session
        guard = None
        if partition.topic not in self._topics:
            topic = self._replicated_topics.get(partition.topic)
            if topic is None:
                return
            guard = topic.guard
        claim = Claim(self._keys, partition, self.node_id, session.lease, session.broker_epoch, token, guard)
        while True:
            ended = claim.apply_answer(await self._send_command(claim.next_command()))
            if isinstance(ended, PartitionToken):
                self.owned[partition] = ended
                self.moves[cause] += 1
                self._listener.on_partition_gained(partition, ended, cause)
                return
            if isinstance(ended, ClaimRefused):
                # The table is older than the store: without a pause the daemon would claim in a busy loop.
                await asyncio.sleep(_RETRY_S)
                return

    async def _send_command(
        self, command: ReadRange | StoreTransaction
    ) -> KeyPage | TransactionResult | KeyValueStoreError:
        try:
            if isinstance(command, ReadRange):
                return await self._store.read(command)
            return await self._store.transact(command)
        except KeyValueStoreError as error:
            # A full store fails at once, and each partition would retry in a busy loop.
            await asyncio.sleep(_FULL_RETRY_S if isinstance(error, StoreFull) else _RETRY_S)
            return error

    def _release_ownership(self, partition: PartitionId, cause: OwnershipCause) -> PartitionToken:
        owned = self.owned.pop(partition)
        self.moves[cause] += 1
        try:
            self._listener.on_partition_lost(partition, cause)
        except Exception as problem:  # noqa: BLE001 - the ownership ends in any case
            _LOG.error("Failed to release %s-%d", *partition, exc_info=problem)
        return owned

    async def _hand_over_partition(
        self, partition: PartitionId, cause: OwnershipCause = OwnershipCause.MOVED
    ) -> None:
        if partition not in self.owned:
            return  # it was released before this task began
        self._moving = partition
        try:
            owned = self._release_ownership(partition, cause)
            while isinstance(
                await self._send_command(create_release(self._keys, partition, owned.token)),
                KeyValueStoreError,
            ):
                pass
            if cause is OwnershipCause.MOVED:
                async with asyncio.timeout(_HANDOVER_S):
                    while self.table.owners.get(partition) in (None, self.node_id):
                        self._table_changed.clear()
                        await self._table_changed.wait()
        except TimeoutError:
            return
        finally:
            self._moving = None

    def doubt_partition(self, partition: PartitionId) -> None:
        """Retake a partition that the caller has already given up, if this daemon owns it."""
        owned = self.owned.pop(partition, None)
        if owned is not None:
            self.moves[OwnershipCause.DOUBTED] += 1
        if owned is not None and not self._is_draining:
            self._doubted[partition] = owned.token
            if partition not in self._changing:
                self._retake_partition(partition)

    def _retake_partition(self, partition: PartitionId) -> None:
        """Claim a doubted partition again, even if it is placed elsewhere by now: then a handover follows."""
        token = self._doubted.pop(partition, None)
        if token is not None and not self._is_draining:
            self._start_change(partition, self._claim_partition(partition, token, OwnershipCause.RETAKEN))

    async def move_partition(self, partition: PartitionId, to: int | None, hold_loading_ms: int = 0) -> None:
        """Pin a partition to a broker, which then owns it as long as it lives.

        Args:
            partition: The partition.
            to: Node id of the broker; None removes the pin.
            hold_loading_ms: Minimum loading time at the new owner, for the first load only.

        Raises:
            KeyValueStoreError: The store did not apply the move.
        """
        pin = self._keys.pin(*partition)
        value = b"%d %d" % (to or 0, hold_loading_ms) if hold_loading_ms else b"%d" % (to or 0)
        operation = Delete(pin) if to is None else Put(pin, value)
        page = await self._store.read(ReadRange(pin))
        written_at = page.entries[0].written_at if page.entries else ABSENT
        # The comparison prevents that a late attempt undoes a later move.
        move = StoreTransaction((WrittenAt(pin, written_at),), (operation,))
        if not (await self._store.transact(move)).succeeded:
            raise StoreUnavailable("another broker moved it at the same time, or etcd has lost the cluster")

    # Shutdown

    async def release_all(self, timeout_s: float) -> None:
        """Release all partitions and end the session, so that other daemons take over at once."""
        self._is_draining = True
        for task in self._changing.values():
            task.cancel()
        try:
            async with asyncio.timeout(timeout_s):
                owned = [
                    self._hand_over_partition(partition, OwnershipCause.SHUTDOWN)
                    for partition in list(self.owned)
                ]
                await asyncio.gather(*owned)
        except TimeoutError:
            _LOG.warning(
                "Not all partitions were released in time; other brokers get them when the session ends"
            )
        await self.keeper.close(1.0)
        self.abandon()

    def abandon(self) -> None:
        """Stop at once without releasing anything."""
        self._is_draining = True
        for task in (*self._tasks, *self._changing.values()):
            task.cancel()
        self.keeper.abandon()
