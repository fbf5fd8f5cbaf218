"""The contract of a pure machine: its inputs, its outcome, and their order.

A machine (the groups of a partition, or its transactions) is a function of its inputs. It uses no clock, disk,
socket or random number; the runtime passes the time. Its `Outcome` lists the records to write, the replies to
send and the timers to set.

Handlers compute on the old state, collect the facts to write, and call `OutcomeBuilder.write_fact` for them last.
So a request that is rejected during the computation has changed nothing. An exception from a handler drops all
records, replies and timers of the call. Since facts may be applied by then, the runtime loads the machine again.
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
    """The sender of a request, and the environment of the call.

    - `waiter` is the destination of the reply.
    - `client_host` has Java's leading slash ("/127.0.0.1").
    - `connection_id` is the number of its connection, 0 if irrelevant.
    - `new_member_uuid` is the text of a fresh random UUID, for a JoinGroup without a member id.
    - `node` is this broker as advertised to the client, for responses that name it.
    - `may_read` returns whether the client may read from a topic, for a Fetch; None: no restriction.
    - `may_describe` returns whether it may describe a topic, for regular expressions and DeleteTopics.
    - `may_delete` returns whether it may delete a topic.
    - `may_create` returns whether it may create a topic, for a Metadata.
    """

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
    """A durable fact for the machine's internal topic; a value of None is a tombstone. `value_version` is the
    version of the value's record schema.
    """

    key: Any
    value: Any
    value_version: int = 0


class EncodedFact(NamedTuple):
    """Key and value of a record; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


class MachineEvent(Struct):
    """Base of the events of machines. Observers turn them into log lines, metrics and the ledger."""


class Message(NamedTuple):
    """A request to another machine: the partition of `topic` to which `key` belongs, or the receiver registered for
    `topic`. The sender gets no reply; the receiver may answer with a message of its own.
    """

    topic: str
    key: str
    request: object


class Work(NamedTuple):
    """Work that is neither pure nor quick, so that a machine delegates it. `name` identifies the worker."""

    name: str
    argument: object


class WorkDone(NamedTuple):
    """The end of delegated work: its result, or the error that prevented one."""

    work: Work
    result: object
    error: str | None = None


NO_PRODUCER_ID: Final = -1
"""The producer id of a fact outside of transactions."""


class TransactionOwner(NamedTuple):
    """The producer of the transaction to which the records of an outcome belong. These records become a batch of
    their own."""

    producer_id: int
    producer_epoch: int


class TransactionMarker(NamedTuple):
    """The end of a producer's transaction. It becomes a control batch after all earlier records."""

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

    def convert_deadlines(self, convert: Callable[[Any, int], int | None]) -> None:
        """Replace each deadline. `convert` takes the key of the timer and its deadline; None cancels."""
        self.timers = {
            key: None if deadline_ms is None else convert(key, deadline_ms)
            for key, deadline_ms in self.timers.items()
        }


class OutcomeBuilder(Struct, eq=False):
    """Collects the outcome of one call of a machine. A fact is applied to the durable state when it is written:
    `apply` takes the fact and the producer id of its transaction. The last setting of a timer wins.
    """

    now: Now
    apply: Callable[[Fact, int], None]
    records: list[Fact] = field(default_factory=list)
    replies: list[tuple[int, object]] = field(default_factory=list)
    timers: dict[Hashable, int | None] = field(default_factory=dict)
    events: list[MachineEvent] = field(default_factory=list)
    messages: Sequence[Message] = ()
    work: Sequence[Work] = ()
    in_transaction: TransactionOwner | None = None
    """The transaction that all facts of this call belong to."""
    marker: TransactionMarker | None = None
    """The end of a transaction. The setter must also apply it to the durable state."""

    def write_fact(self, fact: Fact) -> None:
        """Write a fact and apply it at once."""
        if self.in_transaction is None:
            self.apply(fact, NO_PRODUCER_ID)
        else:
            self.apply(fact, self.in_transaction.producer_id)
        self.records.append(fact)

    def reply(self, waiter: int, message: object) -> None:
        """Answer a waiter: the one of this call, or an earlier one that is blocked."""
        self.replies.append((waiter, message))

    def arm_timer(self, key: Hashable, deadline_ms: int) -> None:
        """Arm the timer `key` for a monotonic time (ms); replaces its earlier deadline."""
        self.timers[key] = deadline_ms

    def cancel_timer(self, key: Hashable) -> None:
        """Cancel the timer `key`."""
        self.timers[key] = None

    def add_event(self, event: MachineEvent) -> None:
        """Add an event for the observers."""
        self.events.append(event)

    def add_message(self, message: Message) -> None:
        """Send a request to another machine, once this call is durable."""
        self.messages = [*self.messages, message]

    def add_work(self, work: Work) -> None:
        """Start work. Its result comes back as a request."""
        self.work = [*self.work, work]

    def build(self) -> Outcome:
        """Return the outcome of the call."""
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
