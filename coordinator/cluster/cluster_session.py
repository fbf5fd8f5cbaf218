"""The session of a daemon: one lease, under which stands who it is and all that it owns.

The store ends the lease `ttl` after it last *received* a renewal. The daemon counts from the moment it *sent*
the last one that was answered, and a tenth less. So it lets go before anybody else can own what it owned, unless
its clock is a tenth slower than the store's. Nothing durable hangs on that (the token does), only how soon a
stale daemon says so. The clock is given from outside, and has to count the time during which the machine was
suspended.

At its deadline the daemon lets go of everything, revokes the lease and begins anew. Revoking matters: a daemon
that only forgets stays the owner, in the eyes of all, of what it does not serve.

It registers only where the store still has what the cluster was made with. One that has lost its data is empty:
who owned something there would take nothing for all that there is, and lose its own copy for it.

A second daemon with the same node id finds the key of the first, waits, and takes over when that session ends.
Whether a key that is in the way is one's own, written by a try that was never answered, is told by its lease.

    GRANTING -> REGISTERING -> LIVE -> REVOKING -> GRANTING
                                                -> CLOSED      after `close`

One command is in flight at a time. `next_command` returns it, `apply_answer` takes its answer and returns the
events of the session.
"""

from enum import Enum, auto
from typing import Final, NamedTuple

from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.key_value_store import (
    ABSENT,
    CreatedAt,
    KeyEntry,
    KeyPage,
    KeyValueStoreError,
    LeaseExpired,
    Put,
    ReadRange,
    StoreTransaction,
    TransactionResult,
)
from coordinator.core.wire_name import wire_name

RETRY_MS: Final = 100
"""How long after a failed try the next one begins."""


class SessionState(Enum):
    """Where a session is in its life."""

    GRANTING = auto()
    REGISTERING = auto()
    LIVE = auto()
    REVOKING = auto()
    CLOSED = auto()


class GrantLease(NamedTuple):
    """Ask for a lease. Answer: its id."""

    ttl_ms: int


class RenewLease(NamedTuple):
    """Renew a lease. Answer: None."""

    lease: int


class RevokeLease(NamedTuple):
    """End a lease. Answer: None."""

    lease: int


SessionCommand = GrantLease | RenewLease | RevokeLease | StoreTransaction | ReadRange
SessionAnswer = int | None | TransactionResult | KeyPage | KeyValueStoreError


@wire_name("Began")
class SessionBegan(NamedTuple):
    """The daemon is registered: it may claim."""

    lease: int
    broker_epoch: int


@wire_name("Ended")
class SessionEnded(NamedTuple):
    """The daemon owns nothing any more."""

    reason: str


@wire_name("Duplicate")
class DuplicateNodeId(NamedTuple):
    """Another daemon with this node id has a session; this one waits."""

    registration: bytes


@wire_name("ClusterGone")
class ClusterGone(NamedTuple):
    """The store does not have what the cluster was made with; the daemon waits, as long as that is so."""


SessionEvent = SessionBegan | SessionEnded | DuplicateNodeId | ClusterGone


class ClusterSession:
    """The session of one daemon. Times are milliseconds of one clock that never stands still."""

    def __init__(
        self, keys: ClusterKeys, node_id: int, registration: bytes, ttl_ms: int, made: KeyEntry | None = None
    ) -> None:
        """In: what stands under the key of the node, an incarnation among it; how long the store waits; the key
        that the cluster was made with, None where nobody looks at that."""
        assert ttl_ms > 0, ttl_ms
        self._key = keys.broker(node_id)
        self._registration = registration
        self._cluster_entry = made
        self._is_cluster_there = False
        """Whether it was since the lease was granted."""
        self._ttl_ms = ttl_ms
        self.state = SessionState.GRANTING
        self.lease = 0
        self.broker_epoch = 0
        self.deadline_ms = 0
        """When the daemon must have let go, unless a renewal is answered before."""
        self.next_at_ms = 0
        """When `next_command` has something to do at the latest, if nothing is answered meanwhile."""
        self._in_flight: SessionCommand | None = None
        self._sent_ms = 0
        self._is_closing = False
        self._renew_at_ms = 0
        self._is_duplicate = False

    def is_live(self, now_ms: int) -> bool:
        """Whether the daemon may believe that it owns what it owned."""
        return self.state is SessionState.LIVE and now_ms < self.deadline_ms

    def close(self, now_ms: int) -> list[SessionEvent]:
        """Ends the session for good, as soon as the store takes it."""
        self._is_closing = True
        return self._end("closed", now_ms) if self.lease else self._finish_close()

    def advance_time(self, now_ms: int) -> list[SessionEvent]:
        """To be called at the start of each turn: what the time has done."""
        if self.state in (SessionState.REGISTERING, SessionState.LIVE) and now_ms >= self.deadline_ms:
            return self._end("no renewal was answered in time", now_ms)
        return []

    def next_command(self, now_ms: int) -> SessionCommand | None:
        """What to send now, after `advance_time`; None while something is in flight or nothing is due."""
        if self._in_flight is not None or self.state is SessionState.CLOSED or now_ms < self.next_at_ms:
            return None
        self._in_flight = self._create_command(now_ms)
        self._sent_ms = now_ms
        return self._in_flight

    def apply_answer(self, command: SessionCommand, answer: SessionAnswer, now_ms: int) -> list[SessionEvent]:
        """What a command has come to. The answer to one that the session has given up says nothing."""
        if command is not self._in_flight:
            return []
        self._in_flight = None
        if isinstance(answer, LeaseExpired):
            return self._on_lease_gone(now_ms)
        if isinstance(answer, KeyValueStoreError):
            self.next_at_ms = now_ms + RETRY_MS
            return []
        self.next_at_ms = now_ms
        if isinstance(command, GrantLease):
            assert isinstance(answer, int), answer
            self.lease, self._is_cluster_there = answer, False
            self._extend_deadline()
            self.state = SessionState.REGISTERING
        elif isinstance(command, RenewLease):
            self._extend_deadline()
            self._wait_for_renewal()
        elif isinstance(command, RevokeLease):
            return self._on_lease_gone(now_ms)
        elif isinstance(answer, TransactionResult):
            if answer.succeeded:
                return self._begin(answer.revision)
            self._is_duplicate = True  # until a look at the key says that it is our own
        elif isinstance(answer, KeyPage):
            is_own = isinstance(command, ReadRange) and command.key == self._key
            return (
                self._apply_own_entry(answer, now_ms) if is_own else self._apply_cluster_entry(answer, now_ms)
            )
        return []

    def _create_command(self, now_ms: int) -> SessionCommand:
        if self.state is SessionState.GRANTING:
            return GrantLease(self._ttl_ms)
        if self.state is SessionState.REVOKING:
            return RevokeLease(self.lease)
        if now_ms >= self._renew_at_ms or self.state is SessionState.LIVE:
            return RenewLease(self.lease)
        if self._is_duplicate:
            return ReadRange(self._key)
        cluster_entry = self._cluster_entry
        if cluster_entry is not None and not self._is_cluster_there:
            return ReadRange(cluster_entry.key)
        compares = () if cluster_entry is None else (CreatedAt(cluster_entry.key, cluster_entry.created_at),)
        put = Put(self._key, self._registration, self.lease)
        return StoreTransaction((CreatedAt(self._key, ABSENT), *compares), (put,))

    def _extend_deadline(self) -> None:
        self.deadline_ms = self._sent_ms + self._ttl_ms - self._ttl_ms // 10
        self._renew_at_ms = self._sent_ms + self._ttl_ms // 3

    def _wait_for_renewal(self) -> None:
        """Nothing is to do before the next renewal, where the daemon is registered."""
        if self.state is SessionState.LIVE:
            self.next_at_ms = self._renew_at_ms

    def _apply_cluster_entry(self, page: KeyPage, now_ms: int) -> list[SessionEvent]:
        cluster_entry = self._cluster_entry
        assert cluster_entry is not None
        found = [(entry.created_at, entry.value) for entry in page.entries]
        self._is_cluster_there = found == [(cluster_entry.created_at, cluster_entry.value)]
        if self._is_cluster_there:
            return []
        self._wait_longer(now_ms)
        return [ClusterGone()]

    def _wait_longer(self, now_ms: int) -> None:
        self.next_at_ms = min(now_ms + self._ttl_ms // 10, self._renew_at_ms)

    def _apply_own_entry(self, page: KeyPage, now_ms: int) -> list[SessionEvent]:
        self._is_duplicate = False
        if not page.entries:
            self._is_cluster_there = False
            return []  # it went meanwhile, or the cluster did: try again
        entry = page.entries[0]
        if entry.lease == self.lease:
            return self._begin(entry.created_at)
        self._wait_longer(now_ms)
        return [DuplicateNodeId(entry.value)]

    def _begin(self, broker_epoch: int) -> list[SessionEvent]:
        self.state = SessionState.LIVE
        self.broker_epoch = broker_epoch
        self._is_duplicate = False
        self._wait_for_renewal()
        return [SessionBegan(self.lease, broker_epoch)]

    def _end(self, reason: str, now_ms: int) -> list[SessionEvent]:
        was_live = self.state is SessionState.LIVE
        self.state = SessionState.REVOKING
        self._in_flight = None
        self._is_duplicate = False
        self.next_at_ms = now_ms
        return [SessionEnded(reason)] if was_live else []

    def _on_lease_gone(self, now_ms: int) -> list[SessionEvent]:
        events: list[SessionEvent] = (
            [SessionEnded("its lease is gone")] if self.state is SessionState.LIVE else []
        )
        self.lease = self.broker_epoch = 0
        self._is_duplicate = False
        self.state = SessionState.GRANTING
        self.next_at_ms = now_ms
        return events + self._finish_close() if self._is_closing else events

    def _finish_close(self) -> list[SessionEvent]:
        self.state = SessionState.CLOSED
        self._in_flight = None
        return []
