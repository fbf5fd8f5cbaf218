"""The transactions of a server, created on first use.

As in Kafka the topic of the transaction coordinator is created for the first request that needs it, or
loaded if the data directory has it. Only then is `transaction_coordinator.py` imported, so a server without
transactions does not pay for them.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from coordinator.apis.data_plane_handler import DataPlaneHandler
from coordinator.apis.group_handlers import GroupRouter
from coordinator.apis.request_task import RequestTasks
from coordinator.broker.broker_metrics import BrokerMetrics
from coordinator.broker.data_directory_errors import why_too_small
from coordinator.broker.internal_topics import InternalTopicLogs, create_segment_config
from coordinator.broker.open_transaction_finder import find_open_transactions
from coordinator.broker.server_settings import ServerSettings
from coordinator.cluster.partition_ownership import PartitionOwnership
from coordinator.core import clock
from coordinator.core.daemon_log import LogLineLimit
from coordinator.core.shared_types import TRANSACTION_STATE
from coordinator.network.request_context import RequestContext
from coordinator.network.request_routes import Handler
from coordinator.runtime.engine import Engine
from coordinator.runtime.partition_lifecycle import PartitionState
from coordinator.topics.data_plane import DataPlane
from coordinator.topics.data_plane_answer import TopicChange, TopicCreated
from protocol.apis import ApiKey
from protocol.messages.init_producer_id import InitProducerIdRequest
from storage.data_directory import DataDirectory

if TYPE_CHECKING:
    from coordinator.broker.transaction_coordinator import TransactionCoordinator
    from coordinator.cluster.daemon.cluster_transactions import ClusterTransactions

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

    def __init__(
        self,
        engine: Engine,
        directory: DataDirectory,
        data_plane: DataPlane,
        settings: ServerSettings,
        events: tuple[BrokerMetrics, LogLineLimit],
        on_topics_changed: Callable[[Sequence[TopicChange]], None],
    ) -> None:
        """Create the handlers; call `connect_handlers` next.

        Args:
            engine: Engine of the state machines.
            directory: Data directory.
            data_plane: Topics and their logs.
            settings: Settings of the server.
            events: Event counters, and the rate limit of their log lines.
            on_topics_changed: Takes the creation of the topic.

        Raises:
            InvalidConfig: The configuration of the topic is invalid.
            OSError: The data directory cannot be read.
        """
        config = settings.config
        # As Kafka's `TransactionStateManager.transactionStateTopicConfigs`.
        overrides = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": "1",
            "unclean.leader.election.enable": "false",
            **create_segment_config(config.transaction_state_log_segment_bytes),
        }
        new_partitions = config.transaction_state_log_num_partitions
        self.logs = InternalTopicLogs(
            TRANSACTION_STATE, directory, data_plane.catalogue, config, new_partitions, overrides
        )
        self.coordinator: TransactionCoordinator | None = None
        """The coordinator since its first use."""
        self.cluster: ClusterTransactions | None = None
        """The cluster's part of transactions; set by a cluster's daemon."""
        self.is_started = False
        self._is_created = False
        self._is_closing = False
        self._creation_callbacks: list[Callable[[], None]] = []
        self._creation_timer: asyncio.TimerHandle | None = None
        self._engine = engine
        self._data_plane = data_plane
        self._settings = settings
        self._events = events
        self._on_topics_changed = on_topics_changed
        self._has_ended_hanging = False
        """Whether hanging transactions, which no coordinator knows, have been ended."""

    def connect_handlers(
        self,
        loop: asyncio.AbstractEventLoop,
        groups: GroupRouter,
        topics: DataPlaneHandler,
        tasks: RequestTasks,
        arrival: clock.Arrival,
    ) -> dict[int, Handler]:
        """Connect the other handlers of the server. Return the handlers of transactions by API key."""
        self._loop = loop
        self._groups = groups
        self._topics = topics
        self._tasks = tasks
        self._arrival = arrival
        topics.services.add_or_verify_partitions = lambda request: (
            self._require_coordinator().add_partitions_manager.request_partitions(request)
        )
        groups.runtime.lifecycle.load_listeners.append(lambda _: self._on_group_partition_read())
        handlers: dict[int, Handler] = {key: partial(self._handle_request, key) for key in TRANSACTION_APIS}
        return handlers | {ApiKey.INIT_PRODUCER_ID: self._init_producer_id}

    def create_broker_handlers(
        self, groups: GroupRouter, ownership: PartitionOwnership, node_id: int
    ) -> dict[int, Handler]:
        """Return the handlers of one broker among several in the process. Call `connect_handlers` first.

        Args:
            groups: Router of the broker's groups.
            ownership: Ownership of partitions.
            node_id: Id of the broker.
        """

        @cache
        def handlers() -> Mapping[int, Handler]:
            return self._require_coordinator().create_broker_handlers(groups, ownership, node_id)

        def handle(key: ApiKey, request: Any, context: RequestContext) -> object:
            if key is ApiKey.INIT_PRODUCER_ID and request.transactional_id is None:
                return self._topics.handle(request, context)
            return handlers()[key](request, context)

        return {key: partial(handle, key) for key in (*TRANSACTION_APIS, ApiKey.INIT_PRODUCER_ID)}

    @property
    def partitions(self) -> int:
        """Number of partitions that the topic has, or will have."""
        return self.logs.partitions

    def _require_coordinator(self) -> "TransactionCoordinator":
        if self.coordinator is None:
            from coordinator.broker.transaction_coordinator import TransactionCoordinator

            self.coordinator = TransactionCoordinator(
                self._loop,
                self._engine,
                self._settings.config,
                self.logs,
                self._data_plane,
                self._groups,
                self._topics,
                self._tasks,
                self._arrival,
                self._events,
                self._on_topics_changed,
                self.cluster,
            )
            self.coordinator.runtime.lifecycle.load_listeners.append(lambda _: self._on_partition_read())
        return self.coordinator

    def _handle_request(self, key: ApiKey, request: Any, context: RequestContext) -> object:
        return self._require_coordinator().handlers[key](request, context)

    def _init_producer_id(self, request: InitProducerIdRequest, context: RequestContext) -> object:
        if request.transactional_id is None:
            return self._topics.handle(request, context)
        return self._handle_request(ApiKey.INIT_PRODUCER_ID, request, context)

    # Start

    def start_if_needed(self) -> None:
        """Start if the directory has the topic or an open transaction."""
        if self.logs.exists or find_open_transactions(self._data_plane, self._groups.runtime):
            self.start()

    def start(self) -> str | None:
        """Create the topic if necessary, and load its partitions. A cluster's daemon first waits until the
        cluster knows the topic. Return why the topic cannot be created; None on success.
        """
        if self.is_started:
            return None
        if self._is_closing:
            return "the server is closing"
        refusal = self._why_not_creatable()
        if refusal is not None:
            if self._events[1].admit(TRANSACTION_STATE):
                _LOG.error("%s cannot be made: %s", TRANSACTION_STATE, refusal)
            return refusal
        if self.cluster is not None and not self.cluster.is_started:
            self.cluster.create_topic()
            return None
        logs = self.logs
        if not logs.exists:
            self._data_plane.catalogue.open_files.reserve_for_coordinators(logs.partitions)
        self.is_started = True
        runtime = self._require_coordinator().runtime
        partitions = runtime.partitions
        self._data_plane.attach_internal(
            TRANSACTION_STATE,
            logs.topic_id,
            logs.overrides,
            logs.partitions,
            lambda number: partitions[number].log,
            lambda number: partitions[number].readable_offset,
            lambda number: partitions[number].producers,
        )
        if self.cluster is not None:
            self._is_created = True  # later FindCoordinator requests get the owner
            self.cluster.claim_partitions()
        else:
            self._creation_timer = self._loop.call_later(CREATION_TIMEOUT_S, self._finish_creation)
            for partition in partitions:
                self._engine.open_partition(partition.name)
        if not logs.exists:
            created = TopicCreated(TRANSACTION_STATE, logs.topic_id, logs.partitions, automatic=True)
            self._on_topics_changed([created])
        return None

    def _why_not_creatable(self) -> str | None:
        """Return why the topic cannot be created, such as a lack of file descriptors; None if it can."""
        if self.cluster is not None and self.cluster.refusal is not None:
            return self.cluster.refusal
        settings, logs = self._settings, self.logs
        files = self._data_plane.catalogue.open_files
        if not logs.exists and files.max_partitions - files.reserved < logs.partitions:
            return f"there are no file descriptors for {logs.partitions} partitions of {TRANSACTION_STATE}"
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
        if self.cluster is not None:
            return
        if not self.is_started and find_open_transactions(self._data_plane, self._groups.runtime):
            self.start()
        self._end_hanging_transactions()

    def _on_group_partition_read(self) -> None:
        """Handle the late load of a group partition that the disk refused at the start."""
        if self._engine.is_loaded and not self._has_ended_hanging:
            self.on_groups_read()

    def _end_hanging_transactions(self) -> None:
        if self.is_started and not self._has_ended_hanging and self.cluster is None:
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
