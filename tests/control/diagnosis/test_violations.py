"""The list of violations: bounded, without repetitions, counted and logged."""

import logging
from pathlib import Path

import pytest

from coordinator.console.metrics import FiguresCollector
from coordinator.control.oracles import violations as kept
from coordinator.control.oracles.finding import Finding
from coordinator.control.oracles.violation import OracleName, Severity, Violation
from coordinator.control.oracles.violations import MOST, MOST_BYTES, Violations
from coordinator.server.broker import Broker
from coordinator.server.line_limit import LineLimit
from coordinator.server.metrics import Metrics
from tests.control.oracles.watched import Member, generation, orders, watched


def finding(about: object = "it", *, group: str = "g", detail: str = "It is wrong.") -> Finding:
    return Finding(
        oracle=OracleName.DOUBLE_OWNER,
        severity=Severity.VIOLATION,
        group_id=group,
        generation_id=1,
        about=about,
        detail=detail,
        places=[("orders", 1)],
    )


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def violations(metrics: Metrics) -> Violations:
    return Violations(metrics, LineLimit())


def test_what_is_found_again_is_the_same_and_lasts(violations: Violations, metrics: Metrics) -> None:
    told: list[Violation] = []
    violations.listeners.append(told.append)
    for about in ("one", "one", "other"):
        violations.found(finding(about))
    assert [(one.seq, one.times) for one in violations.after()] == [(1, 2), (2, 1)]
    assert [(one.seq, one.times) for one in told] == [(1, 1), (1, 2), (2, 1)]
    assert metrics.violations == {"double_owner": 3}


def test_what_comes_back_later_is_another_one(
    violations: Violations, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "SAME_WITHIN_MS", 0)
    for _ in range(2):
        violations.found(finding())
    assert [(one.seq, one.times) for one in violations.after()] == [(1, 1), (2, 1)]


def test_what_was_cleared_is_found_anew_under_another_number(violations: Violations) -> None:
    violations.found(finding())
    assert violations.clear() == 1
    violations.found(finding())
    assert [(one.seq, one.times) for one in violations.after()] == [(2, 1)]


def test_the_oldest_make_room_for_the_newest(violations: Violations) -> None:
    for number in range(MOST + 10):
        violations.found(finding(number))
    assert [one.seq for one in violations.after(limit=2)] == [11, 12]
    assert violations.forgotten == 10
    assert len(violations.after(limit=2 * MOST)) == MOST


def test_long_names_take_no_more_memory_than_they_may(violations: Violations) -> None:
    for number in range(300):
        violations.found(finding(group=f"{number}" + 32_000 * "g", detail=100_000 * "x"))
    found = violations.after(limit=MOST)
    assert 50 < len(found) < MOST_BYTES / 32_000
    assert max(len(one.detail) for one in found) < 2_000


def test_a_line_is_written_once_a_minute_for_a_group_and_an_oracle(
    violations: Violations, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for number in range(100):
        violations.found(finding(number))
    violations.found(finding(group="other\n"))
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
        metrics = list(FiguresCollector(Broker(watch.server).figures()).collect())
    (family,) = [metric for metric in metrics if metric.name == "groupd_violations"]
    counts = {sample.labels["oracle"]: sample.value for sample in family.samples}
    assert counts == {oracle.value: 0 for oracle in OracleName} | {"double_owner": 1}
