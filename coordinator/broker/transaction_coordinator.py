"""The transaction coordinator over `__transaction_state`: its parts and their connections. The server imports and
creates it on first use.

    InitProducerId, AddPartitionsToTxn, EndTxn ─▶ TransactionRouter ─▶ Runtime over __transaction_state
    Produce, TxnOffsetCommit ─▶ AddPartitionsToTxnManager ─▶ the same   │ messages, once they are durable
                                             TransactionMarkerManager ◀─┘
                                 topics, groups ◀─ LocalMarkerWriter ◀─ WriteTxnMarkers
"""

from collections.abc import Mapping
from functools import partial

from coordinator.apis.add_partitions_to_txn_manager import AddPartitionsToTxnManager
from coordinator.apis.group_handlers import GroupRouter
from coordinator.apis.transaction_handlers import (
    TransactionAdminHandler,
    TransactionsHandler,
    WriteTxnMarkersHandler,
)
from coordinator.apis.transaction_markers import LocalMarkerWriter, TransactionMarkerManager
from coordinator.apis.transaction_router import TransactionRouter
from coordinator.apis.txn_offset_commit import TxnOffsetCommitHandler
from coordinator.broker.hanging_transactions import end_hanging_transactions
from coordinator.broker.internal_topics import InternalTopicLogs
from coordinator.broker.transaction_log_lines import TransactionEventObserver
from coordinator.broker.transaction_services import TransactionServices
from coordinator.config.properties import Config
from coordinator.core.shared_types import TRANSACTION_STATE
from coordinator.network.request_routes import Handler
from coordinator.runtime.machine import InternalTopic
from coordinator.transactions.transaction_records import TransactionRecordCodec
from coordinator.transactions.transaction_request_rules import build_transaction_error_response, is_read_only
from coordinator.transactions.transaction_requests import PRODUCER_ID, TRANSACTION_MARKERS, TransactionConfig
from coordinator.transactions.transaction_shard import TransactionShard
from protocol.apis import ApiKey
from storage.compression import NONE


class TransactionCoordinator:
    """Owns the runtime over `__transaction_state`, its handlers and its marker writers. Partitions load later, by
    `Engine.open_partition`.
    """

    def __init__(self, services: TransactionServices, logs: InternalTopicLogs) -> None:
        """Create the coordinator over the logs of `__transaction_state`."""
        config, engine, cluster = services.settings.config, services.engine, services.cluster
        self._transaction_config = config.view(TransactionConfig)
        self.runtime = cluster.add_internal_topic(engine, create_transaction_topic(logs, config), logs)
        self.router = TransactionRouter(self.runtime, self._transaction_config)
        self.add_partitions_manager = AddPartitionsToTxnManager(
            services.loop,
            cluster.transactions.create_verifier(self.router, self._transaction_config),
            services.arrival,
            config.add_partitions_to_txn_retry_backoff_ms,
            config.add_partitions_to_txn_retry_backoff_max_ms,
        )
        self.marker_writer = LocalMarkerWriter(
            services.data_plane,
            services.topics,
            services.groups,
            services.arrival,
            services.on_topics_changed,
        )
        self.markers = TransactionMarkerManager(
            services.loop,
            services.tasks.run_queue,
            cluster.transactions.create_marker_writer(self.marker_writer),
            self.runtime,
            self.add_partitions_manager.on_transaction_ended,
        )
        self._services = services
        engine.observers.append(TransactionEventObserver(services.metrics, services.line_limit).observe)
        engine.register_receiver(TRANSACTION_MARKERS, self.markers.deliver_markers)
        engine.workers[PRODUCER_ID] = self._draw_producer_id
        self.runtime.readable_listeners.append(
            partial(services.topics.on_internal_topic_advanced, TRANSACTION_STATE)
        )

    def create_handlers(self, groups: GroupRouter, node_id: int) -> Mapping[int, Handler]:
        """Return the handlers of one broker by API key. `groups` is the router of its groups."""
        services = self._services
        router = services.cluster.create_transaction_router(self.runtime, self._transaction_config, node_id)
        catalogue, create_handler = services.data_plane.catalogue, services.tasks.create_handler
        producers = TransactionsHandler(
            router, catalogue, len(groups.runtime.partitions), services.topics.handle
        )
        admin = TransactionAdminHandler(router)
        is_verified = services.settings.config.transaction_partition_verification_enable
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
        services = self._services
        return end_hanging_transactions(
            services.data_plane, services.groups.runtime, self.runtime, self.marker_writer
        )

    async def _draw_producer_id(self, _: object) -> int:
        """Return a new producer id. Raises OSError if the disk rejects the reservation of a block."""
        ids = self._services.data_plane.producer_ids
        producer_id = ids.take_producer_id()
        if producer_id is None:
            producer_id = await ids.reserve_producer_id(self._services.topics.services.create_work())
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
