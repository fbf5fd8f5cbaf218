"""The outcome of one call while it is being made."""

from collections.abc import Callable

from coordinator.group.events import Event
from coordinator.group.outcome import Now, Outcome, Record, TimerKey


class Turn:
    """Collects what one call of the core does. A record is applied to the durable state as it is written;
    of several settings of one timer the last one counts."""

    __slots__ = ("_apply", "events", "now", "records", "replies", "timers")

    def __init__(self, now: Now, apply: Callable[[Record], None]) -> None:
        self.now = now
        self._apply = apply
        self.records: list[Record] = []
        self.replies: list[tuple[int, object]] = []
        self.timers: dict[TimerKey, int | None] = {}
        self.events: list[Event] = []

    def write(self, record: Record) -> None:
        """Make a fact durable, and true at once."""
        self._apply(record)
        self.records.append(record)

    def reply(self, waiter: int, message: object) -> None:
        """Answer a waiter: the one that this call is about, or one that was parked."""
        self.replies.append((waiter, message))

    def arm(self, key: TimerKey, deadline_ms: int) -> None:
        """Have `key` fired at a monotonic time; an earlier deadline of it is replaced."""
        self.timers[key] = deadline_ms

    def cancel(self, key: TimerKey) -> None:
        """Have `key` not fired any more."""
        self.timers[key] = None

    def tell(self, event: Event) -> None:
        """State a fact for the ledger."""
        self.events.append(event)

    def outcome(self) -> Outcome:
        """What the call amounts to."""
        return Outcome(self.records, self.replies, self.timers, self.events)
