"""The session of a daemon: one lease, under which stands who it is and all that it owns.

The engine ends the lease `ttl` after it last *received* a renewal. The daemon counts from the moment it *sent*
the last one that was answered, and a tenth less. So it lets go before anybody else can own what it owned, unless
its clock is a tenth slower than the engine's. Nothing durable hangs on that (the token does), only how soon a
stale daemon says so. The clock is given from outside, and has to count the time during which the machine was
suspended.

At its deadline the daemon lets go of everything, revokes the lease and begins anew. Revoking matters: a daemon
that only forgets stays the owner, in the eyes of all, of what it does not serve.

It registers only where the engine still has what the cluster was made with. One that has lost its data is empty:
who owned something there would take nothing for all that there is, and lose its own copy for it.

A second daemon with the same node id finds the key of the first, waits, and takes over when that session ends.
Whether a key that is in the way is one's own, written by a try that was never answered, is told by its lease.

    GRANTING -> REGISTERING -> LIVE -> REVOKING -> GRANTING
                                                -> CLOSED      after `close`

One command is in flight at a time. `next` gives it, `answered` takes what came of it; both may give what has
happened.
"""

from enum import Enum, auto
from typing import Final, NamedTuple

from coordinator.cluster.engine.engine import (
    ABSENT,
    CreatedAt,
    EngineError,
    Entry,
    LeaseGone,
    Outcome,
    Page,
    Put,
    Read,
    Transaction,
)
from coordinator.cluster.keys import Keys

RETRY_MS: Final = 100
"""How long after a failed try the next one begins."""


class State(Enum):
    """Where a session is in its life."""

    GRANTING = auto()
    REGISTERING = auto()
    LIVE = auto()
    REVOKING = auto()
    CLOSED = auto()


class Grant(NamedTuple):
    """Ask for a lease. Answer: its id."""

    ttl_ms: int


class KeepAlive(NamedTuple):
    """Renew a lease. Answer: None."""

    lease: int


class Revoke(NamedTuple):
    """End a lease. Answer: None."""

    lease: int


Command = Grant | KeepAlive | Revoke | Transaction | Read
Answer = int | None | Outcome | Page | EngineError


class Began(NamedTuple):
    """The daemon is registered: it may claim."""

    lease: int
    broker_epoch: int


class Ended(NamedTuple):
    """The daemon owns nothing any more."""

    reason: str


class Duplicate(NamedTuple):
    """Another daemon with this node id has a session; this one waits."""

    registration: bytes


class ClusterGone(NamedTuple):
    """The engine does not have what the cluster was made with; the daemon waits, as long as that is so."""


Event = Began | Ended | Duplicate | ClusterGone


class Session:
    """Of one daemon. Times are milliseconds of one clock that never stands still."""

    def __init__(
        self, keys: Keys, node_id: int, registration: bytes, ttl_ms: int, made: Entry | None = None
    ) -> None:
        """In: what stands under the key of the node, an incarnation among it; how long the engine waits; the key
        that the cluster was made with, None where nobody looks at that."""
        assert ttl_ms > 0, ttl_ms
        self._key = keys.broker(node_id)
        self._registration = registration
        self._made = made
        self._is_cluster_there = False
        """Whether it was since the lease was granted."""
        self._ttl_ms = ttl_ms
        self.state = State.GRANTING
        self.lease = 0
        self.broker_epoch = 0
        self.deadline_ms = 0
        """When the daemon must have let go, unless a renewal is answered before."""
        self.next_at_ms = 0
        """When `next` has something to do at the latest, if nothing is answered meanwhile."""
        self._in_flight: Command | None = None
        self._sent_ms = 0
        self._is_closing = False
        self._renew_at_ms = 0
        self._is_duplicate = False

    def is_live(self, now_ms: int) -> bool:
        """Whether the daemon may believe that it owns what it owned."""
        return self.state is State.LIVE and now_ms < self.deadline_ms

    def close(self, now_ms: int) -> list[Event]:
        """Ends the session for good, as soon as the engine takes it."""
        self._is_closing = True
        return self._end("closed", now_ms) if self.lease else self._closed()

    def passed(self, now_ms: int) -> list[Event]:
        """To be called at the start of each turn: what the time has done."""
        if self.state in (State.REGISTERING, State.LIVE) and now_ms >= self.deadline_ms:
            return self._end("no renewal was answered in time", now_ms)
        return []

    def next(self, now_ms: int) -> Command | None:
        """What to send now, after `passed`; None while something is in flight or nothing is due."""
        if self._in_flight is not None or self.state is State.CLOSED or now_ms < self.next_at_ms:
            return None
        self._in_flight = self._due(now_ms)
        self._sent_ms = now_ms
        return self._in_flight

    def answered(self, command: Command, answer: Answer, now_ms: int) -> list[Event]:
        """What a command has come to. The answer to one that the session has given up says nothing."""
        if command is not self._in_flight:
            return []
        self._in_flight = None
        if isinstance(answer, LeaseGone):
            return self._gone(now_ms)
        if isinstance(answer, EngineError):
            self.next_at_ms = now_ms + RETRY_MS
            return []
        self.next_at_ms = now_ms
        if isinstance(command, Grant):
            assert isinstance(answer, int), answer
            self.lease, self._is_cluster_there = answer, False
            self._renewed()
            self.state = State.REGISTERING
        elif isinstance(command, KeepAlive):
            self._renewed()
            self._wait()
        elif isinstance(command, Revoke):
            return self._gone(now_ms)
        elif isinstance(answer, Outcome):
            if answer.succeeded:
                return self._began(answer.revision)
            self._is_duplicate = True  # until a look at the key says that it is our own
        elif isinstance(answer, Page):
            is_own = isinstance(command, Read) and command.key == self._key
            return self._looked(answer, now_ms) if is_own else self._looked_for_cluster(answer, now_ms)
        return []

    def _due(self, now_ms: int) -> Command:
        if self.state is State.GRANTING:
            return Grant(self._ttl_ms)
        if self.state is State.REVOKING:
            return Revoke(self.lease)
        if now_ms >= self._renew_at_ms or self.state is State.LIVE:
            return KeepAlive(self.lease)
        if self._is_duplicate:
            return Read(self._key)
        made = self._made
        if made is not None and not self._is_cluster_there:
            return Read(made.key)
        compares = () if made is None else (CreatedAt(made.key, made.created_at),)
        put = Put(self._key, self._registration, self.lease)
        return Transaction((CreatedAt(self._key, ABSENT), *compares), (put,))

    def _renewed(self) -> None:
        self.deadline_ms = self._sent_ms + self._ttl_ms - self._ttl_ms // 10
        self._renew_at_ms = self._sent_ms + self._ttl_ms // 3

    def _wait(self) -> None:
        """Nothing is to do before the next renewal, where the daemon is registered."""
        if self.state is State.LIVE:
            self.next_at_ms = self._renew_at_ms

    def _looked_for_cluster(self, page: Page, now_ms: int) -> list[Event]:
        made = self._made
        assert made is not None
        found = [(entry.created_at, entry.value) for entry in page.entries]
        self._is_cluster_there = found == [(made.created_at, made.value)]
        if self._is_cluster_there:
            return []
        self._wait_longer(now_ms)
        return [ClusterGone()]

    def _wait_longer(self, now_ms: int) -> None:
        self.next_at_ms = min(now_ms + self._ttl_ms // 10, self._renew_at_ms)

    def _looked(self, page: Page, now_ms: int) -> list[Event]:
        self._is_duplicate = False
        if not page.entries:
            self._is_cluster_there = False
            return []  # it went meanwhile, or the cluster did: try again
        entry = page.entries[0]
        if entry.lease == self.lease:
            return self._began(entry.created_at)
        self._wait_longer(now_ms)
        return [Duplicate(entry.value)]

    def _began(self, broker_epoch: int) -> list[Event]:
        self.state = State.LIVE
        self.broker_epoch = broker_epoch
        self._is_duplicate = False
        self._wait()
        return [Began(self.lease, broker_epoch)]

    def _end(self, reason: str, now_ms: int) -> list[Event]:
        was_live = self.state is State.LIVE
        self.state = State.REVOKING
        self._in_flight = None
        self._is_duplicate = False
        self.next_at_ms = now_ms
        return [Ended(reason)] if was_live else []

    def _gone(self, now_ms: int) -> list[Event]:
        events: list[Event] = [Ended("its lease is gone")] if self.state is State.LIVE else []
        self.lease = self.broker_epoch = 0
        self._is_duplicate = False
        self.state = State.GRANTING
        self.next_at_ms = now_ms
        return events + self._closed() if self._is_closing else events

    def _closed(self) -> list[Event]:
        self.state = State.CLOSED
        self._in_flight = None
        return []
