"""Transactions in a cluster: all daemons get the topic at once, and the coordinators and the leaders of partitions
exchange requests between brokers.

    FindCoordinator ─▶ a key ─▶ every daemon sees it ─▶ daemons claim and load the partitions
    TransactionMarkerManager ─▶ RemoteMarkerWriter ─▶ WriteTxnMarkers ─▶ the leader of a partition, or the
                                                                         coordinator of a group
    Produce, TxnOffsetCommit ─▶ AddPartitionsToTxnManager ─▶ RemoteTransactionRouter ─▶ AddPartitionsToTxn
                                                                         ─▶ the coordinator
"""

import asyncio
import json
import logging
import ssl
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from coordinator.apis.transaction_markers import TransactionMarkerWriter
from coordinator.apis.transaction_router import TransactionRouter
from coordinator.broker.broker_listeners import BrokerListeners
from coordinator.broker.internal_topics import InternalTopicShape
from coordinator.broker.lazy_transaction_coordinator import LazyTransactionCoordinator
from coordinator.broker.server_settings import ServerSettings
from coordinator.broker.services import Services
from coordinator.cluster.cluster_keys import ClusterKeys, UnreadableKey, format_key, parse_object
from coordinator.cluster.daemon.inter_broker_sender import PeerSecurity
from coordinator.cluster.daemon.remote_transactions import (
    RETRIABLE_ERROR,
    RemoteMarker,
    RemoteMarkerWriter,
    RemoteTransactionRouter,
)
from coordinator.cluster.key_value_store import (
    ABSENT,
    CreatedAt,
    KeyChanges,
    KeyEntry,
    KeyValueStore,
    KeyValueStoreError,
    Put,
    ReadRange,
    StoreTransaction,
)
from coordinator.cluster.member.key_mirror import mirror_keys
from coordinator.cluster.partition_ownership import PartitionOwnership
from coordinator.cluster.shared_topic import parse_topic
from coordinator.config.listener_security import find_inter_broker_listener
from coordinator.core.message_text import StartFailed
from coordinator.core.shared_types import CONSUMER_OFFSETS, TRANSACTION_STATE
from coordinator.runtime.engine import Engine
from coordinator.topics.topic import random_topic_id
from coordinator.transactions.transaction_requests import TransactionConfig
from protocol.error_codes import ErrorCode
from storage.topic_partition import uuid_from_text, uuid_to_text

_LOG: Final = logging.getLogger("Cluster")
_RETRY_S: Final = 0.2


class ClusterTransactions:
    """The `TransactionMembership` of a cluster on etcd: the shared topic, and requests to other brokers. All
    methods belong to the event loop's thread.
    """

    coordinates_all = False

    def __init__(
        self,
        store: KeyValueStore,
        keys: ClusterKeys,
        ownership: PartitionOwnership,
        settings: ServerSettings,
        claim_partitions: Callable[[int], None],
    ) -> None:
        """Create the transactions of a cluster member.

        Args:
            store: Store of the cluster.
            keys: Keys of the cluster in the store.
            ownership: Ownership of partitions.
            settings: Settings of the server.
            claim_partitions: Claims this broker's partitions of the topic; takes the number of all of them.

        Raises:
            ConfigError: No listener connects the brokers with each other.
        """
        self.is_started = False
        """Whether the topic exists."""
        self._claim_partitions = claim_partitions
        self._partitions, self._topic_id = 0, b""
        self._transactions: LazyTransactionCoordinator
        self._listeners: BrokerListeners
        self._store = store
        self._keys = keys
        self._ownership = ownership
        self._node_id = settings.config.node_id
        between = find_inter_broker_listener(settings.config, settings.properties, settings.listeners)
        self._listener = None if between is None else between.name
        listener_settings = None if between is None else settings.security.get(between.name)
        self._security = PeerSecurity(
            self._find_client_context, None if listener_settings is None else listener_settings.login
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._creation_task: asyncio.Task[None] | None = None
        self._senders: list[RemoteMarkerWriter | RemoteTransactionRouter] = []

    @property
    def refusal(self) -> str | None:
        """Why transactions are not possible on this broker; None if they are."""
        if self._listener is None:
            return "no listener connects the brokers: set inter.broker.listener.name"
        return None

    # Topic

    async def read_shape(self, new_partitions: int) -> None:
        """Read the partition count and the id of the topic. The first daemon writes them.

        Args:
            new_partitions: Number of partitions for a cluster without the key.

        Raises:
            KeyValueStoreError: The store failed.
            StartFailed: The key is not readable.
        """
        key = self._keys.shape(TRANSACTION_STATE)
        fields = {"partitions": new_partitions, "topic_id": uuid_to_text(random_topic_id())}
        await self._store.transact(
            StoreTransaction((CreatedAt(key, ABSENT),), (Put(key, json.dumps(fields).encode()),))
        )
        page = await self._store.read(ReadRange(key))
        try:
            found = parse_object(page.entries[0].value)
            self._partitions, self._topic_id = int(found["partitions"]), uuid_from_text(found["topic_id"])
        except UnreadableKey as error:
            raise StartFailed(f"The key {format_key(key)} in etcd {error}") from error
        except (ValueError, TypeError, KeyError) as error:
            raise StartFailed(
                f"The key {format_key(key)} in etcd was not written by groupd: {error!r}"
            ) from error
        page = await self._store.read(ReadRange(self._keys.internal(TRANSACTION_STATE)))
        self.is_started = bool(page.entries)

    def connect_services(self, services: Services) -> None:
        """Take the transactions of a server, started or not, and its listeners, open or not."""
        self._transactions, self._listeners = services.transactions, services.listeners

    def find_topic_shape(self) -> InternalTopicShape:
        """Return the shape that the cluster gives the topic."""
        return InternalTopicShape(self._partitions, self._topic_id, new_partitions=0)

    def claim_partitions(self, engine: Engine, partitions: Sequence[object]) -> bool:
        """Claim the topic's partitions that are placed on this broker. Return False: others load the rest."""
        self._claim_partitions(self._partitions)
        return False

    def start(self) -> None:
        """Start the transactions if the topic exists, and watch for its creation."""
        if self.is_started:
            self._transactions.start()
        begin, end = self._keys.kind_range("internal")
        self._run_in_background(
            mirror_keys(self._store, begin, end, self._on_keys_read, self._on_keys_changed)
        )

    def create_topic(self) -> bool:
        """Create the topic for every daemon, including this one. Return whether it exists already."""
        if not self.is_started and (self._creation_task is None or self._creation_task.done()):
            self._creation_task = self._run_in_background(self._write_topic_key())
        return self.is_started

    async def _write_topic_key(self) -> None:
        key = self._keys.internal(TRANSACTION_STATE)
        put = StoreTransaction((CreatedAt(key, ABSENT),), (Put(key, b"{}"),))
        while not self.is_started:
            try:
                await self._store.transact(put)
                self._on_topic_created()
            except KeyValueStoreError as error:
                _LOG.warning("Failed to create %s, will retry: %s", TRANSACTION_STATE, error)
                await asyncio.sleep(_RETRY_S)

    def _on_keys_read(self, entries: Sequence[KeyEntry]) -> None:
        if any(entry.key == self._keys.internal(TRANSACTION_STATE) for entry in entries):
            self._on_topic_created()

    def _on_keys_changed(self, changes: KeyChanges) -> None:
        self._on_keys_read(changes.written)

    def _on_topic_created(self) -> None:
        if not self.is_started:
            self.is_started = True
            self._transactions.start()

    # Other brokers

    def create_marker_writer(self, writer: TransactionMarkerWriter) -> TransactionMarkerWriter:
        """Return a writer of markers to local and remote partitions. `writer` writes the local ones."""
        remote_writer = RemoteMarkerWriter(
            writer,
            self._ownership,
            self._node_id,
            self._find_address,
            self._start_topic_check,
            self._security,
        )
        self._senders.append(remote_writer)
        return remote_writer

    def create_verifier(
        self, router: TransactionRouter, config: TransactionConfig
    ) -> RemoteTransactionRouter:
        """Return a router to local and remote transaction coordinators."""
        verifier = RemoteTransactionRouter(
            router.runtime, config, self._ownership, self._node_id, self._find_address, self._security
        )
        self._senders.append(verifier)
        return verifier

    def _find_address(self, node_id: int) -> tuple[str, int] | None:
        broker = self._ownership.brokers.get(node_id)
        if broker is None or self._listener is None:
            return None
        host, port = broker.hosts.get(self._listener), broker.ports.get(self._listener)
        return None if host is None or port is None else (host, port)

    def _find_client_context(self) -> ssl.SSLContext | None:
        assert self._listener is not None
        return self._listeners.find_client_context(self._listener)

    def _start_topic_check(self, marker: RemoteMarker) -> None:
        self._run_in_background(self._check_topic(marker))

    async def _check_topic(self, marker: RemoteMarker) -> None:
        """Report the result of a marker for an unknown partition. Only the store shows if the topic is deleted."""
        topic, number = marker.partition
        error = RETRIABLE_ERROR
        if topic != CONSUMER_OFFSETS:
            try:
                page = await self._store.read(ReadRange(self._keys.topic(topic)))
                if not page.entries or number >= parse_topic(topic, page.entries[0]).partitions:
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            except (KeyValueStoreError, UnreadableKey) as problem:
                _LOG.info("Failed to test whether %s was deleted: %s", marker.partition, problem)
        marker.on_done(error)

    # Shutdown

    def close(self) -> None:
        """Cancel all tasks and close the senders."""
        for task in tuple(self._tasks):
            task.cancel()
        for sender in self._senders:
            sender.close()

    def _run_in_background(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)
        return task

    def _on_task_done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            _LOG.error("Transactions of the cluster", exc_info=problem)
