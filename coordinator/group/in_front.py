"""Something stands in front of a shard: it hears what that is asked, and may change it, or what comes of it."""

from coordinator.group.group import NowOf
from coordinator.group.requests import Request
from coordinator.group.shard import Shard
from coordinator.group.timer_key import TimerKey
from coordinator.machine.outcome import Context, Now, Outcome


class InFront(Shard):
    """Passes on what a subclass does not take. What only looks at groups goes past it. It is as long-lived as the
    shard: what has to outlive that is not kept here."""

    __slots__ = ("behind",)

    def __init__(self, behind: Shard) -> None:
        self._groups = behind._groups
        self.behind = behind
        self.beat = behind.beat

    def handle(self, request: Request, context: Context, now: Now) -> Outcome:
        """See `Shard`."""
        return self.behind.handle(request, context, now)

    def fire(self, key: TimerKey, now: Now, now_of: NowOf | None = None) -> Outcome:
        """See `Shard`."""
        return self.behind.fire(key, now, now_of)

    def loaded(self, now: Now, now_of: NowOf | None = None) -> Outcome:
        """See `Shard`."""
        return self.behind.loaded(now, now_of)

    def unload(self) -> list[tuple[int, object]]:
        """See `Shard`."""
        return self.behind.unload()
