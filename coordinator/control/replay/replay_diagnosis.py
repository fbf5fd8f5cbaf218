"""Diagnoses a recording: its rebalance ledger, and findings of the oracles, each with the input after which
it held.

Both run as in a daemon, in the time of the recording. A recording has no connections and no log ends. The
ledger therefore omits the last sign of life of a member and its disconnection, and the oracles cannot find
`commit_beyond_end` or a disconnected member.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from coordinator.broker.group_event_log import UNLOGGED_EVENTS
from coordinator.control.diagnosis.commit_observer import CommitObserver
from coordinator.control.diagnosis.oracle import LongCheck, OracleConfig
from coordinator.control.diagnosis.oracle_service import OracleSet
from coordinator.control.diagnosis.violation import OracleFinding, OracleName
from coordinator.control.ledger.ledger_entry import LedgerEntry
from coordinator.control.ledger.rebalance_ledger import RebalanceLedger
from coordinator.control.ledger.rebalance_triggers import LedgerClocks
from coordinator.control.operator_actions import ActionLog
from coordinator.control.replay.recording_file import RecordingFile
from coordinator.control.replay.recording_player import PlayedInput, RecordingPlayer
from coordinator.control.replay.what_if import AddedInput
from coordinator.core.outcome import Now, Outcome
from coordinator.core.time_budget import UnlimitedBudget, run_in_one_step
from coordinator.group.group_shard import GroupShard
from coordinator.group.group_view import GroupView
from coordinator.group.topics_image import TopicsImage

_MAX_BYTES: Final = 64 * 1024 * 1024
_NS_PER_MS: Final = 1_000_000
_MAX_ENTRIES: Final = 1_000_000
_PARTITION: Final = 0


class _NoConnections:
    def silent_ms(self, connection_id: int) -> int | None:
        return None

    def connection_closed_ms_ago(self, connection_id: int) -> int | None:
        return None


class ReplayLedger:
    """A listener of the inputs of a player."""

    def __init__(self, player: RecordingPlayer) -> None:
        self._player = player
        self._now = Now(0, 0)
        self._next = 0
        self._turn = 0
        self._ledger = RebalanceLedger(
            ActionLog(),
            _NoConnections(),
            self._count_partitions,
            LedgerClocks(
                lambda _: self._now, lambda: self._now.monotonic_ms * _NS_PER_MS, lambda: self._turn
            ),
            _MAX_BYTES,
            topics=lambda: player.shard.topics,
        )

    def on_step(self, step: PlayedInput | AddedInput) -> None:
        """Update the diagnosis after a played input."""
        if isinstance(step, PlayedInput) and step.line.kind in ("load", "unload"):
            self._ledger.on_partition_unloaded(_PARTITION)
        if step.outcome is not None:
            self._observe_outcome(step.outcome, step.now)

    def list_entries(self) -> list[LedgerEntry]:
        """Return the ledger entries, oldest first, open ones at the end."""
        return self._ledger.list_entries(limit=_MAX_ENTRIES)

    def _count_partitions(self, topic: str) -> int | None:
        found = self._player.shard.topics.by_name.get(topic)
        return None if found is None else found.partitions

    def _observe_outcome(self, outcome: Outcome, now: Now) -> None:
        self._now, self._turn = now, self._next
        for event in outcome.events:
            if event.group_id == self._player.group_id:
                if type(event) not in UNLOGGED_EVENTS:
                    self._ledger.on_event(_PARTITION, event, self._next, now)
                self._next += 1


_MAX_CHECKS: Final = 3_600
"""The maximum number of checks between two inputs: one per second for an hour, which is longer than any
session."""


@dataclass(frozen=True, slots=True)
class ReplayFinding:
    """A finding, and the number and the result of the input after which it was found."""

    number: int
    played: PlayedInput
    finding: OracleFinding


def find_violations(recorded: RecordingFile, oracle: OracleName, config: OracleConfig) -> list[ReplayFinding]:
    """Return the findings of an oracle in a recording, in order. Raises BadRecording."""
    context = _ReplayOracleContext(config)
    observer = CommitObserver(lambda commit: context.oracles.on_commit(commit))
    player = context.player = RecordingPlayer(
        recorded, lambda *arguments: observer.intercept(GroupShard(*arguments))
    )
    found: list[ReplayFinding] = []
    for line in recorded.lines:
        if line.at_ms is not None:
            context.run_checks_until(line.at_ms)
        played = player.play_line(line)
        context.now = played.now
        for event in () if played.outcome is None else played.outcome.events:
            if event.group_id == recorded.group_id:
                context.oracles.on_event(event)
        context.run_checks_until(context.now.monotonic_ms)
        found += [ReplayFinding(line.number, played, one) for one in context.findings if one.oracle is oracle]
        context.findings.clear()
    return found


class _ReplayOracleContext:
    """An `OracleContext` in the time of a recording."""

    player: RecordingPlayer

    def __init__(self, config: OracleConfig) -> None:
        self.config = config
        self.findings: list[OracleFinding] = []
        self.now = Now(0, 0)
        self._keys: set[Hashable] = set()
        self._due: dict[tuple[OracleName, str], int] = {}
        self.oracles = OracleSet(self)

    def run_checks_until(self, at_ms: int) -> None:
        """Run the checks that are due by then, each at its time.

        Nothing happens to the group meanwhile. After `_MAX_CHECKS` the remaining checks are run at the end, so that
        the work does not grow with the time between two inputs.
        """
        checks = 0
        while due := [(due_ms, key) for key, due_ms in self._due.items() if due_ms <= at_ms]:
            due_ms, (oracle, group_id) = min(due)
            checks += 1
            if checks > _MAX_CHECKS:
                due_ms = at_ms
            del self._due[oracle, group_id]
            ahead_ms = max(0, due_ms - self.now.monotonic_ms)
            self.now = Now(self.now.monotonic_ms + ahead_ms, self.now.wall_ms + ahead_ms)
            self.oracles.check_group(oracle, group_id)

    # `OracleContext`

    @property
    def topics(self) -> TopicsImage:
        return self.player.shard.topics

    def now_ms(self) -> int:
        return self.now.monotonic_ms

    def group_now(self, group_id: str) -> Now:
        return self.now

    def find_group(self, group_id: str) -> GroupView | None:
        return self.player.shard.view_group(group_id, self.now)

    def find_log_end(self, topic: str, partition: int) -> int | None:
        return None

    def find_open_connections(self) -> set[int]:
        return set()

    def report_finding(self, finding: OracleFinding) -> None:
        if finding.key not in self._keys:
            self._keys.add(finding.key)
            self.findings.append(finding)

    def report_repeated(self, key: Hashable) -> bool:
        return key in self._keys

    def schedule_check(self, oracle: OracleName, group_id: str, delay_ms: int) -> None:
        due_ms = self.now_ms() + max(1, delay_ms)
        self._due[oracle, group_id] = min(due_ms, self._due.get((oracle, group_id), due_ms))

    def cancel_check(self, oracle: OracleName, group_id: str) -> None:
        self._due.pop((oracle, group_id), None)

    def run_long_check(self, check: LongCheck) -> None:
        run_in_one_step(check(UnlimitedBudget()))
