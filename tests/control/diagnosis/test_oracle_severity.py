"""Every oracle declares its severities, and a notice counts as a violation nowhere."""

import logging
import re
from pathlib import Path
from typing import Final

import pytest

from coordinator.broker.broker_metrics import BrokerMetrics
from coordinator.control.diagnosis.oracle_service import OracleSet
from coordinator.control.diagnosis.violation import Level, OracleFinding, OracleName, Severity
from coordinator.control.diagnosis.violation_log import MAX_VIOLATIONS, ViolationLog
from coordinator.control.metrics_snapshot import (
    GroupCounts,
    GroupCountTable,
    GroupMetricsSnapshot,
    SelectedGroupMetrics,
)
from coordinator.core.daemon_log import LogLineLimit
from coordinator.core.outcome import Now
from coordinator.group.topics_image import NO_TOPICS
from coordinator.http.group_metrics import GroupsCollector
from coordinator.http.metric_collectors import ServerMetricsCollector
from tests.broker.harness import read_metrics
from tests.control.diagnosis.virtual_oracles import VirtualOracleContext
from tests.control.diagnosis.watched_server import watched

CONTROL_PAGE: Final = Path(__file__).parents[3] / "docs" / "control.md"
VIOLATION, NOTICE = Severity.VIOLATION, Severity.NOTICE

EXPECTED: Final = {
    OracleName.DOUBLE_OWNER: {VIOLATION, NOTICE},
    OracleName.ORPHAN_PARTITION: {VIOLATION, NOTICE},
    OracleName.STUCK_REBALANCE: {VIOLATION, NOTICE},
    OracleName.COMMIT_WENT_BACK: {NOTICE},
    OracleName.COMMIT_BEYOND_END: {NOTICE},
    OracleName.ZOMBIE_COMMIT: {NOTICE},
    OracleName.ASSIGNMENT_OF_NOBODY: {NOTICE},
    OracleName.STARVED_HEARTBEAT: {NOTICE},
    OracleName.FLAPPING: {NOTICE},
}


def finding(
    oracle: OracleName, severity: Severity, *, about: object = "it", group: str = "g", subject: str = ""
) -> OracleFinding:
    return OracleFinding(
        oracle=oracle,
        severity=severity,
        group_id=group,
        generation_id=1,
        identity=about,
        detail="It is so.",
        subject=subject,
    )


@pytest.fixture
def violations() -> ViolationLog:
    return ViolationLog(BrokerMetrics(), LogLineLimit())


def declared() -> dict[OracleName, set[Severity]]:
    watch = VirtualOracleContext(lambda: None, lambda: Now(0, 0), NO_TOPICS)
    return {name: set(oracle.severities) for name, oracle in OracleSet(watch).by_name.items()}


def test_every_oracle_declares_its_severities() -> None:
    assert EXPECTED.keys() == set(OracleName)
    assert declared() == EXPECTED


def test_the_page_lists_every_oracle_with_its_severities_and_a_reason() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([a-z, ]+) \| .+ \| .+ \|$", CONTROL_PAGE.read_text(), re.MULTILINE)
    listed = {name: {Severity(word) for word in words.split(", ")} for name, words in rows}
    assert listed == {oracle.value: severities for oracle, severities in EXPECTED.items()}


@pytest.mark.parametrize("oracle", OracleName)
async def test_a_notice_counts_as_a_violation_nowhere(
    oracle: OracleName, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "Oracles")
    histories = GroupCountTable()
    async with watched(tmp_path) as watch:
        kept = watch.control.oracles.violations
        kept.listeners.append(histories.on_violation)
        for _ in range(3):
            kept.add_finding(finding(oracle, NOTICE))
        daemon_counts = dict(samples(ServerMetricsCollector(read_metrics(watch.server))))
    (listed,) = kept.list_after()
    assert (listed.severity, listed.level, listed.times) == (NOTICE, Level.WARNING, 3)
    assert kept.list_after(severity=NOTICE) == [listed]
    assert kept.list_after(severity=VIOLATION) == []
    assert [(record.levelno, record.name) for record in caplog.records if record.name == "Oracles"] == [
        (logging.INFO, "Oracles")
    ]
    group_counts = dict(samples(GroupsCollector(figures(histories.by_group["g"]))))
    for counts, violated, noticed in (
        (daemon_counts, "groupd_violations_total", "groupd_notices_total"),
        (group_counts, "groupd_group_violations_total", "groupd_group_notices_total"),
    ):
        assert counts.get((violated, oracle.value), 0) == 0
        assert counts[noticed, oracle.value] == 3


def samples(collector: ServerMetricsCollector | GroupsCollector) -> list[tuple[tuple[str, str], float]]:
    """The samples that have an oracle: name and oracle, and the value."""
    return [
        ((sample.name, sample.labels["oracle"]), sample.value)
        for family in collector.collect()
        for sample in family.samples
        if "oracle" in sample.labels
    ]


def figures(history: GroupCounts) -> SelectedGroupMetrics:
    group = GroupMetricsSnapshot(
        group_id="g",
        type="classic",
        state="Stable",
        members=0,
        is_frozen=False,
        rebalance_open_s=0,
        session_margin=None,
        counts=history,
        offsets={},
    )
    return SelectedGroupMetrics([group], 0, {}, {})


def test_a_violation_is_logged_as_an_error_and_counts(
    violations: ViolationLog, caplog: pytest.LogCaptureFixture
) -> None:
    histories = GroupCountTable()
    violations.listeners.append(histories.on_violation)
    violations.add_finding(finding(OracleName.DOUBLE_OWNER, VIOLATION))
    (listed,) = violations.list_after(severity=VIOLATION)
    assert (listed.severity, listed.level) == (VIOLATION, Level.ERROR)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    history = histories.by_group["g"]
    assert (history.violations, history.notices) == ({"double_owner": 1}, {})


def test_a_notice_is_logged_once_for_its_oracle_group_and_member(
    violations: ViolationLog, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinator.control.diagnosis.violation_log.REPEATED_WITHIN_MS", 0)
    monkeypatch.setattr("coordinator.core.daemon_log.LINE_PERIOD_MS", 0)
    caplog.set_level(logging.INFO, "Oracles")
    for _ in range(5):
        for group in ("g", "h\n"):
            for member in ("alice", "bob"):
                for about in ("orders-0", "orders-1"):
                    violations.add_finding(
                        finding(OracleName.COMMIT_WENT_BACK, NOTICE, group=group, about=about, subject=member)
                    )
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 4
    assert lines[0] == "Notice for group g, commit_went_back: It is so."
    assert len({line for line in lines if line.isprintable()}) == 2
    violations.clear()
    violations.add_finding(finding(OracleName.COMMIT_WENT_BACK, NOTICE, subject="alice"))
    assert len(caplog.records) == 5


def test_notices_displace_no_violation(violations: ViolationLog) -> None:
    violations.add_finding(finding(OracleName.DOUBLE_OWNER, VIOLATION))
    for number in range(2 * MAX_VIOLATIONS):
        violations.add_finding(finding(OracleName.ZOMBIE_COMMIT, NOTICE, about=number))
    assert [one.oracle for one in violations.list_after(severity=VIOLATION)] == [OracleName.DOUBLE_OWNER]
    assert len(violations.list_after(limit=2 * MAX_VIOLATIONS)) == MAX_VIOLATIONS
    assert violations.forgotten == MAX_VIOLATIONS + 1
