"""The transactions of a server: their coordinator's topic, the markers, and who answers producers about them.

    InitProducerId, AddPartitionsToTxn, EndTxn ─▶ TransactionRouter ─▶ Runtime over __transaction_state
    Produce, TxnOffsetCommit ─▶ Consents ─▶ the same                   │ messages, once they are durable
                                                             Markers ◀─┘
                                        topics, groups ◀─ MarkerWriter ◀─ WriteTxnMarkers

The topic is made when somebody first asks for a coordinator of transactions, as in Kafka, or when the data
directory has it: who uses none pays for none.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from coordinator import clock
from coordinator.engine.engine import Engine
from coordinator.engine.partition import PartitionState
from coordinator.names import TRANSACTION_STATE
from coordinator.net.route import Handler
from coordinator.net.run_queue import RunQueue
from coordinator.server.consents import Consents
from coordinator.server.handlers.groups import GroupRouter
from coordinator.server.handlers.topics import TopicsHandler
from coordinator.server.handlers.transaction_admin import TransactionAdmin
from coordinator.server.handlers.transaction_router import TransactionRouter
from coordinator.server.handlers.transactions import TransactionsHandler
from coordinator.server.handlers.txn_offset_commit import TxnOffsetCommitHandler
from coordinator.server.handlers.write_txn_markers import WriteTxnMarkersHandler
from coordinator.server.hanging_transactions import end_hanging, open_transactions
from coordinator.server.line_limit import LineLimit
from coordinator.server.marker_writer import MarkerWriter
from coordinator.server.markers import Markers
from coordinator.server.settings import ServerSettings
from coordinator.server.transaction_topic import TransactionTopic
from coordinator.server.unusable_directory import why_too_small
from coordinator.topics.answer import TopicChange, TopicCreated
from coordinator.topics.data_plane import DataPlane
from coordinator.topics.steps import Elsewhere, Work
from coordinator.transactions.requests import PRODUCER_ID, TRANSACTION_MARKERS
from protocol.apis import ApiKey
from storage.checkpoint import Draft
from storage.data_directory import DataDirectory

_LOG: Final = logging.getLogger("TransactionCoordinator")

MAKING_S: Final = 2.0
"""For longer nobody is kept waiting who asks for the coordinator while its topic is being made."""
T = TypeVar("T")


class Transactions:
    """See the top of this file."""

    def __init__(
        self,
        engine: Engine,
        directory: DataDirectory,
        data_plane: DataPlane,
        settings: ServerSettings,
        changed: Callable[[Sequence[TopicChange]], None],
    ) -> None:
        """In: who is told of the topic once it is there. Raises InvalidConfig, OSError."""
        self.topic = TransactionTopic(directory, data_plane.catalogue, settings.config)
        self.runtime = engine.add(self.topic.internal_topic())
        self.router = TransactionRouter(self.runtime)
        self.is_begun = False
        self._is_made = False
        self._awaiting: list[Callable[[], None]] = []
        self._engine = engine
        self._data_plane = data_plane
        self._settings = settings
        self._changed = changed
        self._line_limit = LineLimit()
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
        """Puts together what needs the others. Out: who answers which API."""
        config, plane = self._settings.config, self._data_plane
        self._loop = loop
        self._groups = groups.runtime
        self._topics = topics
        self.consents = Consents(
            loop,
            self.router,
            arrival,
            config.add_partitions_to_txn_retry_backoff_ms,
            config.add_partitions_to_txn_retry_backoff_max_ms,
        )
        topics.ask_consent = self.consents.ask
        self.writer = MarkerWriter(plane, topics, groups, arrival, self._changed)
        self.markers = Markers(loop, self.writer, self.runtime)
        self._engine.receive_by(TRANSACTION_MARKERS, self.markers.receive)
        self._engine.workers[PRODUCER_ID] = self._new_producer_id
        self.runtime.ownership.was_read.append(lambda _: self._was_read())
        self._groups.ownership.was_read.append(lambda _: self._groups_read_late())
        self.runtime.advanced = partial(topics.internal_advanced, TRANSACTION_STATE)
        producers = TransactionsHandler(
            self.router, plane.catalogue, run_queue, len(groups.runtime.partitions), topics.handle
        )
        admin = TransactionAdmin(self.router, run_queue)
        commits = TxnOffsetCommitHandler(
            groups,
            plane.catalogue,
            self.consents,
            run_queue,
            arrival,
            config.transaction_partition_verification_enable,
        )
        return {
            ApiKey.INIT_PRODUCER_ID: producers.init_producer_id,
            ApiKey.ADD_PARTITIONS_TO_TXN: producers.add_partitions,
            ApiKey.ADD_OFFSETS_TO_TXN: producers.add_offsets,
            ApiKey.END_TXN: producers.end_txn,
            ApiKey.WRITE_TXN_MARKERS: WriteTxnMarkersHandler(self.writer, run_queue).handle,
            ApiKey.TXN_OFFSET_COMMIT: commits.handle,
            ApiKey.DESCRIBE_TRANSACTIONS: admin.describe,
            ApiKey.LIST_TRANSACTIONS: admin.list_transactions,
        }

    # Beginning

    def begin_at_start(self) -> None:
        """Begins where the directory has transactions, or an open one that is nobody's."""
        if self.topic.logs.is_there or open_transactions(self._data_plane, self._groups):
            self.begin()

    def begin(self) -> str | None:
        """Makes the topic unless it is there, and has its partitions read. Out: why it cannot be made, if so."""
        if self.is_begun:
            return None
        if self.runtime.is_shut_down:
            return "the server is closing"
        logs = self.topic.logs
        files = self._data_plane.catalogue.open_files
        refusal = why_too_small(self._settings.files, self._settings.data_dir, logs.new_partitions)
        if refusal is None and not logs.is_there and files.most - files.promised < logs.partitions:
            refusal = f"there are no file descriptors for {logs.partitions} partitions of {TRANSACTION_STATE}"
        if refusal is not None:
            if self._line_limit.admit(TRANSACTION_STATE):
                _LOG.error("%s cannot be made: %s", TRANSACTION_STATE, refusal)
            return refusal
        if not logs.is_there:
            files.keep_for_coordinators(logs.partitions)
        self.is_begun = True
        partitions = self.runtime.partitions
        self._data_plane.attach_internal(
            TRANSACTION_STATE,
            logs.topic_id,
            logs.overrides,
            logs.partitions,
            lambda number: partitions[number].log,
            lambda number: partitions[number].readable_offset,
            lambda number: partitions[number].producers,
        )
        for partition in partitions:
            self.runtime.ownership.take(partition, epoch=0)
        self._loop.call_later(MAKING_S, self._made)
        self._changed([TopicCreated(TRANSACTION_STATE, logs.topic_id, logs.partitions, automatic=True)])
        return None

    @property
    def is_being_made(self) -> bool:
        """Whether it has begun, and its partitions are read for the first time; not for longer than a moment."""
        return self.is_begun and not self._is_made

    def when_made(self, call: Callable[[], None]) -> None:
        """Has something called when that is over, or the end has come."""
        self._awaiting.append(call)

    def _was_read(self) -> None:
        if any(partition.state is PartitionState.LOADING for partition in self.runtime.partitions):
            return
        self._look_for_hanging()
        self._made()

    def _made(self) -> None:
        self._is_made = True
        awaiting, self._awaiting = self._awaiting, []
        for call in awaiting:
            call()

    def groups_read(self) -> None:
        """The groups are there: what nobody knows can be told from what somebody does."""
        if not self.is_begun and open_transactions(self._data_plane, self._groups):
            self.begin()
        self._look_for_hanging()

    def _groups_read_late(self) -> None:
        """A partition of groups was read that the disk refused at the start."""
        if self._engine.is_loaded and not self._has_looked:
            self.groups_read()

    def _look_for_hanging(self) -> None:
        if self._has_looked or not self.is_begun:
            return
        self._has_looked = end_hanging(self._data_plane, self._groups, self.runtime, self.writer)

    async def _new_producer_id(self, _: object) -> int:
        """Raises OSError where the disk refuses to reserve any."""
        ids = self._data_plane.producer_ids
        producer_id = ids.take()
        if producer_id is None:
            producer_id = await taken_elsewhere(ids.taking(), self._topics.elsewhere)
        return producer_id

    def close(self) -> None:
        """Writes no more markers, and lets nobody wait."""
        self.markers.close()
        self._made()


async def taken_elsewhere(steps: Work[T], elsewhere: Callable[[Elsewhere | Draft], Awaitable[object]]) -> T:
    """Takes all steps; what waits for the disk is done elsewhere."""
    result: object = None
    while True:
        try:
            step = steps.send(result)
        except StopIteration as end:
            found: T = end.value
            return found
        result = await elsewhere(step) if isinstance(step, Draft) or callable(step) else None
