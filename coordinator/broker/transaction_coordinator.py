"""The transaction coordinator over `__transaction_state`: its parts and their connections. The server imports and
creates it on first use.

    InitProducerId, AddPartitionsToTxn, EndTxn ─▶ TransactionRouter ─▶ Runtime over __transaction_state
    Produce, TxnOffsetCommit ─▶ AddPartitionsToTxnManager ─▶ the same   │ messages, once they are durable
                                             TransactionMarkerManager ◀─┘
                                 topics, groups ◀─ LocalMarkerWriter ◀─ WriteTxnMarkers
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from coordinator.apis.add_partitions_to_txn_manager import AddPartitionsToTxnManager
from coordinator.apis.broker_routers import BrokerTransactionRouter
from coordinator.apis.data_plane_handler import DataPlaneHandler
from coordinator.apis.group_handlers import GroupRouter
from coordinator.apis.request_task import RequestTasks
from coordinator.apis.transaction_handlers import (
    TransactionAdminHandler,
    TransactionsHandler,
    WriteTxnMarkersHandler,
)
from coordinator.apis.transaction_markers import LocalMarkerWriter, TransactionMarkerManager
from coordinator.apis.transaction_router import TransactionRouter
from coordinator.apis.txn_offset_commit import TxnOffsetCommitHandler
from coordinator.broker.broker_metrics import BrokerMetrics
from coordinator.broker.hanging_transactions import end_hanging_transactions
from coordinator.broker.internal_topics import InternalTopicLogs
from coordinator.broker.transaction_log_lines import TransactionEventObserver
from coordinator.cluster.partition_ownership import PartitionOwnership
from coordinator.config.properties import Config
from coordinator.core import clock
from coordinator.core.daemon_log import LogLineLimit
from coordinator.core.shared_types import TRANSACTION_STATE
from coordinator.network.request_routes import Handler
from coordinator.runtime.engine import Engine
from coordinator.runtime.machine import InternalTopic
from coordinator.topics.data_plane import DataPlane
from coordinator.topics.data_plane_answer import TopicChange
from coordinator.transactions.transaction_records import TransactionRecordCodec
from coordinator.transactions.transaction_request_rules import build_transaction_error_response, is_read_only
from coordinator.transactions.transaction_requests import PRODUCER_ID, TRANSACTION_MARKERS, TransactionConfig
from coordinator.transactions.transaction_shard import TransactionShard
from protocol.apis import ApiKey
from storage.compression import NONE

if TYPE_CHECKING:
    from coordinator.cluster.daemon.cluster_transactions import ClusterTransactions


class TransactionCoordinator:
    """Owns the runtime over `__transaction_state`, its handlers and its marker writers. Partitions load later, by
    `Engine.open_partition`.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        engine: Engine,
        config: Config,
        logs: InternalTopicLogs,
        data_plane: DataPlane,
        groups: GroupRouter,
        topics: DataPlaneHandler,
        tasks: RequestTasks,
        arrival: clock.Arrival,
        events: tuple[BrokerMetrics, LogLineLimit],
        on_topics_changed: Callable[[Sequence[TopicChange]], None],
        cluster: "ClusterTransactions | None",
    ) -> None:
        """Create the coordinator.

        Args:
            loop: The event loop.
            engine: Engine of the state machines.
            config: Configuration of the broker.
            logs: Logs of `__transaction_state`.
            data_plane: Topics and their logs.
            groups: Router of the groups.
            topics: Handler of the data plane.
            tasks: Tasks of long requests.
            arrival: Arrival time of the current request.
            events: Event counters, and the rate limit of their log lines.
            on_topics_changed: Takes changes of topics, such as repeated markers.
            cluster: Transactions of a cluster's daemon; None without a cluster.
        """
        topic, transaction_config = create_transaction_topic(logs, config), config.view(TransactionConfig)
        self.runtime = engine.add_topic(
            topic if cluster is None else cluster.create_replicated_topic(topic, logs)
        )
        self.router = TransactionRouter(self.runtime, transaction_config)
        self.add_partitions_manager = AddPartitionsToTxnManager(
            loop,
            self.router if cluster is None else cluster.create_router(self.runtime, transaction_config),
            arrival,
            config.add_partitions_to_txn_retry_backoff_ms,
            config.add_partitions_to_txn_retry_backoff_max_ms,
        )
        self.marker_writer = LocalMarkerWriter(data_plane, topics, groups, arrival, on_topics_changed)
        marker_writer = (
            self.marker_writer if cluster is None else cluster.create_marker_writer(self.marker_writer)
        )
        self.markers = TransactionMarkerManager(
            loop,
            tasks.run_queue,
            marker_writer,
            self.runtime,
            self.add_partitions_manager.on_transaction_ended,
        )
        self._groups = groups.runtime
        self._topics = topics
        self._data_plane = data_plane
        engine.observers.append(TransactionEventObserver(*events).observe)
        engine.register_receiver(TRANSACTION_MARKERS, self.markers.deliver_markers)
        engine.workers[PRODUCER_ID] = self._draw_producer_id
        self.runtime.readable_listeners.append(partial(topics.on_internal_topic_advanced, TRANSACTION_STATE))
        self._config = config
        self._tasks = tasks
        self.handlers: Final[Mapping[int, Handler]] = self._create_handlers(self.router, groups)

    def create_broker_handlers(
        self, groups: GroupRouter, ownership: PartitionOwnership, node_id: int
    ) -> Mapping[int, Handler]:
        """Return the handlers of one broker among several in the process. `groups` is the router of its groups."""
        router = BrokerTransactionRouter(
            self.runtime, self._config.view(TransactionConfig), ownership, node_id
        )
        return self._create_handlers(router, groups)

    def _create_handlers(self, router: TransactionRouter, groups: GroupRouter) -> Mapping[int, Handler]:
        """Return the handlers by API key, over a router of transactions and one of groups."""
        catalogue, create_handler = self._data_plane.catalogue, self._tasks.create_handler
        producers = TransactionsHandler(
            router, catalogue, len(groups.runtime.partitions), self._topics.handle
        )
        admin = TransactionAdminHandler(router)
        is_verified = self._config.transaction_partition_verification_enable
        commits = TxnOffsetCommitHandler(groups, catalogue, self.add_partitions_manager, is_verified)
        return {
            ApiKey.INIT_PRODUCER_ID: producers.init_producer_id,
            ApiKey.ADD_PARTITIONS_TO_TXN: create_handler(producers.add_partitions),
            ApiKey.ADD_OFFSETS_TO_TXN: producers.add_offsets,
            ApiKey.END_TXN: producers.end_txn,
            ApiKey.WRITE_TXN_MARKERS: create_handler(WriteTxnMarkersHandler(self.marker_writer).handle),
            ApiKey.TXN_OFFSET_COMMIT: create_handler(commits.handle),
            ApiKey.DESCRIBE_TRANSACTIONS: create_handler(admin.describe_transactions),
            ApiKey.LIST_TRANSACTIONS: create_handler(admin.list_transactions),
        }

    def end_hanging_transactions(self) -> bool:
        """Abort the transactions that no coordinator knows. Return False while a partition is still loading."""
        return end_hanging_transactions(self._data_plane, self._groups, self.runtime, self.marker_writer)

    async def _draw_producer_id(self, _: object) -> int:
        """Return a new producer id. Raises OSError if the disk rejects the reservation of a block."""
        ids = self._data_plane.producer_ids
        producer_id = ids.take_producer_id()
        if producer_id is None:
            producer_id = await ids.reserve_producer_id(self._topics.services.create_work())
        return producer_id


def create_transaction_topic(logs: InternalTopicLogs, config: Config) -> InternalTopic[TransactionShard]:
    """Return the internal topic with a transaction shard in each partition. Each load that makes a partition
    writable begins a new coordinator epoch.
    """
    transaction_config = config.view(TransactionConfig)
    return InternalTopic(
        name=logs.name,
        partitions=logs.partitions,
        flush=logs.flush,
        compression=NONE,
        codec=TransactionRecordCodec(),
        new_machine=lambda _, epoch: TransactionShard(transaction_config, epoch),
        build_error_response=build_transaction_error_response,
        open_log=logs.open_log,
        logger="TransactionCoordinator",
        contents_label="transaction metadata",
        is_read_only=is_read_only,
        starts_leader_epochs=True,
        producer_expiration_ms=config.producer_id_expiration_ms,
    )
