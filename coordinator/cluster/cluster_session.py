"""The session of a daemon: one lease, which carries its registration and the keys of all its partitions.

The store ends the lease `ttl_ms` after it *received* the last renewal. The daemon counts from the moment it *sent*
the last answered renewal, and uses only 90 % of this time. So it releases its partitions before another daemon can
own them, unless its clock is more than a tenth slower than the store's. Durability does not depend on that but on
the token; it only decides how soon a stale daemon stops. The caller provides the clock, which must include the time
of a suspended machine.

At its deadline the daemon releases everything, revokes the lease and starts over. Without the revocation all other
daemons would still see it as the owner of partitions that it does not serve.

A daemon registers only if the store has the cluster's identity. A store that has lost its data is empty: a daemon
would take that for the state of its partitions and discard its own copy.

A second daemon with the same node id finds the key of the first, waits, and takes over when that session ends. The
lease of the key shows whether it comes from an unanswered attempt of this daemon itself.

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
"""Delay after a failed attempt."""


class SessionState(Enum):
    """The life cycle of a session."""

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
    """The daemon is registered and may claim partitions."""

    lease: int
    broker_epoch: int


@wire_name("Ended")
class SessionEnded(NamedTuple):
    """The daemon does not own any partitions now."""

    reason: str


@wire_name("Duplicate")
class DuplicateNodeId(NamedTuple):
    """Another daemon with this node id has a session; this one waits."""

    registration: bytes


@wire_name("ClusterGone")
class ClusterGone(NamedTuple):
    """The store does not have the cluster's identity; the daemon waits for it."""


SessionEvent = SessionBegan | SessionEnded | DuplicateNodeId | ClusterGone


class ClusterSession:
    """The session of one daemon. All times are milliseconds of one clock, which never stops."""

    def __init__(
        self, keys: ClusterKeys, node_id: int, registration: bytes, ttl_ms: int, made: KeyEntry | None = None
    ) -> None:
        """Create a session.

        Args:
            keys: Keys of the cluster in the store.
            node_id: Id of this broker.
            registration: Value of the broker's key, unique for each start of the daemon.
            ttl_ms: Time until the store ends the session without a renewal.
            made: The key of the cluster's identity, to be compared; None for no comparison.
        """
        assert ttl_ms > 0, ttl_ms
        self.node_id = node_id
        self._key = keys.broker(node_id)
        self._registration = registration
        self._cluster_entry = made
        self._is_cluster_there = False
        """Whether the identity was there since the grant of the lease."""
        self._ttl_ms = ttl_ms
        self.state = SessionState.GRANTING
        self.lease = 0
        self.broker_epoch = 0
        self.deadline_ms = 0
        """Time by which the daemon must release everything, unless a renewal is answered before."""
        self.next_at_ms = 0
        """Latest time of the next command, if no answer arrives before."""
        self._in_flight: SessionCommand | None = None
        self._sent_ms = 0
        self._is_closing = False
        self._renew_at_ms = 0
        self._is_duplicate = False

    def is_live(self, now_ms: int) -> bool:
        """Return whether the daemon may rely on its ownership."""
        return self.state is SessionState.LIVE and now_ms < self.deadline_ms

    def close(self, now_ms: int) -> list[SessionEvent]:
        """End the session for good, as soon as the store confirms it."""
        self._is_closing = True
        return self._end("closed", now_ms) if self.lease else self._finish_close()

    def advance_time(self, now_ms: int) -> list[SessionEvent]:
        """End the session if its deadline has passed. Call it at the start of each turn."""
        if self.state in (SessionState.REGISTERING, SessionState.LIVE) and now_ms >= self.deadline_ms:
            return self._end("etcd answered no renewal in time", now_ms)
        return []

    def next_command(self, now_ms: int) -> SessionCommand | None:
        """Return the command to send now, after `advance_time`; None while one is in flight or none is due."""
        if self._in_flight is not None or self.state is SessionState.CLOSED or now_ms < self.next_at_ms:
            return None
        self._in_flight = self._create_command(now_ms)
        self._sent_ms = now_ms
        return self._in_flight

    def apply_answer(self, command: SessionCommand, answer: SessionAnswer, now_ms: int) -> list[SessionEvent]:
        """Apply the answer to a command. The answer to an abandoned command has no effect."""
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
            self._is_duplicate = True  # until a read of the key shows that it is our own
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
        """Wait until the next renewal, if the daemon is registered."""
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
            return []  # the key or the cluster is gone: try again
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
