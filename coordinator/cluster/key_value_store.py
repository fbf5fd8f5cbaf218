"""What a cluster asks of the system that replicates its keys: a sorted map with revisions, transactions and leases.

Each change of the map has a revision, a number that grows by one. A key knows the revision at which it came into
being and the one at which it was last written. A transaction compares such revisions and then does all of its
operations, or none. Keys that were put under a lease go when the lease ends.

Every call is *one try*. `Unavailable` means that nobody can tell what became of it: it may have happened, may yet
happen, or never will. Who asks must know why asking again is harmless; that knowledge is in the pure cores
(`append`, `claims`, `session`), and an engine never repeats anything by itself. The try after a failed one goes
to another endpoint.
"""

from collections.abc import AsyncIterator
from typing import Final, NamedTuple, Protocol

ABSENT: Final = 0
"""The revision of a key that does not exist."""


class EngineError(Exception):
    """What was asked was not answered as hoped for."""


class Unavailable(EngineError):
    """No answer within the deadline, or none that says what became of the request."""


class NoSpace(EngineError):
    """The engine is full, and refuses to write until somebody makes room."""


class Denied(EngineError):
    """The user may not do that, or is not known."""


class TooLarge(EngineError):
    """The request is larger than the engine takes. Nothing of it happened."""


class LeaseGone(EngineError):
    """The lease ended, and its keys with it."""


class Compacted(EngineError):
    """The revisions that were asked for are forgotten: read what there is now and watch from there on."""


class WrittenAt(NamedTuple):
    """Holds while the last write of a key is the one at `revision` (ABSENT: while there is no such key)."""

    key: bytes
    revision: int


class CreatedAt(NamedTuple):
    """Holds while a key is the one that came into being at `revision` (ABSENT: while there is no such key)."""

    key: bytes
    revision: int


class Put(NamedTuple):
    """Writes a key; `lease` 0 keeps it until somebody deletes it."""

    key: bytes
    value: bytes
    lease: int = 0


class Delete(NamedTuple):
    """Deletes the keys from `key` on, below `end`; without `end` that one key."""

    key: bytes
    end: bytes | None = None


class Transaction(NamedTuple):
    """All operations happen if all comparisons hold, otherwise none. Without operations it only proves something.

    A proof is as linearizable as a write: what it says was true at a moment between question and answer.
    """

    compares: tuple[WrittenAt | CreatedAt, ...]
    operations: tuple[Put | Delete, ...] = ()


class Outcome(NamedTuple):
    """What became of a transaction."""

    succeeded: bool
    revision: int
    """Of what it wrote, if it did; otherwise the newest of the map."""


class Read(NamedTuple):
    """Reads keys from `key` on, below `end` (without `end` that one key), in their order. Linearizable."""

    key: bytes
    end: bytes | None = None
    limit: int = 0
    """How many at the most, 0 for all."""
    revision: int = 0
    """As the map was then, 0 for now. Later pages name the revision of the first."""


class Entry(NamedTuple):
    """A key as it was read."""

    key: bytes
    value: bytes
    created_at: int
    written_at: int
    lease: int


class Page(NamedTuple):
    """What a read found."""

    entries: tuple[Entry, ...]
    has_more: bool
    revision: int


class Changes(NamedTuple):
    """What one revision changed, as far as it is watched."""

    revision: int
    written: tuple[Entry, ...]
    deleted: tuple[bytes, ...]


class Engine(Protocol):
    """A connection to the engine. Every method may raise Unavailable, Denied and what its text names."""

    async def transact(self, transaction: Transaction) -> Outcome:
        """Raises NoSpace, TooLarge; LeaseGone where a put names a lease that ended."""

    async def read(self, read: Read) -> Page:
        """Raises Compacted."""

    async def grant(self, ttl_s: int) -> int:
        """A new lease, which ends `ttl_s` after the engine last heard of it. Raises NoSpace."""

    async def keep_alive(self, lease: int) -> None:
        """Raises LeaseGone."""

    async def revoke(self, lease: int) -> None:
        """Ends a lease; its keys go. One that is gone already is no error."""

    def watch(self, begin: bytes, end: bytes, revision: int) -> AsyncIterator[Changes]:
        """Changes of the keys from `begin` on, below `end`, from `revision` on, each once and in order.

        It survives the loss of an endpoint by itself. Raises Compacted.
        """

    async def close(self) -> None:
        """Lets go of the connections; leases go on until they end."""


def end_of(prefix: bytes) -> bytes:
    """The end of the range of all keys that begin with `prefix`, which is not empty and does not end with 0xff."""
    assert prefix, "a range of everything was asked for"
    assert prefix[-1] < 0xFF, prefix
    return prefix[:-1] + bytes([prefix[-1] + 1])
