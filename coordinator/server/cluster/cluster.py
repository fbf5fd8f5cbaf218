"""A cluster on etcd, as one of its daemons is put together.

    read ─▶ prepare (the data directory) ─▶ attach (to the server's parts) ─▶ start ─▶ … ─▶ leave

`join.py` makes it, before anything is opened.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from coordinator import clock
from coordinator.cluster.append import Appender, Partition
from coordinator.cluster.catalogue_keys import CatalogueKeys
from coordinator.cluster.claims import Owned
from coordinator.cluster.conflict import Refused
from coordinator.cluster.engine.engine import EngineError
from coordinator.cluster.keys import Keys
from coordinator.cluster.member.append_driver import AppendDriver
from coordinator.cluster.member.member import Member, Ownings
from coordinator.cluster.member.table import registration
from coordinator.cluster.store.store import Store
from coordinator.engine.machine import InternalTopic, M
from coordinator.engine.partition import PartitionState
from coordinator.engine.replication import Replication, Ticket
from coordinator.names import CONSUMER_OFFSETS, TRANSACTION_STATE, LogFlush
from coordinator.net.routes import Routes
from coordinator.server.cluster.engine_health import EngineHealth
from coordinator.server.cluster.engine_view import EngineView, look
from coordinator.server.cluster.looking_first import LookingFirst
from coordinator.server.cluster.member_directory import REMEDY, prepare, why_no_new_cluster
from coordinator.server.cluster.meta import Meta, NoCluster, new_meta, read_or_write_meta
from coordinator.server.cluster.moves import Moves
from coordinator.server.cluster.ownership import ClusterOwnership
from coordinator.server.cluster.reach import Nodes, reached
from coordinator.server.cluster.replicated_logs import ReplicatedLogs, in_small_segments
from coordinator.server.cluster.sealer import Sealer
from coordinator.server.cluster.served import Served
from coordinator.server.cluster.shared_catalogue import SharedCatalogue
from coordinator.server.cluster.shared_security import SharedSecurity
from coordinator.server.cluster.stale_offsets import StaleOffsets
from coordinator.server.cluster.topic_bytes import TopicBytes
from coordinator.server.cluster.transactions import ClusterTransactions
from coordinator.server.engine_figures import EngineFigures
from coordinator.server.internal_topic import InternalTopicLogs
from coordinator.server.settings import ServerSettings
from coordinator.server.start_failed import StartFailed
from coordinator.topics.answer import TopicChange, TopicDeleted
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.topic import random_topic_id
from storage.data_directory import DataDirectory
from storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from coordinator.server.server import Server

_LOG: Final = logging.getLogger("Cluster")
_LEAVE_TIMEOUT_S: Final = 5.0


class EtcdCluster:
    """All methods belong to the event loop's thread."""

    def __init__(self, settings: ServerSettings, engine: Nodes, keys: Keys) -> None:
        self._settings = settings
        self._config = config = settings.config
        self.engine = engine
        self._keys = keys
        self._loop = asyncio.get_running_loop()
        self.member: Member | None = None
        self.moves_on_purpose = Moves(
            engine,
            keys,
            self._the_member,
            lambda *asked: self.ownership.may_move(*asked),
            self._in_background,
        )
        self.ownership = ClusterOwnership(
            self._the_member,
            lambda: self.catalogue.keys,
            config.node_id,
            self.moves_on_purpose.pin,
            self._give_replicas,
        )
        self.catalogue = SharedCatalogue(
            self._loop, engine, CatalogueKeys(engine, keys, self.ownership.new_replicas)
        )
        self.bytes = TopicBytes(engine, keys, config.node_id, config.cluster_topics_max_bytes)
        self.appends = AppendDriver(
            engine, Appender(keys), self._done, self._not_done, config.broker_session_timeout_ms / 1000
        )
        self.served = Served(self._the_member, self.moves_on_purpose, self._drop, self.bytes.take_room)
        self.security = SharedSecurity(engine, keys)
        self.health = EngineHealth(engine, config.cluster_etcd_quota_bytes)
        self.replication = Replication(self, self.served.doubt)
        self._store = Store(engine, keys)
        self.meta = Meta(0, b"")
        self.transactions = ClusterTransactions(
            engine,
            keys,
            self.ownership,
            settings,
            self.replicated,
            lambda partitions: self._the_member().coordinate(TRANSACTION_STATE, partitions),
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
        await reached(self.engine, self._read)

    async def _read(self) -> None:
        settings, config = self._settings, self._config
        assert settings.cluster_id is not None
        why_not = why_no_new_cluster(settings.files, settings.data_dir, settings.cluster_id)
        new = None if why_not else new_meta(config.offsets_topic_num_partitions, random_topic_id())
        try:
            self.meta = await read_or_write_meta(self.engine, self._keys, new)
        except NoCluster as error:
            if why_not is None:
                raise
            raise StartFailed(f"{why_not}; {error}. {REMEDY}") from error
        await self.catalogue.keys.know_cluster()
        await self.transactions.read(config.transaction_state_log_num_partitions)
        await self.catalogue.read()
        await self.security.read()

    def prepare(self, directory: DataDirectory) -> None:
        """Makes a data directory that of this cluster. Raises StartFailed, StorageError, OSError."""
        assert self._settings.cluster_id is not None
        prepare(directory, self._settings.cluster_id, self.meta)
        self._logs = ReplicatedLogs(self._loop, self._store, directory, self.replication, self._owned)
        self.catalogue.write_copy(directory)

    def shape(self, logs: InternalTopicLogs) -> None:
        """The internal topic of groups has as many partitions, and the id, that the cluster gave it."""
        logs.partitions, logs.topic_id = self.meta.partitions, self.meta.topic_id
        logs.new_partitions = 0

    def replicated(self, topic: InternalTopic[M], logs: InternalTopicLogs) -> InternalTopic[M]:
        """The same internal topic, with its logs in the engine."""
        config = in_small_segments(logs.config)

        def open_log(number: int) -> Any:
            return self._logs.open(TopicPartition(topic.name, number), config, logs.topic_id)

        return replace(
            topic,
            flush=LogFlush.ALWAYS,
            open_log=open_log,
            begins_epochs=False,
            replication=self.replication,
        )

    def looking_first(self, routes: Routes, catalogue: Catalogue) -> Routes:
        """The same table, in which topics that are not known are looked for before that is said."""
        return LookingFirst(catalogue, self.catalogue.look_for).altered(routes)

    def attach(self, server: "Server") -> None:
        """To parts that are open."""
        self._server = server
        plane = server.data_plane
        self.catalogue.attach(plane.catalogue, server.directory, server.topics_changed)
        plane.producer_ids.reserve = self.catalogue.reserve_producer_ids
        self.transactions.attach(server.transactions, server.brokers.listeners[self._config.node_id])
        self.served.attach(server)
        self._sealer = Sealer(self._store, self._logs, self.served.logs, self.served.doubt)
        self.served.topics.attach(server, self._logs, self._sealer)
        self.ownership.is_open = self.served.topics.is_open
        server.topics.durable.replicates(self.replication)
        server.topic_listeners.append(self._topics_changed)
        StaleOffsets(self.catalogue, server, self._in_background)

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
            registration(uuid4().hex, listeners, config.broker_rack),
            config.broker_session_timeout_ms,
            config.cluster_move_delay_ms,
            {CONSUMER_OFFSETS: self.meta.partitions},
            self.catalogue.replicated,
            Ownings(self.served.gained, self.served.lost),
            self.catalogue.keys.made,
        )
        self.catalogue.start()
        self.transactions.start()
        self.security.start()
        self.member.start()
        self._sealer.start()
        self.bytes.start(self.member.keeper, self._topic_bytes)
        self.health.start()
        self._in_background(self._begin())

    def _topic_bytes(self) -> int:
        return sum(self._logs.engine_bytes(log) for _, log in self.served.topics.logs())

    async def _begin(self) -> None:
        """The server is ready when it has a session, and has read what it owned at first."""
        member = self._the_member()
        partitions = self._server.engine.partitions
        await _until(lambda: member.keeper.session.is_live(clock.boot_ms()) and member.is_settled)
        topics, factor = self._settings.topics, self._config.default_replication_factor
        self._in_background(self.catalogue.declare_on(await self.catalogue.declare(topics, factor), factor))
        if self._settings.initial_topics:
            from coordinator.server.initial_topics import create_shared_topics

            initial, plane = self._settings.initial_topics, self._server.data_plane
            changes = await create_shared_topics(plane, initial, self.catalogue.take_steps)
            self._server.topics_changed(changes)
        await _until(lambda: all(part.state is not PartitionState.LOADING for part in partitions()))
        self._server.ready.set()

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

    def _topics_changed(self, changes: Sequence[TopicChange]) -> None:
        for change in changes:
            if isinstance(change, TopicDeleted):
                self._the_member().forget(change.name)
                is_gone = not self.catalogue.has(change.name, change.topic_id)
                self.served.topics.deleted(change.name, is_gone=is_gone)
        self._the_member().look_again()

    def _give_replicas(self, partition: TopicPartition, replicas: Sequence[int]) -> None:
        self._in_background(self._reassign(partition, replicas))

    async def _reassign(self, partition: TopicPartition, replicas: Sequence[int]) -> None:
        try:
            await self.catalogue.keys.reassign(*partition, replicas)
        except (Refused, EngineError) as error:
            _LOG.error("%s could not be given the replicas %s: %s", partition, list(replicas), error)
        self._the_member().look_again()

    # Appends

    def append(
        self,
        partition: TopicPartition,
        token: int,
        base_offset: int,
        next_offset: int,
        data: bytes,
        ticket: Ticket | None,
    ) -> None:
        """See `Appends`."""
        self.appends.append(Partition(*partition), token, base_offset, next_offset, data, ticket)

    def prove(self, partition: TopicPartition, token: int, ticket: Ticket) -> None:
        """See `Appends`."""
        self.appends.prove(Partition(*partition), token, ticket)

    def _drop(self, partition: Partition) -> None:
        self.appends.drop(partition)
        self.replication.let_go(TopicPartition(*partition))

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
        self.bytes.stop()
        await self.catalogue.stop()
        await self._settled()
        await self.member.drain(_LEAVE_TIMEOUT_S)

    async def _settled(self) -> None:
        """Until what was asked is answered, or no longer than a while."""
        try:
            async with asyncio.timeout(_LEAVE_TIMEOUT_S / 2):
                await _until(self._owes_nothing)
        except TimeoutError:
            _LOG.warning("etcd has not taken everything in time; who waits is told to look elsewhere")

    def _owes_nothing(self) -> bool:
        server = self._server
        is_owed = any(len(part.gate) for part in server.engine.partitions())
        return not is_owed and not any(server.topics.durable.logs)

    async def close(self) -> None:
        """Lets go of the engine."""
        self.abandon()
        await self.engine.close()

    def abandon(self) -> None:
        """Ends at once; the session ends by itself."""
        self.appends.abandon()
        self.transactions.close()
        self.health.stop()
        self.security.stop()
        self.bytes.stop()
        for task in self._tasks:
            task.cancel()
        if self.member is not None:
            self.member.abandon()

    # What people ask

    def move(self, partition: TopicPartition, to: int, hold_loading_s: float) -> bool:
        """Asks that a broker own a partition; whether it does not yet. Raises NotPossible."""
        return self.moves_on_purpose.move(partition, to, hold_loading_s, self.ownership.owner(partition))

    def retake(self, partition: TopicPartition, hold_loading_s: float) -> None:
        """Takes anew what was put aside, if it is still owned; it is loading for so long at least."""
        self.moves_on_purpose.retake(partition, hold_loading_s)

    def put_aside(self, partition: TopicPartition, reason: str) -> None:
        """This broker owns it still, and serves it no longer: it is moved, or taken anew, after that."""
        self.served.put_aside(partition, reason)

    @property
    def owned_counts(self) -> dict[int, int]:
        """How many coordinators this broker owns."""
        return {self._config.node_id: len(self._the_member().owned)}

    @property
    def moves(self) -> dict[str, int]:
        """How often this broker gained and lost a partition, by why."""
        return {str(cause): count for cause, count in self._the_member().moves.items()}

    @property
    def figures(self) -> EngineFigures:
        """How this daemon and the engine get along."""
        member = self._the_member()
        taken = sorted(self.appends.seconds)
        return EngineFigures(
            fenced=self.appends.fenced,
            append_seconds=taken[len(taken) // 2] if taken else math.nan,
            session_left_seconds=member.keeper.left_ms / 1000,
            engine_bytes=sum(map(self.engine_bytes, member.owned)),
            node_bytes={node.endpoint: node.size_bytes for node in self.health.nodes if not node.problem},
            quota_bytes=self.health.quota_bytes,
            is_full=self.health.is_full,
        )

    async def view(self) -> EngineView:
        """What the engine knows of the cluster."""
        member, keeper = self._the_member(), self._the_member().keeper
        await self.health.look()
        looked = await look(self.engine, self._keys, member.table)
        return EngineView(
            nodes=self.health.nodes,
            quota_bytes=self.health.quota_bytes,
            tokens=looked.tokens,
            epochs=looked.epochs,
            sessions_left_s={**looked.sessions_left_s, member.node_id: keeper.left_ms / 1000},
            engine_bytes={TopicPartition(*each): self.engine_bytes(each) for each in list(member.owned)},
            problem=looked.problem,
        )

    def engine_bytes(self, partition: Partition) -> int:
        """What the engine holds of a partition that this daemon owns; 0 while it is not read."""
        log = self.served.log(TopicPartition(*partition))
        return 0 if log is None else self._logs.engine_bytes(log)


async def _until(holds: Callable[[], bool]) -> None:
    while True:
        if holds():
            return
        await asyncio.sleep(0.02)
