"""The partition of `__consumer_offsets`: the real group machine, with the operations that transactions need."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from coordinator.apis.transaction_markers import TransactionEnd
from coordinator.core.outcome import Context, Now, Outcome, TransactionMarker, TransactionOwner
from coordinator.core.shared_types import CONSUMER_OFFSETS
from coordinator.group.group_config import GroupConfig
from coordinator.group.group_requests import EndTransaction, FetchOffsets
from coordinator.group.group_shard import GroupShard
from coordinator.group.topics_image import NO_TOPICS
from coordinator.runtime.producer_batch import build_transactional_header
from protocol.error_codes import ErrorCode
from protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from storage.producers.producer_state import (
    InvalidProducerEpoch,
    InvalidTransactionState,
    ProducerState,
    VerificationStateEntry,
)
from tests.group.new_shard import CONSUMER_CONFIG
from tests.simulation.disk import AppendFailed, Stored, decode, encode
from tests.simulation.shell import WALL_START_MS
from tests.simulation.transactions.log import Log
from tests.simulation.transactions.partition import (
    EXPIRATION_MS,
    Done,
    MakeProducers,
    Question,
    Verify,
    refusal_of_marker,
)
from tests.simulation.world import World

ADDS_SINCE: Final = 5
GROUP: Final = "readers"
MakeGroups: TypeAlias = Callable[..., GroupShard]


class Entry(NamedTuple):
    """One batch: records, in a transaction or outside of one, or the end of a transaction."""

    records: list[Stored]
    whose: TransactionOwner | None
    marker: TransactionMarker | None


class Groups:
    """A partition of __consumer_offsets: its log, its group machine and the producer state."""

    def __init__(
        self,
        world: World,
        config: GroupConfig,
        make: MakeGroups,
        verify: Verify,
        make_producers: MakeProducers,
    ) -> None:
        self.world = world
        self.log: Log[Entry] = Log(world, self.load)
        self.name = (CONSUMER_OFFSETS, 0)
        self.state: ProducerState
        self._config = config
        self._make = make
        self._verify = verify
        self._make_producers = make_producers
        self.load()

    def load(self) -> None:
        """Read the log into a new machine."""
        self.shard = self._make(self._config, NO_TOPICS, CONSUMER_CONFIG)
        self.state = self._make_producers(EXPIRATION_MS)
        for offset, entry in enumerate(self.log.entries):
            producer_id = -1 if entry.whose is None else entry.whose.producer_id
            for record in entry.records:
                self.shard.replay(decode(record), producer_id)
            if entry.marker is not None:
                marker = entry.marker
                self.shard.end_transaction(marker.producer_id, is_committed=marker.is_committed)
            self._take_up(entry, offset)
        self.shard.on_loaded(self.now())

    def now(self) -> Now:
        """Return the time by the process's clocks."""
        return Now(self.world.now_ms, WALL_START_MS + self.world.now_ms)

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset: all transactions below it have ended."""
        return self.state.find_last_stable_offset(self.log.durable)

    def _take_up(self, entry: Entry, offset: int) -> None:
        if entry.marker is not None:
            producer_id, epoch, coordinator_epoch, _ = entry.marker
            self.state.record_marker(producer_id, epoch, coordinator_epoch, offset, self.world.now_ms)
        elif entry.whose is not None:
            self.state.record_batch(build_transactional_header(*entry.whose), offset, self.world.now_ms)

    # Offsets

    def commit(
        self, request: TxnOffsetCommitRequest, version: int, then: Callable[[ErrorCode], None]
    ) -> None:
        """Commit offsets in a transaction; they are pending until its end."""
        producer = request.producer_id, request.producer_epoch
        header = build_transactional_header(*producer)
        try:
            needs = self.state.needs_verification(header)
        except InvalidProducerEpoch:
            then(ErrorCode.INVALID_PRODUCER_EPOCH)
            return
        if not needs:
            self._write(request, version, None, then)
            return
        adds = version >= ADDS_SINCE
        state, held = (
            self.state,
            self.state.begin_verification(header, self.world.now_ms, adds_partition=adds),
        )

        def on_verified(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                then(error)
            elif self.state is not state:
                then(ErrorCode.NOT_COORDINATOR)
            else:
                self._write(request, version, held, then)

        self._verify(Question(request.transactional_id, *producer, self.name, adds), on_verified)

    def _write(
        self, request: TxnOffsetCommitRequest, version: int, held: VerificationStateEntry | None, then: Done
    ) -> None:
        header = build_transactional_header(request.producer_id, request.producer_epoch)
        try:
            self.state.check_batch(header, held, is_sequenced=False)
        except InvalidProducerEpoch:
            then(ErrorCode.INVALID_PRODUCER_EPOCH)
            return
        except InvalidTransactionState:
            then(ErrorCode.INVALID_TXN_STATE)
            return
        outcome = self.shard.handle(request, Context(1, version, "producer", "/127.0.0.1"), self.now())
        ((_, response),) = outcome.replies
        assert isinstance(response, TxnOffsetCommitResponse)
        said = ErrorCode(response.topics[0].partitions[0].error_code)
        self._keep(outcome, said, then)

    def _keep(self, outcome: Outcome, said: ErrorCode, then: Done) -> None:
        """Append an outcome and report its completion once it is durable."""
        self.shard.check_invariants()
        if outcome.records or outcome.marker is not None:
            records = [encode(record) for record in outcome.records]
            entry = Entry(records, outcome.in_transaction, outcome.marker)
            try:
                offset = self.log.append(entry)
            except AppendFailed:
                # The machine is ahead of the log.
                self.log.forget(is_crash=False)
                self.load()
                then(ErrorCode.NOT_COORDINATOR)
                return
            self._take_up(entry, offset)
        self.log.when_durable(lambda is_there: then(said if is_there else ErrorCode.NOT_COORDINATOR))

    def fetch(self, *, stable: bool, then: Callable[[OffsetFetchResponseGroup], None]) -> None:
        """Fetch all offsets of the group, once the records that they depend on are durable."""
        request: Any = FetchOffsets(OffsetFetchRequestGroup(group_id=GROUP), stable)
        outcome = self.shard.handle(request, Context(1, 9, "reader", "/127.0.0.1"), self.now())
        ((_, response),) = outcome.replies
        assert isinstance(response, OffsetFetchResponseGroup)
        self.log.when_durable(lambda is_there: then(response) if is_there else None)

    # Markers

    def write_marker(self, end: TransactionEnd, done: Done) -> None:
        """Write the end of a transaction."""
        error = refusal_of_marker(self.state, end)
        if error is not ErrorCode.NONE:
            done(error)
            return
        request = EndTransaction(end.producer_id, end.producer_epoch, end.coordinator_epoch, end.is_committed)
        outcome = self.shard.handle(request, Context(1, 0, "", ""), self.now())

        def kept(error: ErrorCode) -> None:
            done(error if error is ErrorCode.NONE else ErrorCode.NOT_LEADER_OR_FOLLOWER)

        self._keep(outcome, ErrorCode.NONE, kept)
