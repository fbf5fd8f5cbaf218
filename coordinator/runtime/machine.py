"""What the engine runs, and what it has to be told about it.

A machine is pure: `coordinator/core/outcome.py` has its contract. Beside it stands how its records are written,
and what a request is told that cannot be put to it.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from msgspec import Struct

from coordinator.core.outcome import NO_PRODUCER_ID, Context, EncodedFact, Fact, Now, Outcome
from coordinator.core.shared_types import LogFlush
from protocol.error_codes import ErrorCode
from storage.log import PartitionLog

if TYPE_CHECKING:
    from coordinator.runtime.replication import Replication


class DurableSnapshot(Protocol):
    """What the log of a machine says, at one moment."""

    def __len__(self) -> int:
        """The number of keys that have a value."""

    def facts(self) -> Iterator[Fact]:
        """Facts that make this state of an empty one."""


class Machine(Protocol):
    """The machine of one partition. Every call returns without waiting; see `coordinator/core/outcome.py`."""

    def handle(self, request: Any, context: Context, now: Now) -> Outcome:
        """Acts on a request. Its waiter is answered by this outcome or by a later one, exactly once."""

    def fire_timer(self, key: Any, now: Now) -> Outcome:
        """Acts on a timer whose deadline has passed; one that was moved may fire all the same."""

    def replay(self, fact: Fact, producer_id: int = NO_PRODUCER_ID) -> None:
        """Applies a fact of the log to the durable state; one of a transaction waits there for its end."""

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """Applies the marker at the end of a producer's transaction."""

    @property
    def has_open_transactions(self) -> bool:
        """Whether facts wait for the end of their transaction."""

    def on_loaded(self, now: Now) -> Outcome:
        """The last fact was replayed. Raises ValueError when what the log says cannot be."""

    def unload(self) -> list[tuple[int, object]]:
        """Gives everything up: an answer for everybody who is parked."""

    @property
    def durable_keys(self) -> int:
        """How many keys have a value in the log."""

    def copy_durable(self) -> DurableSnapshot:
        """What the log says, as it is now: to be written down while the machine goes on. No transaction is open."""


class HeartbeatMachine(Machine, Protocol):
    """A machine that is asked again and again for nothing but a sign that all is well: a heartbeat."""

    def try_heartbeat(self, request: Any, context: Context, monotonic_ms: int, /) -> object | None:
        """Takes a request, at a monotonic group time in milliseconds, from which nothing follows but its answer.
        None: nothing was done, and `handle` has to be asked."""


Encode = Callable[[Fact], EncodedFact]


class RecordCodec(Protocol):
    """How the facts of a machine are written in its internal topic."""

    @property
    def contents(self) -> str:
        """What a state file says it holds. One that says something else is not read."""

    def encode(self, fact: Fact) -> EncodedFact:
        """A fact as the log takes it."""

    def encoder(self) -> Encode:
        """Return an encoder of facts for one partition; it may cache keys that come repeatedly."""

    def canonical_key(self, key: bytes) -> bytes | None:
        """The one form of a key that may be written in several; None for one that is of another machine's. Raises
        Malformed."""

    def decode(self, key: bytes, value: bytes) -> Fact:
        """A fact of the log. Raises Malformed."""


DAY_MS: Final = 24 * 60 * 60 * 1000

M = TypeVar("M", bound=Machine)
B = TypeVar("B", bound=HeartbeatMachine)

BuildErrorResponse = Callable[[Any, int, ErrorCode], object]
"""Takes a request, its api version and an error; gives the response that says so."""


class InternalTopic(Struct, Generic[M], frozen=True):
    """An internal topic, and the machine that each of its partitions holds."""

    name: str
    partitions: int
    flush: LogFlush
    compression: int
    """Of the batches that are written: Kafka's number of a codec."""
    codec: RecordCodec
    new_machine: Callable[[int, int], M]
    """Takes the number of a partition and the leader epoch of its log. Called again whenever one is read from the
    log."""
    build_error_response: BuildErrorResponse
    open_log: Callable[[int], PartitionLog]
    """Takes the number of a partition. Called in a thread."""
    logger: str
    """The name under which the engine tells of trouble."""
    contents_label: str
    """What a partition holds, for these lines."""
    is_read_only: Callable[[Any], bool] = lambda _: False
    """Whether nothing is ever written for a request: it is put to a machine whose log cannot be written, too."""
    starts_leader_epochs: bool = False
    """Whether a leader epoch of the log begins each time that a partition is read for good, durably before there is
    a machine: no two machines that could write have the same."""
    replication: "Replication | None" = None
    """Who brings what partitions append to the engine that has their logs; None where the disk has them."""
    producer_expiration_ms: int = DAY_MS
    """After how long without a record a producer is forgotten that has no transaction open."""
