"""Invariants of transactions that the simulator checks under all faults.

1. A transaction is atomic: readers see all of its acknowledged records and offsets, or none of them.
2. Readers see data only if its producer requested a commit and got no response that the transaction was aborted.
3. Readers see the records and offsets of every acknowledged commit.
4. The last stable offset does not decrease or pass an open transaction. It reaches the end of every log after all
   faults are repaired.
5. The epochs of a producer id do not decrease: in the coordinator's log, in a partition's log and in responses.
6. A load restores the state at the time of the last surviving entry.
7. The cores' own invariants hold.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from coordinator.core.outcome import Fact
from coordinator.transactions.transaction_shard import TransactionShard
from protocol.error_codes import ErrorCode
from protocol.messages.end_txn import EndTxnResponse
from protocol.messages.init_producer_id import InitProducerIdResponse
from protocol.records.transaction_state import TransactionLogValue
from tests.simulation.checks import demand


class End(Enum):
    """The outcome of a transaction as its producer knows it."""

    NOT_TOLD = "not told"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass
class Attempt:
    """One transaction from its producer's view. Every record and every offset of it contains its number."""

    number: int
    is_commit_asked: bool = False
    end: End = End.NOT_TOLD
    records: set[int] = field(default_factory=set)
    """The numbers of its acknowledged records."""
    has_offsets: bool = False
    """Whether its offsets were acknowledged."""


class Checks:
    """The checks of one run with transactions."""

    def __init__(self) -> None:
        self.attempts: dict[int, Attempt] = {}
        self._states: list[dict[str, TransactionLogValue]] = []
        self._told: defaultdict[int, int] = defaultdict(int)
        self._seen: defaultdict[int, set[int]] = defaultdict(set)
        self._seen_offsets: set[int] = set()

    def begin(self) -> Attempt:
        """Record the begin of a transaction."""
        attempt = self.attempts[len(self.attempts) + 1] = Attempt(len(self.attempts) + 1)
        return attempt

    # The coordinator

    def coordinator_began(self, values: dict[str, TransactionLogValue]) -> None:
        """Set the values that the coordinator's log has at the start."""
        self._states = [values]

    def coordinator_loaded(self, shard: TransactionShard, end: int) -> None:
        """Check a new state machine that loaded the surviving part of the log."""
        del self._states[end:]
        if self._states:
            demand(shard.snapshot_durable() == self._states[-1], "loading a prefix gives another state")

    def coordinator_wrote(self, records: Sequence[Fact], shard: TransactionShard) -> None:
        """Check records that the coordinator has appended."""
        before = self._states[-1] if self._states else {}
        for record in records:
            old, new = before.get(record.key.transactional_id), record.value
            falls = (
                old is not None
                and new is not None
                and old.producer_id == new.producer_id
                and new.producer_epoch < old.producer_epoch
            )
            demand(not falls, f"{record.key.transactional_id}: the epoch falls: {old}, {new}")
        self._states.append(shard.snapshot_durable())

    def answered(self, response: object) -> None:
        """Check a response that the coordinator sends."""
        if not isinstance(response, InitProducerIdResponse | EndTxnResponse):
            return
        producer_id, epoch = response.producer_id, response.producer_epoch
        if response.error_code == ErrorCode.NONE and producer_id >= 0:
            demand(epoch >= self._told[producer_id], f"{producer_id} is told epoch {epoch} after a later one")
            self._told[producer_id] = epoch

    # Readers

    def seen(self, number: int, record: int) -> None:
        """Check a record of a transaction that a reader has read as committed."""
        self._check_seen(number, f"record {record}")
        demand(record not in self._seen[number], f"transaction {number}: record {record} is there twice")
        self._seen[number].add(record)

    def offset_seen(self, number: int, *, is_own: bool) -> None:
        """Check a fetched offset. `is_own`: no other transaction commits an offset of this partition."""
        self._check_seen(number, "its offset")
        if is_own:
            self._seen_offsets.add(number)

    def _check_seen(self, number: int, what: str) -> None:
        attempt = self.attempts[number]
        demand(attempt.is_commit_asked, f"transaction {number}: {what} is seen, nobody asked for a commit")
        demand(attempt.end is not End.ABORTED, f"transaction {number}: {what} is seen, it was aborted")

    # The end

    def quiet(self) -> None:
        """Check the end of a run, after all faults are repaired and the readers have read everything."""
        for number, attempt in self.attempts.items():
            seen = self._seen[number]
            is_seen = bool(seen) or number in self._seen_offsets
            if attempt.end is End.COMMITTED or is_seen:
                lost = attempt.records - seen
                why = f"it is {attempt.end.value}, {len(seen)} records are seen"
                demand(not lost, f"transaction {number}: records {lost} are not seen, and {why}")
                are_offsets_seen = number in self._seen_offsets or not attempt.has_offsets
                demand(are_offsets_seen, f"transaction {number}: its offset does not count, and {why}")
            if attempt.end is End.ABORTED:
                demand(not is_seen, f"transaction {number} is aborted and seen")
