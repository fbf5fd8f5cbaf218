"""Transactions in a cluster: their topic is there for all daemons at once, and what one coordinator has to tell the
leaders of partitions, and they it, goes from broker to broker.

    FindCoordinator ─▶ begin: a key ─▶ every daemon sees it ─▶ partitions are claimed, and read
    Markers ─▶ RemoteMarkers ─▶ WriteTxnMarkers ─▶ the leader of a partition, or the coordinator of a group
    Produce, TxnOffsetCommit ─▶ Consents ─▶ RemoteConsents ─▶ AddPartitionsToTxn ─▶ the coordinator
"""

import asyncio
import json
import logging
import ssl
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final

from coordinator.cluster.engine.engine import (
    ABSENT,
    Changes,
    CreatedAt,
    Engine,
    EngineError,
    Entry,
    Put,
    Read,
)
from coordinator.cluster.engine.engine import Transaction as EngineTransaction
from coordinator.cluster.key_values import UnreadableKey, key_text, parse_object
from coordinator.cluster.keys import Keys
from coordinator.cluster.member.watching import keep
from coordinator.cluster.ownership import Ownership
from coordinator.cluster.shared_topic import parse_topic
from coordinator.config.between_brokers import listener_between_brokers
from coordinator.engine.machine import InternalTopic
from coordinator.engine.runtime import Runtime
from coordinator.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from coordinator.server.cluster.peer_security import PeerSecurity
from coordinator.server.cluster.remote_consents import RemoteConsents
from coordinator.server.cluster.remote_markers import AGAIN, Marker, RemoteMarkers
from coordinator.server.internal_topic import InternalTopicLogs
from coordinator.server.listeners import Listeners
from coordinator.server.marker_writer import WritesMarkers
from coordinator.server.settings import ServerSettings
from coordinator.server.start_failed import StartFailed
from coordinator.topics.topic import random_topic_id
from coordinator.transactions.config import TransactionConfig
from coordinator.transactions.shard import TransactionShard
from protocol.errors import ErrorCode
from storage.uuid_text import uuid_from_text, uuid_to_text

if TYPE_CHECKING:
    from coordinator.server.transactions import Transactions

_LOG: Final = logging.getLogger("Cluster")
_RETRY_S: Final = 0.2

Replicated = Callable[[InternalTopic[TransactionShard], InternalTopicLogs], InternalTopic[TransactionShard]]
"""The same internal topic, with its logs in the engine."""


class ClusterTransactions:
    """All methods belong to the event loop's thread."""

    def __init__(
        self,
        engine: Engine,
        keys: Keys,
        ownership: Ownership,
        settings: ServerSettings,
        replicated: Replicated,
        own: Callable[[int], None],
    ) -> None:
        """In: who has the partitions of the topic, so many, claimed here. Raises ConfigError where there is no
        listener by which brokers are to reach each other."""
        self.is_begun = False
        """Whether the topic is there."""
        self.replicated = replicated
        self._own = own
        self._partitions, self._topic_id = 0, b""
        self._transactions: Transactions
        self._listeners: Listeners
        self._engine = engine
        self._keys = keys
        self._ownership = ownership
        self._node_id = settings.config.node_id
        between = listener_between_brokers(settings.config, settings.properties, settings.listeners)
        self._listener = None if between is None else between.name
        asked = None if between is None else settings.security.get(between.name)
        self._security = PeerSecurity(self._client_context, None if asked is None else asked.login)
        self._tasks: set[asyncio.Task[None]] = set()
        self._making: asyncio.Task[None] | None = None
        self._couriers: list[RemoteMarkers | RemoteConsents] = []

    @property
    def refused(self) -> str | None:
        """Why there are none here, if so."""
        if self._listener is None:
            return "no listener is one by which the brokers reach each other (inter.broker.listener.name)"
        return None

    # The topic

    async def read(self, new_partitions: int) -> None:
        """What the cluster says of it. In: how many partitions it is to have, if nobody has said so yet. Raises
        EngineError; StartFailed for a key that cannot be read."""
        key = self._keys.shape(TRANSACTION_STATE)
        fields = {"partitions": new_partitions, "topic_id": uuid_to_text(random_topic_id())}
        await self._engine.transact(
            EngineTransaction((CreatedAt(key, ABSENT),), (Put(key, json.dumps(fields).encode()),))
        )
        page = await self._engine.read(Read(key))
        try:
            found = parse_object(page.entries[0].value)
            self._partitions, self._topic_id = int(found["partitions"]), uuid_from_text(found["topic_id"])
        except UnreadableKey as error:
            raise StartFailed(f"The key {key_text(key)} in etcd {error}") from error
        except (ValueError, TypeError, KeyError) as error:
            raise StartFailed(
                f"The key {key_text(key)} in etcd is not what groupd writes: {error!r}"
            ) from error
        page = await self._engine.read(Read(self._keys.internal(TRANSACTION_STATE)))
        self.is_begun = bool(page.entries)

    def attach(self, transactions: "Transactions", listeners: Listeners) -> None:
        """To those of a server, which may not have begun. In: its listeners, which need not be open."""
        self._transactions, self._listeners = transactions, listeners
        transactions.cluster = self
        logs = transactions.logs
        logs.partitions, logs.topic_id, logs.new_partitions = self._partitions, self._topic_id, 0

    def own(self) -> None:
        """Has its partitions claimed, those that are placed here."""
        self._own(self._partitions)

    def start(self) -> None:
        """Begins, if it is there, or to watch for it."""
        if self.is_begun:
            self._transactions.begin()
        begin, end = self._keys.all_of("internal")
        self._in_background(keep(self._engine, begin, end, self._seen, self._changed))

    def make(self) -> None:
        """Has every daemon know that it is there, this one included."""
        if self._making is None or self._making.done():
            self._making = self._in_background(self._make())

    async def _make(self) -> None:
        key = self._keys.internal(TRANSACTION_STATE)
        put = EngineTransaction((CreatedAt(key, ABSENT),), (Put(key, b"{}"),))
        while not self.is_begun:
            try:
                await self._engine.transact(put)
                self._see()
            except EngineError as error:
                _LOG.warning("%s is not made yet: %s", TRANSACTION_STATE, error)
                await asyncio.sleep(_RETRY_S)

    def _seen(self, entries: Sequence[Entry]) -> None:
        if any(entry.key == self._keys.internal(TRANSACTION_STATE) for entry in entries):
            self._see()

    def _changed(self, changes: Changes) -> None:
        self._seen(changes.written)

    def _see(self) -> None:
        if not self.is_begun:
            self.is_begun = True
            self._transactions.begin()

    # Other brokers

    def markers(self, own: WritesMarkers) -> WritesMarkers:
        """Who writes markers wherever they belong. In: who writes those that belong here."""
        markers = RemoteMarkers(
            own, self._ownership, self._node_id, self._address, self._look, self._security
        )
        self._couriers.append(markers)
        return markers

    def consents(self, runtime: Runtime[TransactionShard], config: TransactionConfig) -> RemoteConsents:
        """Who asks the coordinator of a transaction, wherever that is."""
        consents = RemoteConsents(
            runtime, config, self._ownership, self._node_id, self._address, self._security
        )
        self._couriers.append(consents)
        return consents

    def _address(self, node_id: int) -> tuple[str, int] | None:
        broker = self._ownership.brokers.get(node_id)
        if broker is None or self._listener is None:
            return None
        host, port = broker.hosts.get(self._listener), broker.ports.get(self._listener)
        return None if host is None or port is None else (host, port)

    def _client_context(self) -> ssl.SSLContext | None:
        assert self._listener is not None
        return self._listeners.client_context(self._listener)

    def _look(self, marker: Marker) -> None:
        self._in_background(self._tell(marker))

    async def _tell(self, marker: Marker) -> None:
        """What this daemon knows of topics may be old: the engine says whether one is gone."""
        topic, number = marker.partition
        error = AGAIN
        if topic != CONSUMER_OFFSETS:
            try:
                page = await self._engine.read(Read(self._keys.topic(topic)))
                if not page.entries or number >= parse_topic(topic, page.entries[0]).partitions:
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            except (EngineError, UnreadableKey) as problem:
                _LOG.info("Whether %s is gone is not known: %s", marker.partition, problem)
        marker.done(error)

    # Ending

    def close(self) -> None:
        """Watches, sends and asks no more."""
        for task in tuple(self._tasks):
            task.cancel()
        for courier in self._couriers:
            courier.close()

    def _in_background(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            _LOG.error("Transactions of the cluster", exc_info=problem)
