"""The checks of transactions detect a single planted fault in a core or a shell."""

import re

import pytest
from msgspec import structs

from coordinator.apis.transaction_markers import TransactionEnd
from coordinator.core.outcome import Context, Now, Outcome
from coordinator.group.group_requests import Request as GroupRequest
from coordinator.group.group_shard import GroupShard
from coordinator.transactions.transaction_requests import Request
from coordinator.transactions.transaction_shard import TransactionShard
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from storage.producers.producer_state import ProducerState
from storage.topic_partition import TopicPartition
from tests.simulation.planted_faults import find_violation
from tests.simulation.transactions.coordinator import Coordinator
from tests.simulation.transactions.partition import Entry, Partition
from tests.simulation.transactions.run import Simulation
from tests.simulation.transactions.server import Parts

SEEDS = 200
STEPS = 900


def skips_a_marker(name: TopicPartition, end: TransactionEnd) -> TransactionEnd | None:
    """One partition never gets its marker."""
    return None if name == ("payments", 0) else end


def commits_aborted(name: TopicPartition, end: TransactionEnd) -> TransactionEnd | None:
    """Commit an aborted transaction in one partition."""
    return end._replace(is_committed=True) if name == ("orders", 1) else end


def aborts_committed_offsets(name: TopicPartition, end: TransactionEnd) -> TransactionEnd | None:
    """Abort every transaction in the groups."""
    return end._replace(is_committed=False) if name.topic == "__consumer_offsets" else end


class CountsAtOnce(GroupShard):
    """Offsets of a transaction are committed at once."""

    def handle(self, request: GroupRequest, context: Context, now: Now) -> Outcome:
        outcome = super().handle(request, context, now)
        if isinstance(request, TxnOffsetCommitRequest):
            self.end_transaction(request.producer_id, is_committed=True)
        return outcome


class IgnoresOpenTransactions(ProducerState):
    """Everything durable is stable."""

    def find_last_stable_offset(self, high_watermark: int) -> int:
        return high_watermark


class ForgetsWhatWasAborted(Partition):
    """A Fetch does not list aborted transactions."""

    def _take_up(self, entry: Entry, offset: int) -> None:
        super()._take_up(entry, offset)
        self.aborted.clear()


class AnswersBeforeDurable(Coordinator):
    """The response to EndTxn leaves before its record is in the log."""

    def release(self, outcome: Outcome) -> None:
        self.answer(outcome)
        super().release(structs.replace(outcome, replies=()))


class SendsMarkersBeforeDurable(Coordinator):
    """Markers are written before the outcome of their transaction is durable."""

    def release(self, outcome: Outcome) -> None:
        self.deliver(outcome.messages)
        super().release(structs.replace(outcome, messages=()))


class TakesAnyEpoch(TransactionShard):
    """A fenced producer can end the transaction of its successor."""

    def handle(self, request: Request, context: Context, now: Now) -> Outcome:
        if isinstance(request, EndTxnRequest):
            current = self.snapshot_durable().get(request.transactional_id)
            if current is not None and current.producer_id == request.producer_id:
                request.producer_epoch = current.producer_epoch
        return super().handle(request, context, now)


class VerifiesNothing(Partition):
    """A late write can begin a transaction that never ends."""

    verifies = False


class ForgetsMarkersOnLoad(TransactionShard):
    """A restart does not send the missing markers of ended transactions."""

    def on_loaded(self, now: Now) -> Outcome:
        return structs.replace(super().on_loaded(now), messages=())


class NoTimeout(TransactionShard):
    """Transactions of dead producers never time out."""

    def fire_timer(self, key: object, now: Now) -> Outcome:
        return Outcome()


def finding(parts: Parts, first_seed: int) -> str:
    """Return the checker's report on the first run that breaks a rule."""
    return find_violation(lambda seed: Simulation(seed, parts).run(STEPS), SEEDS, first_seed)


@pytest.mark.parametrize(
    ("parts", "rule", "first_seed"),
    [
        (Parts(spoil=skips_a_marker), "for ever|are not seen|is seen", 73),
        (Parts(spoil=commits_aborted), "nobody asked for a commit|was aborted", 19),
        (Parts(spoil=aborts_committed_offsets), "its offset does not count", 59),
        (Parts(groups=CountsAtOnce), "nobody asked for a commit|was aborted", 4),
        (Parts(producers=IgnoresOpenTransactions), "a transaction is open", 107),
        (Parts(partition=ForgetsWhatWasAborted), "nobody asked for a commit|was aborted", 1),
        (
            Parts(coordinator=AnswersBeforeDurable),
            "after a later one|are not seen|does not count|for ever",
            52,
        ),
        (
            Parts(coordinator=SendsMarkersBeforeDurable),
            "are not seen|does not count|is seen|come to an end|for ever",
            167,
        ),
        (
            Parts(transactions=TakesAnyEpoch),
            "nobody asked|was aborted|are not seen|is told epoch|does not count",
            5,
        ),
        (Parts(partition=VerifiesNothing), "for ever|nobody asked|was aborted", 5),
        (Parts(transactions=ForgetsMarkersOnLoad), "for ever|come to an end", 52),
        (Parts(transactions=NoTimeout), "for ever", 283),
    ],
)
def test_a_fault_is_found(parts: Parts, rule: str, first_seed: int) -> None:
    said = finding(parts, first_seed)
    assert re.search(rule, said), said
