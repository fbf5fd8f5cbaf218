"""A minimal shell around the cores of a daemon in a cluster. A partition is a list of committed values here.

`Rules` are the rules that tests disable one at a time to prove that the simulator detects each violation.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.cluster_session import ClusterSession, SessionBegan, SessionCommand, SessionEnded
from coordinator.cluster.key_value_store import KeyPage, KeyValueStoreError, ReadRange, StoreTransaction
from coordinator.cluster.partition_appends import AppendDone, AppendFenced, PartitionAppender, PartitionId
from coordinator.cluster.partition_claims import (
    Claim,
    ClaimRefused,
    PartitionToken,
    create_release,
    place_partitions,
)
from tests.simulation.cluster.history import Broken

KEYS = ClusterKeys("simulated")
TOPIC = "__consumer_offsets"
PARTITIONS = 3
TTL_MS = 2_000


class Rules(NamedTuple):
    """The rules that keep a cluster safe; False disables a rule."""

    compares_token: bool = True
    proves_answers: bool = True
    proof_begins_later: bool = True
    reload_takes_token: bool = True


class Unfenced(PartitionAppender):
    """An appender without the comparisons of tokens in its transactions."""

    def next_transaction(self) -> StoreTransaction | None:
        transaction = super().next_transaction()
        if transaction is not None:
            self._sent = transaction = StoreTransaction((), transaction.operations)
        return transaction


class EarlyProof(PartitionAppender):
    """An appender that uses a transaction in flight as the proof of a later request."""

    def prove_token(self, partition: PartitionId, token: int, ticket: Any) -> None:
        part = (self._in_flight or {}).get(partition)
        if part is None or part.token != token:
            super().prove_token(partition, token, ticket)
        else:
            part.tickets.append(ticket)


@dataclass
class Held:
    """A partition that the daemon owns. `values` is None until it is read."""

    token: int = 0
    values: list[bytes] | None = None
    claim: Claim | None = None
    is_asking: bool = False


@dataclass
class Ask:
    """Sends one request to the engine; the answer, or StoreUnavailable at the deadline, comes back to `then`."""

    request: SessionCommand
    then: Callable[[Any, int], None] = field(repr=False)


class Daemon:
    """One node. `send` sends a request to the engine; the answer arrives later."""

    def __init__(self, node_id: int, rules: Rules, send: Callable[["Daemon", Ask], None]) -> None:
        self.node_id = node_id
        self._rules = rules
        self._send = send
        self.session = ClusterSession(KEYS, node_id, b"%d" % node_id, TTL_MS)
        self.appender = self._new_appender()
        self.held: dict[int, Held] = {}
        self._waiting: dict[int, Callable[[bool], None]] = {}
        self._last_ticket = 0

    def _new_appender(self) -> PartitionAppender:
        if not self._rules.compares_token:
            return Unfenced(KEYS)
        return PartitionAppender(KEYS) if self._rules.proof_begins_later else EarlyProof(KEYS)

    def turn(self, now_ms: int, live: set[int]) -> None:
        """Run one iteration: handle deadlines, renewals, claims and pending appends."""
        self._happened(self.session.advance_time(now_ms))
        command = self.session.next_command(now_ms)
        if command is not None:
            self._ask(command, partial(self._session_answered, command))
        if self.session.is_live(now_ms):
            wanted = place_partitions(TOPIC, range(PARTITIONS), live | {self.node_id}, {})
            for partition, node in wanted.items():
                if node == self.node_id and partition not in self.held:
                    self.held[partition] = Held(claim=self._claim(partition))
            for partition, held in list(self.held.items()):
                self._go_on(partition, held)
        self._append()

    def commit(self, partition: int, value: bytes, answer: Callable[[bool], None]) -> bool:
        """Commit a value; return False if this daemon is not the coordinator.

        Otherwise `answer` gets True on success and False if the outcome is unknown.
        """
        held = self.held.get(partition)
        if held is None or held.values is None:
            return False
        offset = len(held.values)
        held.values.append(value)
        self.appender.append(
            PartitionId(TOPIC, partition), held.token, offset, offset + 1, value, self._ticket(answer)
        )
        self._append()
        return True

    def fetch(self, partition: int, answer: Callable[[bytes | None], None]) -> bool:
        """Fetch the newest value; return False if this daemon is not the coordinator.

        Otherwise `answer` gets the value, or is never called.
        """
        held = self.held.get(partition)
        if held is None or held.values is None:
            return False
        found = held.values[-1] if held.values else b""
        if not self._rules.proves_answers:
            answer(found)
            return True
        ticket = self._ticket(lambda is_done: answer(found if is_done else None))
        self.appender.prove_token(PartitionId(TOPIC, partition), held.token, ticket)
        self._append()
        return True

    def reload(self, partition: int) -> None:
        """Discard the in-memory state of a partition after an internal error."""
        held = self.held.get(partition)
        if held is None or held.values is None:
            return
        self.appender.drop_partition(PartitionId(TOPIC, partition))
        held.values = None
        held.claim = self._claim(partition, held.token) if self._rules.reload_takes_token else None

    def give_back(self, partition: int) -> None:
        """Release a partition in a move, so that its new owner claims it."""
        held = self.held.pop(partition, None)
        if held is not None and held.token:
            self.appender.drop_partition(PartitionId(TOPIC, partition))
            self._ask(create_release(KEYS, (TOPIC, partition), held.token), lambda answer, at: None)

    def _ask(self, request: SessionCommand, then: Callable[[Any, int], None]) -> None:
        self._send(self, Ask(request, then))

    def _ticket(self, answer: Callable[[bool], None]) -> int:
        self._last_ticket += 1
        self._waiting[self._last_ticket] = answer
        return self._last_ticket

    def _session_answered(self, command: SessionCommand, answer: Any, now_ms: int) -> None:
        self._happened(self.session.apply_answer(command, answer, now_ms))

    def _happened(self, events: list[Any]) -> None:
        for event in events:
            if isinstance(event, SessionEnded):
                self.held.clear()
                self.appender = self._new_appender()
                self._waiting.clear()
            else:
                assert isinstance(event, SessionBegan), event

    def _claim(self, partition: int, token: int | None = None) -> Claim:
        session = self.session
        return Claim(KEYS, (TOPIC, partition), self.node_id, session.lease, session.broker_epoch, token)

    def _go_on(self, partition: int, held: Held) -> None:
        if held.is_asking or held.values is not None:
            return
        held.is_asking = True
        claim = held.claim
        if claim is not None:
            self._ask(claim.next_command(), lambda answer, at: self._claimed(partition, held, claim, answer))
        else:
            begin, end = KEYS.log_range(TOPIC, partition)
            self._ask(ReadRange(begin, end), lambda answer, at: self._loaded(partition, held, answer))

    def _claimed(self, partition: int, held: Held, claim: Claim, answer: Any) -> None:
        held.is_asking = False
        if held is not self.held.get(partition) or held.claim is not claim:
            return
        outcome = claim.apply_answer(answer)
        if isinstance(outcome, PartitionToken):
            held.token, held.claim = outcome.token, None
        elif isinstance(outcome, ClaimRefused):
            del self.held[partition]

    def _loaded(self, partition: int, held: Held, answer: KeyPage | KeyValueStoreError) -> None:
        held.is_asking = False
        if held is self.held.get(partition) and held.claim is None and isinstance(answer, KeyPage):
            held.values = values_of(answer)

    def _append(self) -> None:
        transaction = self.appender.next_transaction()
        if transaction is not None:
            self._transact(self.appender, transaction)

    def _transact(self, appender: PartitionAppender, transaction: StoreTransaction) -> None:
        self._ask(transaction, lambda answer, at: self._appended(appender, answer))

    def _appended(self, appender: PartitionAppender, answer: Any) -> None:
        if appender is not self.appender:
            return
        for result in appender.apply_answer(answer):
            if not isinstance(result, AppendDone):
                assert isinstance(result, AppendFenced), result
                self.held.pop(result.partition.number, None)
            for ticket in result.tickets:
                assert isinstance(ticket, int), ticket
                self._waiting.pop(ticket)(isinstance(result, AppendDone))
        if appender.is_in_flight:
            self._transact(appender, appender.repeat_transaction())
        else:
            self._append()


def values_of(page: KeyPage) -> list[bytes]:
    """Return the values in a log. Raises Broken if the log has a gap."""
    values: list[bytes] = []
    for entry in page.entries:
        offset = int(entry.key.rsplit(b"/", 1)[1])
        if offset > len(values):
            raise Broken(f"{entry.key!r} follows {len(values)} values")
        # The check of the histories detects overwritten values.
        del values[offset:]
        values.extend(entry.value[at : at + 8] for at in range(0, len(entry.value), 8))
    return values
