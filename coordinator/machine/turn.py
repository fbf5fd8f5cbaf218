"""The outcome of one call of a machine while it is being made."""

from collections.abc import Callable, Hashable, Sequence

from msgspec import Struct, field

from coordinator.machine.outcome import (
    NO_PRODUCER_ID,
    Event,
    Fact,
    InTransaction,
    Marker,
    Message,
    Now,
    Outcome,
    Work,
)


class Turn(Struct, eq=False):
    """Collects what one call of a machine does. A fact is applied to the durable state as it is written (`apply`,
    which takes the producer of its transaction too); of several settings of one timer the last one counts."""

    now: Now
    apply: Callable[[Fact, int], None]
    records: list[Fact] = field(default_factory=list)
    replies: list[tuple[int, object]] = field(default_factory=list)
    timers: dict[Hashable, int | None] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    messages: Sequence[Message] = ()
    work: Sequence[Work] = ()
    in_transaction: InTransaction | None = None
    """Whose transaction all facts of this call are of."""
    marker: Marker | None = None
    """The end of a transaction; who sets it applies it to the durable state."""

    def write(self, fact: Fact) -> None:
        """Make a fact durable, and true at once."""
        in_transaction = self.in_transaction
        self.apply(fact, NO_PRODUCER_ID if in_transaction is None else in_transaction.producer_id)
        self.records.append(fact)

    def reply(self, waiter: int, message: object) -> None:
        """Answer a waiter: the one that this call is about, or one that was parked."""
        self.replies.append((waiter, message))

    def arm(self, key: Hashable, deadline_ms: int) -> None:
        """Have `key` fired at a monotonic time; an earlier deadline of it is replaced."""
        self.timers[key] = deadline_ms

    def cancel(self, key: Hashable) -> None:
        """Have `key` not fired any more."""
        self.timers[key] = None

    def tell(self, event: Event) -> None:
        """State a fact for whoever observes."""
        self.events.append(event)

    def send(self, message: Message) -> None:
        """Put a request to another machine, once this call is durable."""
        self.messages = [*self.messages, message]

    def begin(self, work: Work) -> None:
        """Have something done whose result comes back as a request."""
        self.work = [*self.work, work]

    def outcome(self) -> Outcome:
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
