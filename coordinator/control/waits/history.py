"""The condition on what has happened: a rebalance that came to an end, however short it was."""

from coordinator.control.ledger.entry import LedgerEntry
from coordinator.control.waits.condition import BaseCondition, Unmet
from coordinator.control.waits.labels import named
from coordinator.control.waits.sight import GroupSight

_MOST_LISTED = 20


class RebalancedAfter(BaseCondition):
    """The ledger has a rebalance that ended after the event of a number, of a cause and by a client where those are
    asked for."""

    def __init__(self, cause: str | None, client: str | None, after: int) -> None:
        self._cause = cause
        self._client = client
        self._after = after
        self._looked_to = after
        self._found: LedgerEntry | None = None

    def _fits(self, entry: LedgerEntry) -> bool:
        if self._cause not in (None, entry.cause):
            return False
        if self._client is None:
            return True
        actor = entry.actor
        return actor is not None and self._client in (
            actor.client_id,
            actor.group_instance_id,
            actor.member_id,
        )

    def holds(self, sight: GroupSight) -> bool:
        """See `Condition`. Once found it stays so, and what was looked at is not looked at again."""
        if self._found is None:
            entries = sight.rebalances(self._looked_to)
            self._found = next(filter(self._fits, entries), None)
            if entries:
                self._looked_to = entries[-1].seq
        return self._found is not None

    def unmet(self, sight: GroupSight) -> Unmet:
        """See `Condition`."""
        wanted = {"cause": self._cause, "client": self._client, "after": self._after}
        is_ = [
            {
                "seq": entry.seq,
                "cause": entry.cause,
                "client": None if entry.actor is None else entry.actor.client_id,
            }
            for entry in sight.rebalances(self._after)[-_MOST_LISTED:]
        ]
        return Unmet(condition="rebalanced", wanted=wanted, is_=is_)

    def why(self, sight: GroupSight) -> str:
        """See `Condition`."""
        wanted = f"with the cause {self._cause}" if self._cause is not None else ""
        if self._client is not None:
            wanted += f"{' ' if wanted else ''}by {named(self._client)}"
        since = f" after event {self._after}" if self._after >= 0 else ""
        others = sight.rebalances(self._after)
        said = f"No rebalance {wanted}{' ' if wanted else ''}has ended{since}"
        if others:
            said += f"; the last that did was generation {others[-1].generation_id} ({_words(others[-1])})"
        return said

    def achieved(self, sight: GroupSight) -> str:
        """See `Condition`."""
        entry = self._found
        assert entry is not None
        return f"rebalanced to generation {entry.generation_id} ({_words(entry)})"


def _words(entry: LedgerEntry) -> str:
    by = "" if entry.actor is None else f", by {named(entry.actor.client_id)}"
    return f"{entry.cause}{by}"
