"""A ledger with the entries that a test puts into it."""

from collections.abc import Callable

from coordinator.control.ledger.ledger_entry import Actor, ActorSilence, EntryResult, LedgerEntry
from tests.control.diagnosis.staged_group import GROUP


class FixedLedger:
    """A `RebalanceSource`."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[LedgerEntry], None]] = []
        self.kept: list[LedgerEntry] = []

    def list_entries(
        self, group_id: str | None = None, after: int = -1, limit: int = 100
    ) -> list[LedgerEntry]:
        return [entry for entry in self.kept if entry.group_id == group_id and entry.seq > after][:limit]

    def close(self, entry: LedgerEntry) -> None:
        """A rebalance has come to its end."""
        self.kept.append(entry)
        for listener in self.listeners:
            listener(entry)


def entry(
    seq: int,
    cause: str,
    client_id: str,
    *,
    result: EntryResult = EntryResult.STABLE,
    generation_id: int = 1,
) -> LedgerEntry:
    """Return the entry of a rebalance."""
    actor = Actor(
        member_id=f"{client_id}-1",
        group_instance_id=None,
        client_id=client_id,
        client_host="/127.0.0.1",
        last_heard_ms_ago=None,
        real=ActorSilence(last_heard_ms_ago=None, connection_closed_ms_ago=None),
    )
    return LedgerEntry(
        seq=seq,
        group_id=GROUP,
        generation_id=generation_id,
        result=result,
        cause=cause,
        reason="",
        client_reason="",
        actor=actor,
        also=[],
        attempts=1,
        started_ms=0,
        group_time_ms=0,
        join_ms=1,
        sync_ms=0,
        total_ms=1,
        real=None,
        from_state="Stable",
        protocol_name="range",
        leader=None,
        leader_id=None,
        members=[],
        members_left_out=0,
        members_count=0,
        gone_count=0,
        awaited_longest=None,
        unowned=[],
        unowned_count=0,
    )
