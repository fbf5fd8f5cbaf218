"""What goes into a machine besides the request, and what comes out of it.

The contract of an `Outcome`, for whoever runs the machine:

1. append `records`, atomically and in order, or the `marker`; they are applied to memory already. With
   `in_transaction` the records are a batch of that transaction, which nothing else joins;
2. send `replies`, and deliver `messages`, once the log is durable to this point (a heartbeat's need not wait);
3. set or cancel `timers`; call `fire` with the key when its deadline has passed;
4. begin `work`; hand its result in as a request, `WorkDone`, if the machine is still the same by then;
5. number the `events` and hand them to whoever wants to know.

When the append fails, the machine is thrown away and loaded again from disk: there is no undo.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from msgspec import Struct

from coordinator.names import NOWHERE, Node


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
    one."""

    waiter: int
    api_version: int
    client_id: str
    client_host: str
    new_member_uuid: str = ""
    node: Node = NOWHERE
    connection_id: int = 0
    may_read: Callable[[str], bool] | None = None
    may_describe: Callable[[str], bool] | None = None
    may_delete: Callable[[str], bool] | None = None


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


class Event(Struct):
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


class InTransaction(NamedTuple):
    """Whose transaction the records of an outcome are of: they become a batch of their own."""

    producer_id: int
    producer_epoch: int


class Marker(NamedTuple):
    """The end of a producer's transaction, to be written behind everything before it: a control batch."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_committed: bool


NO_TIMERS: Final[Mapping[Any, int | None]] = MappingProxyType({})


class Outcome(Struct):
    """The result of one call. `replies` pairs waiters with response messages; `timers` maps keys (of the machine's
    own type) to absolute deadlines in monotonic milliseconds, None cancels; `events` are of the machine's own
    subclasses of `Event`. See the module's text for the contract."""

    records: Sequence[Fact] = ()
    replies: Sequence[tuple[int, object]] = ()
    timers: Mapping[Any, int | None] = NO_TIMERS
    events: Sequence[Any] = ()
    messages: Sequence[Message] = ()
    work: Sequence[Work] = ()
    in_transaction: InTransaction | None = None
    marker: Marker | None = None
