"""Oracles over groups of scenarios and simulations, with a virtual time."""

from collections import Counter
from collections.abc import Callable, Hashable

from coordinator.control.diagnosis.oracle import LongCheck, OracleConfig
from coordinator.control.diagnosis.oracle_service import OracleSet
from coordinator.control.diagnosis.violation import OracleFinding, OracleName
from coordinator.core.outcome import Now, Outcome
from coordinator.core.time_budget import UnlimitedBudget, run_in_one_step
from coordinator.group.group_shard import GroupShard
from coordinator.group.group_view import GroupView
from coordinator.group.topics_image import TopicsImage


class VirtualOracleContext:
    """An `OracleContext` that gets the outcomes of the core. Without connections, all members are disconnected."""

    def __init__(
        self, shard: Callable[[], GroupShard | None], now: Callable[[], Now], topics: TopicsImage
    ) -> None:
        self.config = OracleConfig(oracle_orphan_ms=5_000, oracle_stuck_ms=30_000, oracle_commits=False)
        self.topics = topics
        self.findings: list[OracleFinding] = []
        self.held_checks: list[LongCheck] | None = None
        """Long checks that wait for their turn; None: they run at once."""
        self._shard = shard
        self._now = now
        self._due: dict[tuple[OracleName, str], int] = {}
        self.rules = OracleSet(self)

    @property
    def counts(self) -> Counter[OracleName]:
        """What was found, by oracle."""
        return Counter(finding.oracle for finding in self.findings)

    def take(self, outcome: Outcome) -> None:
        """Something came out of the core."""
        for event in outcome.events:
            self.rules.on_event(event)

    def look(self) -> None:
        """Takes the looks that are due by now."""
        for (oracle, group_id), due_ms in sorted(self._due.items(), key=lambda item: item[1]):
            if due_ms <= self.now_ms() and self._due.pop((oracle, group_id), None) is not None:
                self.rules.check_group(oracle, group_id)

    def now_ms(self) -> int:
        return self._now().monotonic_ms

    def group_now(self, group_id: str) -> Now:
        return self._now()

    def find_group(self, group_id: str) -> GroupView | None:
        shard = self._shard()
        return None if shard is None else shard.view_group(group_id, self._now())

    def find_log_end(self, topic: str, partition: int) -> int | None:
        return None

    def find_open_connections(self) -> set[int]:
        return set()

    def report_finding(self, finding: OracleFinding) -> None:
        self.findings.append(finding)

    def report_repeated(self, key: Hashable) -> bool:
        return False

    def schedule_check(self, oracle: OracleName, group_id: str, delay_ms: int) -> None:
        due_ms = self.now_ms() + max(0, delay_ms)
        self._due[oracle, group_id] = min(due_ms, self._due.get((oracle, group_id), due_ms))

    def cancel_check(self, oracle: OracleName, group_id: str) -> None:
        self._due.pop((oracle, group_id), None)

    def run_long_check(self, check: LongCheck) -> None:
        if self.held_checks is None:
            run_in_one_step(check(UnlimitedBudget()))
        else:
            self.held_checks.append(check)
