"""The list of violations: bounded, without repetitions, counted and logged."""

import logging
from pathlib import Path

import pytest

from coordinator.broker.broker_metrics import BrokerMetrics
from coordinator.control.diagnosis import violation_log as kept
from coordinator.control.diagnosis.violation import OracleFinding, OracleName, Severity, Violation
from coordinator.control.diagnosis.violation_log import MAX_BYTES, MAX_VIOLATIONS, ViolationLog
from coordinator.core.daemon_log import LogLineLimit
from coordinator.http.metric_collectors import ServerMetricsCollector
from tests.broker.harness import read_metrics
from tests.control.diagnosis.watched_server import Member, generation, orders, watched


def finding(about: object = "it", *, group: str = "g", detail: str = "It is wrong.") -> OracleFinding:
    return OracleFinding(
        oracle=OracleName.DOUBLE_OWNER,
        severity=Severity.VIOLATION,
        group_id=group,
        generation_id=1,
        identity=about,
        detail=detail,
        partitions=[("orders", 1)],
    )


@pytest.fixture
def metrics() -> BrokerMetrics:
    return BrokerMetrics()


@pytest.fixture
def violations(metrics: BrokerMetrics) -> ViolationLog:
    return ViolationLog(metrics, LogLineLimit())


def test_a_repeated_finding_keeps_its_number(violations: ViolationLog, metrics: BrokerMetrics) -> None:
    notified: list[Violation] = []
    violations.listeners.append(notified.append)
    for about in ("one", "one", "other"):
        violations.add_finding(finding(about))
    assert [(one.seq, one.times) for one in violations.list_after()] == [(1, 2), (2, 1)]
    assert [(one.seq, one.times) for one in notified] == [(1, 1), (1, 2), (2, 1)]
    assert metrics.violations == {"double_owner": 3}


def test_a_later_finding_gets_a_new_number(violations: ViolationLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "REPEATED_WITHIN_MS", 0)
    for _ in range(2):
        violations.add_finding(finding())
    assert [(one.seq, one.times) for one in violations.list_after()] == [(1, 1), (2, 1)]


def test_a_cleared_finding_returns_under_a_new_number(violations: ViolationLog) -> None:
    violations.add_finding(finding())
    assert violations.clear() == 1
    violations.add_finding(finding())
    assert [(one.seq, one.times) for one in violations.list_after()] == [(2, 1)]


def test_the_oldest_make_room_for_the_newest(violations: ViolationLog) -> None:
    for number in range(MAX_VIOLATIONS + 10):
        violations.add_finding(finding(number))
    assert [one.seq for one in violations.list_after(limit=2)] == [11, 12]
    assert violations.forgotten == 10
    assert len(violations.list_after(limit=2 * MAX_VIOLATIONS)) == MAX_VIOLATIONS


def test_long_names_take_no_more_memory_than_they_may(violations: ViolationLog) -> None:
    for number in range(300):
        violations.add_finding(finding(group=f"{number}" + 32_000 * "g", detail=100_000 * "x"))
    found = violations.list_after(limit=MAX_VIOLATIONS)
    assert 50 < len(found) < MAX_BYTES / 32_000
    assert max(len(one.detail) for one in found) < 2_000


def test_a_line_is_written_once_a_minute_for_a_group_and_an_oracle(
    violations: ViolationLog, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for number in range(100):
        violations.add_finding(finding(number))
    violations.add_finding(finding(group="other\n"))
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        "Violation in group g, double_owner: It is wrong.",
        "Violation in group other\\n, double_owner: It is wrong.",
    ]
    assert {record.levelno for record in caplog.records} == {logging.ERROR}


async def test_violations_are_metrics(tmp_path: Path) -> None:
    async with watched(tmp_path) as watch, Member(watch, "alice") as alice, Member(watch, "bob") as bob:
        await generation({alice: orders(0, 1, 2, 3), bob: orders(3)})
        await watch.found(OracleName.DOUBLE_OWNER)
        metrics = list(ServerMetricsCollector(read_metrics(watch.server)).collect())
    (family,) = [metric for metric in metrics if metric.name == "groupd_violations"]
    counts = {sample.labels["oracle"]: sample.value for sample in family.samples}
    assert counts == {oracle.value: 0 for oracle in OracleName} | {"double_owner": 1}
