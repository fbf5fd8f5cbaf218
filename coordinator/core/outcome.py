"""The contract of a pure machine: what goes in, what comes out, and in what order.

A machine (the groups of a partition, or its transactions) is a function of its inputs. It knows no clock, disk,
socket or random number; the runtime gives it the time. Its `Outcome` says what to write, to answer and to wait for.

Handlers compute on the old state, collect the facts that they mean to write, and call
`OutcomeBuilder.write_fact` for them last: a request that is refused half-way has changed nothing. An error that
leaves a handler drops all that the call meant to write, reply or arm. Since facts may be applied by then, the
runtime loads the machine again.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from coordinator.core.shared_types import NO_NODE, Node


class Now(NamedTuple):
    """The time of a call: `monotonic_ms` for timers, `wall_ms` (since the epoch) for records."""

    monotonic_ms: int
    wall_ms: int


class Context(Struct):
    """Who asks. `waiter` is where the reply goes; `client_host` has Java's leading slash ("/127.0.0.1");
    `connection_id` is its connection's number, 0 where that does not matter;
    `new_member_uuid` is the text of a fresh random UUID, needed when a JoinGroup has no member id; `node` is this
    broker as the asker should know it, needed where an answer names it; `may_read` tells whether the asker may
    read from a topic, needed by a Fetch where not everybody may (None); `may_describe` whether it may know of one,
    needed where it names topics by a regular expression and by a DeleteTopics; `may_delete` whether it may delete
    one; `may_create` whether it may create one, needed by a Metadata."""

    waiter: int
    api_version: int
    client_id: str
    client_host: str
    new_member_uuid: str = ""
    node: Node = NO_NODE
    connection_id: int = 0
    may_read: Callable[[str], bool] | None = None
    may_describe: Callable[[str], bool] | None = None
    may_delete: Callable[[str], bool] | None = None
    may_create: Callable[[str], bool] | None = None


class Fact(Struct):
    """A durable fact for the machine's internal topic; a value of None is a tombstone. `value_version` is that of
    the record schema in which the value is written."""

    key: Any
    value: Any
    value_version: int = 0


class EncodedFact(NamedTuple):
    """Key and value of a record; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


class MachineEvent(Struct):
    """Something worth telling happened: observers make log lines, metrics and the ledger of it."""


class Message(NamedTuple):
    """A request to another machine: that of the partition of `topic` to which `key` belongs, or to whoever receives
    what goes to `topic`. Nobody is told what came of it; the other answers, if at all, with a message of its
    own."""

    topic: str
    key: str
    request: object


class Work(NamedTuple):
    """Something that a machine cannot do itself: it is neither pure nor quick. `name` says who does it."""

    name: str
    argument: object


class WorkDone(NamedTuple):
    """What came of work: the result, or why there is none."""

    work: Work
    result: object
    error: str | None = None


NO_PRODUCER_ID: Final = -1
"""Of a fact that belongs to no transaction."""


class TransactionOwner(NamedTuple):
    """Whose transaction the records of an outcome are of: they become a batch of their own."""

    producer_id: int
    producer_epoch: int


class TransactionMarker(NamedTuple):
    """The end of a producer's transaction, to be written behind everything before it: a control batch."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_committed: bool


NO_TIMERS: Final[Mapping[Any, int | None]] = MappingProxyType({})


class Outcome(Struct):
    """The result of one call. `replies` pairs waiters with response messages; `timers` maps keys (of the machine's
    own type) to absolute deadlines in monotonic milliseconds, None cancels; `events` are of the machine's own
    subclasses of `MachineEvent`."""

    records: Sequence[Fact] = ()
    replies: Sequence[tuple[int, object]] = ()
    timers: Mapping[Any, int | None] = NO_TIMERS
    events: Sequence[Any] = ()
    messages: Sequence[Message] = ()
    work: Sequence[Work] = ()
    in_transaction: TransactionOwner | None = None
    marker: TransactionMarker | None = None


class OutcomeBuilder(Struct, eq=False):
    """Collects what one call of a machine does. A fact is applied to the durable state as it is written (`apply`,
    which takes the producer of its transaction too); of several settings of one timer the last one counts."""

    now: Now
    apply: Callable[[Fact, int], None]
    records: list[Fact] = field(default_factory=list)
    replies: list[tuple[int, object]] = field(default_factory=list)
    timers: dict[Hashable, int | None] = field(default_factory=dict)
    events: list[MachineEvent] = field(default_factory=list)
    messages: Sequence[Message] = ()
    work: Sequence[Work] = ()
    in_transaction: TransactionOwner | None = None
    """Whose transaction all facts of this call are of."""
    marker: TransactionMarker | None = None
    """The end of a transaction; who sets it applies it to the durable state."""

    def write_fact(self, fact: Fact) -> None:
        """Make a fact durable, and true at once."""
        in_transaction = self.in_transaction
        self.apply(fact, NO_PRODUCER_ID if in_transaction is None else in_transaction.producer_id)
        self.records.append(fact)

    def reply(self, waiter: int, message: object) -> None:
        """Answer a waiter: the one that this call is about, or one that was parked."""
        self.replies.append((waiter, message))

    def arm_timer(self, key: Hashable, deadline_ms: int) -> None:
        """Have `key` fired at a monotonic time; an earlier deadline of it is replaced."""
        self.timers[key] = deadline_ms

    def cancel_timer(self, key: Hashable) -> None:
        """Have `key` not fired any more."""
        self.timers[key] = None

    def add_event(self, event: MachineEvent) -> None:
        """State a fact for whoever observes."""
        self.events.append(event)

    def add_message(self, message: Message) -> None:
        """Put a request to another machine, once this call is durable."""
        self.messages = [*self.messages, message]

    def add_work(self, work: Work) -> None:
        """Have something done whose result comes back as a request."""
        self.work = [*self.work, work]

    def build(self) -> Outcome:
        """What the call amounts to."""
        return Outcome(
            self.records,
            self.replies,
            self.timers,
            self.events,
            self.messages,
            self.work,
            self.in_transaction,
            self.marker,
        )
