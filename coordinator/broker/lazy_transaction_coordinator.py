"""The transactions of a server, created on first use.

As in Kafka the topic of the transaction coordinator is created for the first request that needs it, or
loaded if the data directory has it. Only then is `transaction_coordinator.py` imported, so a server without
transactions does not pay for them.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from coordinator.apis.group_handlers import GroupRouter
from coordinator.broker.data_directory_errors import why_too_small
from coordinator.broker.internal_topics import InternalTopicLogs, create_segment_config
from coordinator.broker.open_transaction_finder import find_open_transactions
from coordinator.broker.transaction_services import TransactionServices
from coordinator.core.shared_types import TRANSACTION_STATE
from coordinator.network.request_context import RequestContext
from coordinator.network.request_routes import Handler
from coordinator.runtime.partition_lifecycle import PartitionState
from coordinator.topics.data_plane_answer import TopicCreated
from coordinator.topics.long_work import AddOrVerifyRequest, AddOrVerifyResult
from protocol.apis import ApiKey
from protocol.messages.init_producer_id import InitProducerIdRequest

if TYPE_CHECKING:
    from coordinator.broker.transaction_coordinator import TransactionCoordinator

_LOG: Final = logging.getLogger("TransactionCoordinator")

CREATION_TIMEOUT_S: Final = 2.0
"""Maximum time in seconds that a FindCoordinator request waits for the creation of the topic."""

TRANSACTION_APIS: Final = (
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS,
)


class LazyTransactionCoordinator:
    """Handles the APIs of transactions, and creates their coordinator on first use."""

    def __init__(self, services: TransactionServices) -> None:
        """Create the handlers.

        Args:
            services: Parts of the server.

        Raises:
            InvalidConfig: The configuration of the topic is invalid.
            OSError: The data directory cannot be read.
        """
        config = services.settings.config
        # As Kafka's `TransactionStateManager.transactionStateTopicConfigs`.
        overrides = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": "1",
            "unclean.leader.election.enable": "false",
            **create_segment_config(config.transaction_state_log_segment_bytes),
        }
        self._membership = services.cluster.transactions
        self.logs = InternalTopicLogs(
            TRANSACTION_STATE,
            services.directory,
            services.data_plane.catalogue,
            config,
            config.transaction_state_log_num_partitions,
            overrides,
            self._membership.find_topic_shape(),
        )
        self.coordinator: TransactionCoordinator | None = None
        """The coordinator since its first use."""
        self.is_started = False
        self._is_created = False
        self._is_closing = False
        self._creation_callbacks: list[Callable[[], None]] = []
        self._creation_timer: asyncio.TimerHandle | None = None
        self._services = services
        self._has_ended_hanging = False
        """Whether hanging transactions, which no coordinator knows, have been ended."""
        services.groups.runtime.lifecycle.load_listeners.append(lambda _: self._on_group_partition_read())

    def create_handlers(self, groups: GroupRouter, node_id: int) -> dict[int, Handler]:
        """Return the handlers of one broker by API key.

        Args:
            groups: Router of the broker's groups.
            node_id: Id of the broker.
        """

        @cache
        def handlers() -> Mapping[int, Handler]:
            return self._require_coordinator().create_handlers(groups, node_id)

        def handle(key: ApiKey, request: Any, context: RequestContext) -> object:
            return handlers()[key](request, context)

        def init_producer_id(request: InitProducerIdRequest, context: RequestContext) -> object:
            if request.transactional_id is None:
                return self._services.topics.handle(request, context)
            return handlers()[ApiKey.INIT_PRODUCER_ID](request, context)

        by_key: dict[int, Handler] = {key: partial(handle, key) for key in TRANSACTION_APIS}
        return by_key | {ApiKey.INIT_PRODUCER_ID: init_producer_id}

    def add_or_verify_partitions(self, request: AddOrVerifyRequest) -> "asyncio.Future[AddOrVerifyResult]":
        """Add partitions of a Produce request to their transactions, or verify them."""
        return self._require_coordinator().add_partitions_manager.request_partitions(request)

    @property
    def partitions(self) -> int:
        """Number of partitions that the topic has, or will have."""
        return self.logs.partitions

    def _require_coordinator(self) -> "TransactionCoordinator":
        if self.coordinator is None:
            from coordinator.broker.transaction_coordinator import TransactionCoordinator

            self.coordinator = TransactionCoordinator(self._services, self.logs)
            self.coordinator.runtime.lifecycle.load_listeners.append(lambda _: self._on_partition_read())
        return self.coordinator

    # Start

    def start_if_needed(self) -> None:
        """Start if the directory has the topic or an open transaction."""
        if self.logs.exists or self._has_open_transactions():
            self.start()

    def _has_open_transactions(self) -> bool:
        services = self._services
        return bool(find_open_transactions(services.data_plane, services.groups.runtime))

    def start(self) -> str | None:
        """Create the topic if necessary, and load its partitions. A cluster's daemon first waits until the
        cluster knows the topic. Return why the topic cannot be created; None on success.
        """
        if self.is_started:
            return None
        if self._is_closing:
            return "the server is closing"
        refusal = self._why_not_creatable()
        services, logs = self._services, self.logs
        if refusal is not None:
            if services.line_limit.admit(TRANSACTION_STATE):
                _LOG.error("%s cannot be created: %s", TRANSACTION_STATE, refusal)
            return refusal
        if not self._membership.create_topic():
            return None
        if not logs.exists:
            services.data_plane.catalogue.open_files.reserve_for_coordinators(logs.partitions)
        self.is_started = True
        partitions = self._require_coordinator().runtime.partitions
        services.data_plane.attach_internal(
            TRANSACTION_STATE,
            logs.topic_id,
            logs.overrides,
            logs.partitions,
            lambda number: partitions[number].log,
            lambda number: partitions[number].readable_offset,
            lambda number: partitions[number].producers,
        )
        self._creation_timer = services.loop.call_later(CREATION_TIMEOUT_S, self._finish_creation)
        if not self._membership.claim_partitions(services.engine, partitions):
            self._finish_creation()  # later FindCoordinator requests get the owner
        if not logs.exists:
            created = TopicCreated(TRANSACTION_STATE, logs.topic_id, logs.partitions, automatic=True)
            services.on_topics_changed([created])
        return None

    def _why_not_creatable(self) -> str | None:
        """Return why the topic cannot be created, such as a lack of file descriptors; None if it can."""
        if self._membership.refusal is not None:
            return self._membership.refusal
        settings, logs = self._services.settings, self.logs
        files = self._services.data_plane.catalogue.open_files
        if not logs.exists and files.max_partitions - files.reserved < logs.partitions:
            return f"not enough file descriptors for {logs.partitions} partitions of {TRANSACTION_STATE}"
        return why_too_small(settings.files, settings.data_dir, logs.new_partitions)

    @property
    def is_being_created(self) -> bool:
        """Whether the first load of the partitions is in progress, for at most CREATION_TIMEOUT_S."""
        return self.is_started and not self._is_created

    def call_when_created(self, call: Callable[[], None]) -> None:
        """Call `call` after the first load, or at close."""
        self._creation_callbacks.append(call)

    def _on_partition_read(self) -> None:
        partitions = self._require_coordinator().runtime.partitions
        if any(partition.state is PartitionState.LOADING for partition in partitions):
            return
        self._end_hanging_transactions()
        self._finish_creation()

    def _finish_creation(self) -> None:
        if self._creation_timer is not None:
            self._creation_timer.cancel()
            self._creation_timer = None
        self._is_created = True
        awaiting, self._creation_callbacks = self._creation_callbacks, []
        for call in awaiting:
            call()

    # Hanging transactions

    def on_groups_read(self) -> None:
        """End hanging transactions once all groups are loaded and known. In a cluster other brokers may know the
        transactions, so this does nothing there.
        """
        if not self._membership.coordinates_all:
            return
        if not self.is_started and self._has_open_transactions():
            self.start()
        self._end_hanging_transactions()

    def _on_group_partition_read(self) -> None:
        """Handle the late load of a group partition that the disk refused at the start."""
        if self._services.engine.is_loaded and not self._has_ended_hanging:
            self.on_groups_read()

    def _end_hanging_transactions(self) -> None:
        if self.is_started and not self._has_ended_hanging and self._membership.coordinates_all:
            self._has_ended_hanging = self._require_coordinator().end_hanging_transactions()

    def on_partition_lost(self, number: int) -> None:
        """Drop the markers of a partition that this daemon no longer coordinates, or is about to reload."""
        if self.coordinator is not None:
            self.coordinator.markers.drop_partition(number)

    def close(self) -> None:
        """Stop creating topics and writing markers, and call the callbacks that wait for the creation."""
        self._is_closing = True
        if self.coordinator is not None:
            self.coordinator.markers.close()
        self._finish_creation()
