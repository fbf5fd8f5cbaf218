"""Looks at groups, and at what they lie in: partitions, topics, connections, the ledger."""

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Final, Protocol

from coordinator.control.elsewhere import coordinated_elsewhere
from coordinator.control.group_removals import GroupRemoval, GroupRemovals
from coordinator.control.ledger.entry import LedgerEntry
from coordinator.control.member_connections import MemberConnections
from coordinator.control.waits.labels import named
from coordinator.control.waits.recollection import Recollection
from coordinator.control.waits.sight import GroupSight, LogEnds, Offsets, Reach
from coordinator.engine.partition import Partition, PartitionState
from coordinator.group.shard import Shard
from coordinator.group.view import GroupView
from coordinator.machine.outcome import Now
from coordinator.server.server import Server

_MOST_COMPARED: Final = 200
"""Names: comparing two takes a while."""
_MOST_ENTRIES: Final = 1_000
_STANDING: Final[Mapping[PartitionState, str]] = {
    PartitionState.ABSENT: "is not here: it was given away, or is not taken yet",
    PartitionState.LOADING: "is being loaded",
    PartitionState.FAILED: "could not be read, and is out of service: the log of the daemon says why",
}


class Ledger(Protocol):
    """What a wait needs of the ledger."""

    listeners: list[Callable[[LedgerEntry], None]]
    """Called, each, with an entry that has just been closed."""

    def entries(self, group_id: str | None = None, after: int = -1, limit: int = 100) -> list[LedgerEntry]:
        """Those with a greater number, oldest first, open ones at the end."""


class Outlook:
    """See the top of this file. `seq` is the number of the last event that was told."""

    def __init__(
        self,
        server: Server,
        connections: MemberConnections,
        now_of: Callable[[str], Now],
        removals: GroupRemovals,
        ledger: Ledger | None,
    ) -> None:
        """In: the time of a group; the ledger, where there is one."""
        self.seq = -1
        self.recollection = Recollection()
        self.has_ledger = ledger is not None
        self._server = server
        self._connections = connections
        self._now_of = now_of
        self._removals = removals
        self._ledger = ledger

    def sight(self, group_id: str, offsets: Offsets | None = None) -> GroupSight:
        """A group now."""
        partition = self._server.runtime.partition_of(group_id)
        now = self._now_of(group_id)
        machine = partition.machine
        return GroupSight(
            group_id,
            None if machine is None else machine.view(group_id, now),
            self._why_unseen(group_id, partition) if machine is None else None,
            now,
            self.seq,
            self.recollection.of(group_id),
            self,
            offsets,
        )

    def _why_unseen(self, group_id: str, partition: Partition[Shard]) -> str:
        elsewhere = coordinated_elsewhere(self._server.brokers.ownership, partition.name)
        if elsewhere is not None:
            return (
                f"Nothing can be seen of {named(group_id)}: {partition.name}, where it belongs, {elsewhere}."
            )
        standing = _STANDING.get(partition.state, f"is {partition.state.value}")
        loading = f"Loading {partition.name}"
        if partition.state is PartitionState.LOADING and loading in self._server.disk_failures:
            standing = (
                f"cannot be read now ({self._server.disk_failures.reason(loading)}), and is tried again"
            )
        return f"Nothing can be seen of {named(group_id)}: {partition.name}, where it belongs, {standing}."

    # What groups lie in

    def partitions_of(self, topic: str) -> int | None:
        """See `Surroundings`."""
        found = self._server.data_plane.catalogue.get(topic)
        return None if found is None else len(found.partitions)

    def ends_of(self, topic: str, partition: int) -> LogEnds | None:
        """See `Surroundings`."""
        found = self._server.data_plane.here(topic, partition)
        if found is None or found.log is None:
            return None
        return LogEnds(found.log.log_start_offset, found.high_watermark)

    def reach(self, view: GroupView) -> Mapping[str, Reach]:
        """See `Surroundings`."""
        seen = self._connections.seen(view)
        return {
            member.name.member_id: Reach(
                seen.is_connected(member), seen.closed_ms_ago(member), bool(member.connection_id)
            )
            for member in view.members
        }

    def rebalances(self, group_id: str, after: int) -> Sequence[LedgerEntry]:
        """See `Surroundings`."""
        found: list[LedgerEntry] = []
        broken_off: list[LedgerEntry] = []
        while self._ledger is not None:
            entries = self._ledger.entries(group_id, after, _MOST_ENTRIES)
            for entry in entries:
                if entry.result in ("stable", "empty"):
                    found += [*broken_off, entry]
                    broken_off = []
                elif entry.result in ("failed", "overtaken"):
                    broken_off.append(entry)
            if len(entries) < _MOST_ENTRIES or entries[-1].result == "open":
                break
            after = entries[-1].seq
        return found

    def removal(self, group_id: str) -> GroupRemoval | None:
        """See `Surroundings`."""
        return self._removals.find(group_id)

    def similar_groups(self, group_id: str) -> list[str]:
        """See `Surroundings`."""
        known: list[str] = []
        for partition in self._server.runtime.partitions:
            if partition.machine is not None and len(known) < _MOST_COMPARED:
                known += partition.machine.group_ids()[: _MOST_COMPARED - len(known)]
        return get_close_matches(group_id[:100], [one[:100] for one in known], n=3)

    def similar_topics(self, topic: str) -> list[str]:
        """See `Surroundings`."""
        topics = (one.name for one in self._server.data_plane.catalogue if not one.is_internal)
        return get_close_matches(topic, list(islice(topics, _MOST_COMPARED)), n=3)
