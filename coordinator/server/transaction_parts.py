"""What coordinates transactions, put together when somebody has one.

InitProducerId, AddPartitionsToTxn, EndTxn ─▶ TransactionRouter ─▶ Runtime over __transaction_state
Produce, TxnOffsetCommit ─▶ Consents ─▶ the same                   │ messages, once they are durable
                                                         Markers ◀─┘
                                    topics, groups ◀─ MarkerWriter ◀─ WriteTxnMarkers
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from coordinator import clock
from coordinator.cluster.ownership import Ownership
from coordinator.config.properties import Config
from coordinator.engine.engine import Engine
from coordinator.names import TRANSACTION_STATE
from coordinator.net.route import Handler
from coordinator.net.run_queue import RunQueue
from coordinator.server.consents import Consents
from coordinator.server.handlers.groups import GroupRouter
from coordinator.server.handlers.of_broker import TransactionRouterOfBroker
from coordinator.server.handlers.topics import TopicsHandler
from coordinator.server.handlers.transaction_admin import TransactionAdmin
from coordinator.server.handlers.transaction_router import TransactionRouter
from coordinator.server.handlers.transactions import TransactionsHandler
from coordinator.server.handlers.txn_offset_commit import TxnOffsetCommitHandler
from coordinator.server.handlers.write_txn_markers import WriteTxnMarkersHandler
from coordinator.server.hanging_transactions import end_hanging
from coordinator.server.internal_topic import InternalTopicLogs
from coordinator.server.line_limit import LineLimit
from coordinator.server.marker_writer import MarkerWriter
from coordinator.server.markers import Markers
from coordinator.server.metrics import Metrics
from coordinator.server.transaction_events import TransactionEvents
from coordinator.server.transaction_topic import transaction_topic
from coordinator.topics.answer import TopicChange
from coordinator.topics.data_plane import DataPlane
from coordinator.topics.steps import Elsewhere, Work
from coordinator.transactions.config import TransactionConfig
from coordinator.transactions.requests import PRODUCER_ID, TRANSACTION_MARKERS
from protocol.apis import ApiKey
from storage.checkpoint import Draft

if TYPE_CHECKING:
    from coordinator.server.cluster.transactions import ClusterTransactions

T = TypeVar("T")


class TransactionParts:
    """See the top of this file. None of its partitions is there until it is taken."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        engine: Engine,
        config: Config,
        logs: InternalTopicLogs,
        data_plane: DataPlane,
        groups: GroupRouter,
        topics: TopicsHandler,
        run_queue: RunQueue,
        arrival: clock.Arrival,
        events: tuple[Metrics, LineLimit],
        changed: Callable[[Sequence[TopicChange]], None],
        cluster: "ClusterTransactions | None",
    ) -> None:
        """In: what counts events and what bounds their lines; who is told what became of topics; what brings
        things to other daemons."""
        topic, transaction_config = transaction_topic(logs, config), config.view(TransactionConfig)
        self.runtime = engine.add(topic if cluster is None else cluster.replicated(topic, logs))
        self.router = TransactionRouter(self.runtime, transaction_config)
        self.consents = Consents(
            loop,
            self.router if cluster is None else cluster.consents(self.runtime, transaction_config),
            arrival,
            config.add_partitions_to_txn_retry_backoff_ms,
            config.add_partitions_to_txn_retry_backoff_max_ms,
        )
        self.writer = MarkerWriter(data_plane, topics, groups, arrival, changed)
        everywhere = self.writer if cluster is None else cluster.markers(self.writer)
        self.markers = Markers(loop, everywhere, self.runtime, self.consents.ended)
        self._groups = groups.runtime
        self._topics = topics
        self._data_plane = data_plane
        engine.observers.append(TransactionEvents(*events).observe)
        engine.receive_by(TRANSACTION_MARKERS, self.markers.receive)
        engine.workers[PRODUCER_ID] = self._new_producer_id
        self.runtime.advanced = partial(topics.internal_advanced, TRANSACTION_STATE)
        self._config = config
        self._run_queue = run_queue
        self._arrival = arrival
        self.handlers: Final[Mapping[int, Handler]] = self._handlers(self.router, groups)

    def handlers_of_broker(
        self, groups: GroupRouter, ownership: Ownership, node_id: int
    ) -> Mapping[int, Handler]:
        """The same for one broker among several. In: its groups."""
        router = TransactionRouterOfBroker(
            self.runtime, self._config.view(TransactionConfig), ownership, node_id
        )
        return self._handlers(router, groups)

    def _handlers(self, router: TransactionRouter, groups: GroupRouter) -> Mapping[int, Handler]:
        """In: who is asked about transactions, and about groups."""
        catalogue, run_queue, config = self._data_plane.catalogue, self._run_queue, self._config
        producers = TransactionsHandler(
            router, catalogue, run_queue, len(groups.runtime.partitions), self._topics.handle
        )
        admin = TransactionAdmin(router, run_queue)
        is_verified = config.transaction_partition_verification_enable
        commits = TxnOffsetCommitHandler(
            groups, catalogue, self.consents, run_queue, self._arrival, is_verified
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

    def end_hanging(self) -> bool:
        """Ends what no coordinator knows; False where that cannot be said yet."""
        return end_hanging(self._data_plane, self._groups, self.runtime, self.writer)

    async def _new_producer_id(self, _: object) -> int:
        """Raises OSError where the disk refuses to reserve any."""
        ids = self._data_plane.producer_ids
        producer_id = ids.take()
        if producer_id is None:
            producer_id = await taken_elsewhere(ids.taking(), self._topics.elsewhere)
        return producer_id


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
