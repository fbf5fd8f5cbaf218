"""Oracles over groups whose time is not the process's: of stories and of simulations."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator

from coordinator.control.oracles.finding import Finding
from coordinator.control.oracles.rules import Rules
from coordinator.control.oracles.violation import OracleName
from coordinator.control.oracles.watch import OracleConfig
from coordinator.group.shard import Shard
from coordinator.group.topics_image import TopicsImage
from coordinator.group.view import GroupView
from coordinator.machine.outcome import Now, Outcome


class VirtualWatch:
    """A `Watch` that is told what came out of the core. Nobody is connected, as far as it knows."""

    def __init__(
        self, shard: Callable[[], Shard | None], now: Callable[[], Now], topics: TopicsImage
    ) -> None:
        self.config = OracleConfig(oracle_orphan_ms=5_000, oracle_stuck_ms=30_000, oracle_commits=False)
        self.topics = topics
        self.findings: list[Finding] = []
        self._shard = shard
        self._now = now
        self._due: dict[tuple[OracleName, str], int] = {}
        self.rules = Rules(self)

    @property
    def counts(self) -> Counter[OracleName]:
        """What was found, by oracle."""
        return Counter(finding.oracle for finding in self.findings)

    def take(self, outcome: Outcome) -> None:
        """Something came out of the core."""
        for event in outcome.events:
            self.rules.happened(event)

    def look(self) -> None:
        """Takes the looks that are due by now."""
        for (oracle, group_id), due_ms in sorted(self._due.items(), key=lambda item: item[1]):
            if due_ms <= self.now_ms() and self._due.pop((oracle, group_id), None) is not None:
                self.rules.look(oracle, group_id)

    def now_ms(self) -> int:
        """See `Watch`."""
        return self._now().monotonic_ms

    def group_now(self, group_id: str) -> Now:
        """See `Watch`."""
        return self._now()

    def view(self, group_id: str) -> GroupView | None:
        """See `Watch`."""
        shard = self._shard()
        return None if shard is None else shard.view(group_id, self._now())

    def log_end(self, topic: str, partition: int) -> int | None:
        """See `Watch`."""
        return None

    def open_connections(self) -> set[int]:
        """See `Watch`."""
        return set()

    def found(self, finding: Finding) -> None:
        """See `Watch`."""
        self.findings.append(finding)

    def found_again(self, key: Hashable) -> bool:
        """See `Watch`."""
        return False

    def look_in(self, oracle: OracleName, group_id: str, delay_ms: int) -> None:
        """See `Watch`."""
        due_ms = self.now_ms() + max(0, delay_ms)
        self._due[oracle, group_id] = min(due_ms, self._due.get((oracle, group_id), due_ms))

    def look_no_more(self, oracle: OracleName, group_id: str) -> None:
        """See `Watch`."""
        self._due.pop((oracle, group_id), None)

    def judge(self, steps: Iterator[None]) -> None:
        """See `Watch`."""
        for _ in steps:
            pass
