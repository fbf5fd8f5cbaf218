"""A cluster on etcd, as one of its daemons is put together.

    read ─▶ prepare (the data directory) ─▶ attach (to the server's parts) ─▶ start ─▶ … ─▶ leave

`join.py` makes it, before anything is opened.
"""

import asyncio
import logging
import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import uuid4

from coordinator import clock
from coordinator.cluster.append import Appender, Partition
from coordinator.cluster.catalogue_keys import CatalogueKeys
from coordinator.cluster.claims import Owned
from coordinator.cluster.engine.engine import Denied, Engine, EngineError
from coordinator.cluster.in_process import NotPossible
from coordinator.cluster.keys import Keys
from coordinator.cluster.member.append_driver import AppendDriver
from coordinator.cluster.member.member import Cause, Member, Ownings
from coordinator.cluster.member.table import registration
from coordinator.cluster.store.store import Store
from coordinator.engine.machine import InternalTopic, M
from coordinator.engine.partition import PartitionState
from coordinator.engine.replication import Replication, Ticket
from coordinator.names import CONSUMER_OFFSETS, COORDINATED, TRANSACTION_STATE, LogFlush
from coordinator.server.cluster.meta import Meta, read_or_write_meta
from coordinator.server.cluster.ownership import ClusterOwnership
from coordinator.server.cluster.replicated_logs import ReplicatedLogs
from coordinator.server.cluster.sealer import Sealer
from coordinator.server.cluster.shared_catalogue import SharedCatalogue
from coordinator.server.cluster.transactions import ClusterTransactions, listener_between_brokers
from coordinator.server.internal_topic import InternalTopicLogs
from coordinator.server.settings import ServerSettings
from coordinator.server.start_failed import StartFailed
from coordinator.topics.topic import random_topic_id
from storage.data_directory import DataDirectory
from storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from coordinator.server.server import Server

_LOG: Final = logging.getLogger("Cluster")
MARKER: Final = ".cluster"
"""In a data directory: the id of the cluster that it belongs to."""
_JOIN_TIMEOUT_S: Final = 15.0
_LEAVE_TIMEOUT_S: Final = 5.0
_OLDEST: Final = (3, 4)


class Nodes(Engine, Protocol):
    """An engine that says what it is."""

    endpoints: tuple[str, ...]

    async def version(self) -> tuple[str, int, bool]:
        """See `EtcdEngine`."""


class EtcdCluster:
    """All methods belong to the event loop's thread."""

    def __init__(self, settings: ServerSettings, engine: Nodes, keys: Keys) -> None:
        self._settings = settings
        self._config = config = settings.config
        self.engine = engine
        self._keys = keys
        self._loop = asyncio.get_running_loop()
        self.member: Member | None = None
        self.listeners: list[Callable[[TopicPartition, str], None]] = []
        """Who is told of each partition that was gained or lost, and why."""
        self.ownership = ClusterOwnership(
            self._the_member, lambda: self.catalogue.keys, config.node_id, self._pin
        )
        self.catalogue = SharedCatalogue(
            self._loop, engine, CatalogueKeys(engine, keys, self.ownership.leaders)
        )
        self.appends = AppendDriver(engine, Appender(keys), self._done, self._not_done)
        self.replication = Replication(self, self._doubted)
        self._store = Store(engine, keys)
        self.meta = Meta(0, b"", 0, b"")
        self.transactions = ClusterTransactions(
            engine,
            keys,
            self.ownership,
            config.node_id,
            listener_between_brokers(settings.listeners, config.cluster_listener_name),
            self.replicated,
            self._own_transactions,
        )
        self._logs: ReplicatedLogs
        self._sealer: Sealer
        self._server: Server
        self._tasks: set[asyncio.Task[None]] = set()

    def _the_member(self) -> Member:
        assert self.member is not None, "the cluster has not begun"
        return self.member

    # Beginning

    async def read(self) -> None:
        """What the engine says. Raises StartFailed."""
        endpoints = ", ".join(self.engine.endpoints)
        problem: EngineError | None = None
        try:
            async with asyncio.timeout(_JOIN_TIMEOUT_S):
                while True:
                    try:
                        await self._read()
                        return
                    except Denied as error:
                        raise StartFailed(
                            f"cluster.etcd.username: etcd ({endpoints}) lets nobody in: {error}"
                        ) from error
                    except EngineError as error:
                        problem = error
                        await asyncio.sleep(0.2)
        except TimeoutError:
            raise StartFailed(
                f"cluster.etcd.endpoints: no answer from etcd ({endpoints}): {problem}"
            ) from problem

    async def _read(self) -> None:
        version, _, _ = await self.engine.version()
        numbers = tuple(int(part) for part in version.split("-")[0].split(".")[:2])
        if numbers < _OLDEST:
            raise StartFailed(
                f"cluster.etcd.endpoints: etcd {version} is too old, 3.4 is the oldest that will do"
            )
        config = self._config
        new = Meta(
            config.offsets_topic_num_partitions,
            random_topic_id(),
            config.transaction_state_log_num_partitions,
            random_topic_id(),
        )
        self.meta = await read_or_write_meta(self.engine, self._keys, new)
        await self.transactions.read()
        await self.catalogue.read()

    def prepare(self, directory: DataDirectory) -> None:
        """Makes a data directory that of this cluster. What it has of coordinators is a copy, and goes. Raises
        StartFailed, StorageError, OSError."""
        self._logs = ReplicatedLogs(self._loop, self._store, directory, self.replication, self._owned)
        files, path = directory.files, f"{directory.path}/{MARKER}"
        cluster_id = self._settings.cluster_id
        assert cluster_id is not None
        if directory.meta.cluster_id != cluster_id:
            raise StartFailed(
                f"{directory.path} is of cluster {directory.meta.cluster_id}, and CLUSTER_ID says {cluster_id}"
            )
        if not files.exists(path):
            if directory.partitions() or directory.journaled() or directory.read_catalogue() is not None:
                raise StartFailed(
                    f"{directory.path} was used without a cluster, and what it holds would be lost to it: "
                    "use an empty log.dirs"
                )
            files.write_atomically(path, cluster_id.encode())
        copies = [each for each in directory.partitions() if each.topic in COORDINATED]
        directory.delete_logs(dict.fromkeys(copies))
        self.catalogue.write_copy(directory)

    def shape(self, logs: InternalTopicLogs) -> None:
        """The internal topic of groups has as many partitions, and the id, that the cluster gave it."""
        logs.partitions, logs.topic_id = self.meta.partitions, self.meta.topic_id
        logs.new_partitions = 0

    def replicated(self, topic: InternalTopic[M], logs: InternalTopicLogs) -> InternalTopic[M]:
        """The same internal topic, with its logs in the engine."""

        def open_log(number: int) -> Any:
            return self._logs.open(TopicPartition(topic.name, number), logs.config, logs.topic_id)

        return replace(
            topic,
            flush=LogFlush.ALWAYS,
            open_log=open_log,
            begins_epochs=False,
            replication=self.replication,
        )

    def attach(self, server: "Server") -> None:
        """To parts that are open."""
        self._server = server
        plane = server.data_plane
        self.catalogue.attach(plane.catalogue, server.directory, server.topics_changed)
        plane.producer_ids.reserve = self.catalogue.reserve_producer_ids
        transactions = server.transactions
        transactions.cluster, self.transactions.begun = self.transactions, transactions.begin
        logs = transactions.logs
        logs.partitions, logs.topic_id = self.meta.transaction_partitions, self.meta.transaction_topic_id
        logs.new_partitions = 0

    def start(self) -> None:
        """Registers, once the listeners are there, and begins to own."""
        server, config = self._server, self._config
        listeners = {
            each.listener.name: (each.fallback_node.host, each.fallback_node.port)
            for each in server.endpoints
        }
        self.member = Member(
            self.engine,
            self._keys,
            config.node_id,
            registration(uuid4().hex, listeners),
            config.broker_session_timeout_ms,
            config.cluster_move_delay_ms,
            {CONSUMER_OFFSETS: self.meta.partitions},
            Ownings(self._gained, self._lost),
        )
        self.catalogue.start()
        if self.transactions.is_begun:
            server.transactions.begin()
        self.transactions.start()
        self.member.start()
        self._sealer = Sealer(self._store, self._logs, server.engine.partitions, self._doubted)
        self._sealer.start()
        self._in_background(self._begin())

    async def _begin(self) -> None:
        """The server is ready when it has a session, and has read what it owned at first."""
        member = self._the_member()
        partitions = self._server.engine.partitions
        await _until(lambda: member.keeper.session.is_live(clock.boot_ms()) and member.is_settled)
        await self.catalogue.declare(self._settings.topics)
        await _until(lambda: all(part.state is not PartitionState.LOADING for part in partitions()))
        self._server.ready.set()

    def _own_transactions(self) -> None:
        self._the_member().coordinate(TRANSACTION_STATE, self.meta.transaction_partitions)

    def look(self) -> bool:
        """Whether the session lives; where its time is over, everything is given up before this returns."""
        return self.member is None or self.member.keeper.look()

    def _in_background(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            _LOG.error("What the cluster was at", exc_info=problem)

    # Partitions that come and go

    def _owned(self, partition: Partition) -> Owned | None:
        return self._the_member().owned.get(partition)

    def _gained(self, partition: Partition, owned: Owned, cause: Cause) -> None:
        runtime = self._server.engine.runtimes[partition.topic]
        machine = runtime.partitions[partition.number]
        _LOG.info("Owner of %s, leader epoch %d: %s", machine.name, owned.epoch, cause)
        self._tell(machine.name, f"broker {self._config.node_id} owns it: {cause}")
        runtime.ownership.take(machine, machine.epoch + 1)

    def _lost(self, partition: Partition, cause: Cause) -> None:
        runtime = self._server.engine.runtimes[partition.topic]
        machine = runtime.partitions[partition.number]
        self._dropped(partition)
        _LOG.info("No longer owner of %s: %s", machine.name, cause)
        self._tell(machine.name, f"broker {self._config.node_id} owns it no longer: {cause}")
        runtime.ownership.release(machine, machine.epoch + 1, str(cause))
        self._server.topics.complete(self._server.data_plane.interrupted(machine.name, clock.monotonic_ms()))

    def _dropped(self, partition: Partition) -> None:
        """What it was about to append or to bring to others is not its business any more."""
        self.appends.drop(partition)
        if partition.topic == TRANSACTION_STATE:
            self._server.transactions.lost(partition.number)

    def _tell(self, partition: TopicPartition, what: str) -> None:
        for listener in self.listeners:
            listener(partition, what)

    def _doubted(self, name: TopicPartition) -> None:
        """It was given up here; it is taken anew if it is still owned."""
        partition = Partition(*name)
        self._dropped(partition)
        self._tell(name, f"broker {self._config.node_id} gives it up: {Cause.DOUBTED}")
        runtime = self._server.engine.runtimes[name.topic]
        machine = runtime.partitions[name.partition]
        runtime.ownership.release(machine, machine.epoch + 1, "it is doubted what the engine has")
        self._the_member().doubt(partition)

    # Appends

    def append(
        self,
        partition: TopicPartition,
        token: int,
        base_offset: int,
        next_offset: int,
        data: bytes,
        ticket: Ticket,
    ) -> None:
        """See `Appends`."""
        self.appends.append(Partition(*partition), token, base_offset, next_offset, data, ticket)

    def prove(self, partition: TopicPartition, token: int, ticket: Ticket) -> None:
        """See `Appends`."""
        self.appends.prove(Partition(*partition), token, ticket)

    def _done(self, ticket: Any) -> None:
        self.replication.done(ticket)

    def _not_done(self, partition: Partition, ticket: Any, reason: str) -> None:
        self.replication.failed(ticket, reason)

    # Ending

    async def leave(self) -> None:
        """Gives everything back in order; others take over at once."""
        if self.member is None:
            return
        await self._sealer.stop()
        await self.catalogue.stop()
        await self._settled()
        await self.member.drain(_LEAVE_TIMEOUT_S)

    async def _settled(self) -> None:
        """Until what was asked is answered, or no longer than a while."""
        try:
            async with asyncio.timeout(_LEAVE_TIMEOUT_S / 2):
                await _until(lambda: not any(len(part.gate) for part in self._server.engine.partitions()))
        except TimeoutError:
            _LOG.warning("The engine has not taken everything in time; who waits is told to look elsewhere")

    async def close(self) -> None:
        """Lets go of the engine."""
        self.abandon()
        await self.engine.close()

    def abandon(self) -> None:
        """Ends at once; the session ends by itself."""
        self.appends.abandon()
        self.transactions.close()
        for task in self._tasks:
            task.cancel()
        if self.member is not None:
            self.member.abandon()

    # What people ask

    def move(self, partition: TopicPartition, to: int, hold_loading_s: float) -> bool:
        """Asks that a broker own a partition; whether it does not yet. Raises NotPossible."""
        member = self._the_member()
        if partition.topic not in COORDINATED:
            raise NotPossible(f"the records of {partition} are on one broker, and stay there")
        if hold_loading_s:
            raise NotPossible("hold_loading is for several brokers in one process")
        if to not in member.table.brokers:
            raise NotPossible(f"there is no broker {to}, or it does not live")
        self._pin(partition, to)
        return self.ownership.owner(partition) != to

    def _pin(self, partition: TopicPartition, to: int) -> None:
        self._in_background(self._move(self._the_member(), Partition(*partition), to))

    @staticmethod
    async def _move(member: Member, partition: Partition, to: int) -> None:
        try:
            await member.move(partition, to)
        except EngineError as error:
            _LOG.error("%s-%d could not be moved to broker %d: %r", *partition, to, error)

    @property
    def owned_counts(self) -> dict[int, int]:
        """How many coordinators this broker owns."""
        return {self._config.node_id: len(self._the_member().owned)}

    @property
    def moves(self) -> dict[str, int]:
        """How often this broker gained and lost a partition, by why."""
        return {str(cause): count for cause, count in self._the_member().moves.items()}

    @property
    def figures(self) -> tuple[int, float, float]:
        """See `EngineFigures`."""
        taken = sorted(self.appends.seconds)
        median = taken[len(taken) // 2] if taken else math.nan
        return self.appends.fenced, median, self._the_member().keeper.left_ms / 1000


async def _until(holds: Callable[[], bool]) -> None:
    while True:
        if holds():
            return
        await asyncio.sleep(0.02)
