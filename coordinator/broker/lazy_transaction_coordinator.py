"""The transactions of a server, as far as they are there for those who have none.

The topic of their coordinator is made when somebody first asks for that, as in Kafka, or when the data directory
has it; and what coordinates them is imported then (`transaction_parts.py`). Who uses none pays for none.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from coordinator import clock
from coordinator.cluster.ownership import Ownership
from coordinator.engine.engine import Engine
from coordinator.engine.partition import PartitionState
from coordinator.names import TRANSACTION_STATE
from coordinator.net.caller import Caller
from coordinator.net.route import Handler
from coordinator.net.run_queue import RunQueue
from coordinator.server.handlers.groups import GroupRouter
from coordinator.server.handlers.topics import TopicsHandler
from coordinator.server.internal_topic import InternalTopicLogs, segment_bytes
from coordinator.server.line_limit import LineLimit
from coordinator.server.metrics import Metrics
from coordinator.server.open_transactions import open_transactions
from coordinator.server.settings import ServerSettings
from coordinator.server.unusable_directory import why_too_small
from coordinator.topics.answer import TopicChange, TopicCreated
from coordinator.topics.data_plane import DataPlane
from protocol.apis import ApiKey
from protocol.messages.init_producer_id import InitProducerIdRequest
from storage.data_directory import DataDirectory

if TYPE_CHECKING:
    from coordinator.server.cluster.transactions import ClusterTransactions
    from coordinator.server.transaction_parts import TransactionParts

_LOG: Final = logging.getLogger("TransactionCoordinator")

MAKING_S: Final = 2.0
"""For longer nobody is kept waiting who asks for the coordinator while its topic is being made."""

ANSWERED: Final = (
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS,
)


class Transactions:
    """See the top of this file."""

    def __init__(
        self,
        engine: Engine,
        directory: DataDirectory,
        data_plane: DataPlane,
        settings: ServerSettings,
        events: tuple[Metrics, LineLimit],
        changed: Callable[[Sequence[TopicChange]], None],
    ) -> None:
        """In: what counts events and what bounds their lines; who is told of the topic once it is there. Raises
        InvalidConfig, OSError. `connect` comes next."""
        config = settings.config
        # As Kafka's `TransactionStateManager.transactionStateTopicConfigs` has it.
        overrides = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": "1",
            "unclean.leader.election.enable": "false",
            **segment_bytes(config.transaction_state_log_segment_bytes),
        }
        new_partitions = config.transaction_state_log_num_partitions
        self.logs = InternalTopicLogs(
            TRANSACTION_STATE, directory, data_plane.catalogue, config, new_partitions, overrides
        )
        self.parts: TransactionParts | None = None
        """There since it was first needed."""
        self.cluster: ClusterTransactions | None = None
        """What is different in one daemon of a cluster; set by that."""
        self.is_begun = False
        self._is_made = False
        self._is_closing = False
        self._awaiting: list[Callable[[], None]] = []
        self._making: asyncio.TimerHandle | None = None
        self._engine = engine
        self._data_plane = data_plane
        self._settings = settings
        self._events = events
        self._changed = changed
        self._has_looked = False
        """Whether what no coordinator knows was ended."""

    def connect(
        self,
        loop: asyncio.AbstractEventLoop,
        groups: GroupRouter,
        topics: TopicsHandler,
        run_queue: RunQueue,
        arrival: clock.Arrival,
    ) -> dict[int, Handler]:
        """Takes note of the others. Out: who answers which API."""
        self._loop = loop
        self._groups = groups
        self._topics = topics
        self._run_queue = run_queue
        self._arrival = arrival
        topics.ask_consent = lambda question: self._needed().consents.ask(question)
        groups.runtime.ownership.was_read.append(lambda _: self._groups_read_late())
        handlers: dict[int, Handler] = {key: partial(self._handle, key) for key in ANSWERED}
        return handlers | {ApiKey.INIT_PRODUCER_ID: self._init_producer_id}

    def handlers_of_broker(
        self, groups: GroupRouter, ownership: Ownership, node_id: int
    ) -> dict[int, Handler]:
        """The same for one broker among several; after `connect`. In: its groups."""

        @cache
        def handlers() -> Mapping[int, Handler]:
            return self._needed().handlers_of_broker(groups, ownership, node_id)

        def handle(key: ApiKey, request: Any, caller: Caller) -> object:
            if key is ApiKey.INIT_PRODUCER_ID and request.transactional_id is None:
                return self._topics.handle(request, caller)
            return handlers()[key](request, caller)

        return {key: partial(handle, key) for key in (*ANSWERED, ApiKey.INIT_PRODUCER_ID)}

    @property
    def partitions(self) -> int:
        """How many its topic has, or will have."""
        return self.logs.partitions

    def _needed(self) -> "TransactionParts":
        if self.parts is None:
            from coordinator.server.transaction_parts import TransactionParts

            self.parts = TransactionParts(
                self._loop,
                self._engine,
                self._settings.config,
                self.logs,
                self._data_plane,
                self._groups,
                self._topics,
                self._run_queue,
                self._arrival,
                self._events,
                self._changed,
                self.cluster,
            )
            self.parts.runtime.ownership.was_read.append(lambda _: self._was_read())
        return self.parts

    def _handle(self, key: ApiKey, request: Any, caller: Caller) -> object:
        return self._needed().handlers[key](request, caller)

    def _init_producer_id(self, request: InitProducerIdRequest, caller: Caller) -> object:
        if request.transactional_id is None:
            return self._topics.handle(request, caller)
        return self._handle(ApiKey.INIT_PRODUCER_ID, request, caller)

    # Beginning

    def begin_at_start(self) -> None:
        """Begins where the directory has transactions, or an open one that is nobody's."""
        if self.logs.is_there or open_transactions(self._data_plane, self._groups.runtime):
            self.begin()

    def begin(self) -> str | None:
        """Makes the topic unless it is there, and has its partitions read; in a cluster, once all of it knows. Out:
        why it cannot be made, if so."""
        if self.is_begun:
            return None
        if self._is_closing:
            return "the server is closing"
        refusal = self._why_not()
        if refusal is not None:
            if self._events[1].admit(TRANSACTION_STATE):
                _LOG.error("%s cannot be made: %s", TRANSACTION_STATE, refusal)
            return refusal
        if self.cluster is not None and not self.cluster.is_begun:
            self.cluster.make()
            return None
        logs = self.logs
        if not logs.is_there:
            self._data_plane.catalogue.open_files.keep_for_coordinators(logs.partitions)
        self.is_begun = True
        runtime = self._needed().runtime
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
            self._is_made = True  # whoever asks for a coordinator is told who owns it by then
            self.cluster.own()
        else:
            self._making = self._loop.call_later(MAKING_S, self._made)
            for partition in partitions:
                runtime.ownership.take(partition, epoch=0)
        if not logs.is_there:
            created = TopicCreated(TRANSACTION_STATE, logs.topic_id, logs.partitions, automatic=True)
            self._changed([created])
        return None

    def _why_not(self) -> str | None:
        """Why the topic is not made: there may be no room for it."""
        if self.cluster is not None and self.cluster.refused is not None:
            return self.cluster.refused
        settings, logs = self._settings, self.logs
        files = self._data_plane.catalogue.open_files
        if not logs.is_there and files.most - files.promised < logs.partitions:
            return f"there are no file descriptors for {logs.partitions} partitions of {TRANSACTION_STATE}"
        return why_too_small(settings.files, settings.data_dir, logs.new_partitions)

    @property
    def is_being_made(self) -> bool:
        """Whether it has begun, and its partitions are read for the first time; not for longer than a moment."""
        return self.is_begun and not self._is_made

    def when_made(self, call: Callable[[], None]) -> None:
        """Has something called when that is over, or the end has come."""
        self._awaiting.append(call)

    def _was_read(self) -> None:
        partitions = self._needed().runtime.partitions
        if any(partition.state is PartitionState.LOADING for partition in partitions):
            return
        self._look_for_hanging()
        self._made()

    def _made(self) -> None:
        if self._making is not None:
            self._making.cancel()
            self._making = None
        self._is_made = True
        awaiting, self._awaiting = self._awaiting, []
        for call in awaiting:
            call()

    # Transactions that are nobody's

    def groups_read(self) -> None:
        """The groups are there: what nobody knows can be told from what somebody does. Not in a cluster, where
        others may know."""
        if self.cluster is not None:
            return
        if not self.is_begun and open_transactions(self._data_plane, self._groups.runtime):
            self.begin()
        self._look_for_hanging()

    def _groups_read_late(self) -> None:
        """A partition of groups was read that the disk refused at the start."""
        if self._engine.is_loaded and not self._has_looked:
            self.groups_read()

    def _look_for_hanging(self) -> None:
        if self.is_begun and not self._has_looked and self.cluster is None:
            self._has_looked = self._needed().end_hanging()

    def lost(self, number: int) -> None:
        """This daemon of a cluster coordinates a partition no longer, or is to read it again."""
        if self.parts is not None:
            self.parts.markers.forget(number)

    def close(self) -> None:
        """Begins nothing, writes no more markers, and lets nobody wait."""
        self._is_closing = True
        if self.parts is not None:
            self.parts.markers.close()
        self._made()
