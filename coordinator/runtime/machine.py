"""Interfaces of the machines that the engine runs, and the definition of an internal topic.

A machine is pure: `coordinator/core/outcome.py` has its contract. An internal topic adds the codec of its records
and the error responses for requests without a machine.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, Protocol, TypeVar

from msgspec import Struct

from coordinator.core.outcome import NO_PRODUCER_ID, Context, EncodedFact, Fact, Now, Outcome
from coordinator.core.shared_types import LogFlush
from protocol.error_codes import ErrorCode
from storage.log import PartitionLog


class DurableSnapshot(Protocol):
    """An immutable view of a machine's durable state."""

    def __len__(self) -> int:
        """Return the number of keys with a value."""

    def facts(self) -> Iterator[Fact]:
        """Yield the facts that build this state from an empty one."""


class Machine(Protocol):
    """The machine of one partition. Every call returns without waiting; see `coordinator/core/outcome.py`."""

    def handle(self, request: Any, context: Context, now: Now) -> Outcome:
        """Handle a request. This outcome or a later one answers its waiter, exactly once."""

    def fire_timer(self, key: Any, now: Now) -> Outcome:
        """Handle an expired timer. A timer may also fire after its deadline was moved."""

    def replay(self, fact: Fact, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply a fact of the log to the durable state. A fact of a transaction stays pending until its end."""

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """Apply the marker at the end of a producer's transaction."""

    @property
    def has_open_transactions(self) -> bool:
        """Whether facts wait for the end of their transaction."""

    def on_loaded(self, now: Now) -> Outcome:
        """Finish the load after the last fact. Raises ValueError if the facts are inconsistent."""

    def unload(self) -> list[tuple[int, object]]:
        """Unload the machine. Return the answers for all waiting requests, by waiter."""

    @property
    def durable_keys(self) -> int:
        """Number of keys with a value in the log."""

    def copy_durable(self) -> DurableSnapshot:
        """Return a view of the durable state, to be written while the machine continues. No transaction is open."""


class HeartbeatMachine(Machine, Protocol):
    """A machine with a fast path for frequent requests that change nothing: heartbeats."""

    def try_heartbeat(self, request: Any, context: Context, monotonic_ms: int, /) -> object | None:
        """Return the response to a heartbeat that changes nothing else, at a monotonic group time in milliseconds.
        Return None, without an effect, if `handle` has to process it.
        """


Encode = Callable[[Fact], EncodedFact]


class RecordCodec(Protocol):
    """The encoding of a machine's facts in its internal topic."""

    @property
    def contents(self) -> str:
        """Content type of a state file. A load ignores files with another type."""

    def encode(self, fact: Fact) -> EncodedFact:
        """Encode a fact for the log."""

    def encoder(self) -> Encode:
        """Return an encoder of facts for one partition; it may cache keys that come repeatedly."""

    def canonical_key(self, key: bytes) -> bytes | None:
        """Return the canonical form of a key; None for a key of another machine. Raises Malformed."""

    def decode(self, key: bytes, value: bytes) -> Fact:
        """Decode a fact of the log. Raises Malformed."""


DAY_MS: Final = 24 * 60 * 60 * 1000

M = TypeVar("M", bound=Machine)
B = TypeVar("B", bound=HeartbeatMachine)

BuildErrorResponse = Callable[[Any, int, ErrorCode], object]
"""Takes a request, its API version and an error; returns the error response."""


class InternalTopic(Struct, Generic[M], frozen=True):
    """An internal topic, and the machine of each of its partitions."""

    name: str
    partitions: int
    flush: LogFlush
    compression: int
    """Kafka's number of the codec for new batches."""
    codec: RecordCodec
    new_machine: Callable[[int, int], M]
    """Takes the number of a partition and the leader epoch of its log. Called at each load."""
    build_error_response: BuildErrorResponse
    open_log: Callable[[int], PartitionLog]
    """Takes the number of a partition. Called in a thread."""
    logger: str
    """Name of the logger for the engine's log lines about this topic."""
    contents_label: str
    """Name of a partition's contents in these lines."""
    is_read_only: Callable[[Any], bool] = lambda _: False
    """Returns whether a request never writes. A machine with an unwritable log accepts such requests."""
    starts_leader_epochs: bool = False
    """Whether each load that makes a partition writable begins a leader epoch, durably before the machine is in
    service: no two machines that could write have the same epoch.
    """
    producer_expiration_ms: int = DAY_MS
    """Idle time in milliseconds after which a producer without an open transaction is removed."""
