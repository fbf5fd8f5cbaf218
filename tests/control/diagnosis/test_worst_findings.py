"""The worst findings of many groups: diagnosed again at a limited rate, the oldest diagnosis first."""

import asyncio

import pytest

from coordinator.control.diagnosis import worst_findings
from coordinator.control.diagnosis.worst_findings import MIN_AGE_NS, SPENT_NS, WorstFindings
from coordinator.control.group_finding import GroupFinding
from coordinator.core.time_budget import RunQueue

GROUPS = [f"group-{number}" for number in range(10)]


class FakeClock:
    """Time that passes by steps of the test."""

    def __init__(self) -> None:
        self.now_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns


class FakeDiagnosis:
    """Takes `cost_ns` for each group. Groups in `broken` have a finding."""

    def __init__(self, clock: FakeClock, cost_ns: int) -> None:
        self._clock = clock
        self._cost_ns = cost_ns
        self.broken: set[str] = set()
        self.diagnosed: list[str] = []

    def find_worst(self, group_id: str) -> GroupFinding | None:
        self._clock.now_ns += self._cost_ns
        self.diagnosed.append(group_id)
        if group_id not in self.broken:
            return None
        return GroupFinding(kind="gone", sentence=f"{group_id} is broken", blocks=True)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    fake = FakeClock()
    monkeypatch.setattr(worst_findings, "clock", fake)
    return fake


async def test_only_groups_with_a_finding_are_returned(clock: FakeClock) -> None:
    diagnosis = FakeDiagnosis(clock, 1_000)
    diagnosis.broken = {"group-3"}
    found = await WorstFindings(diagnosis.find_worst, RunQueue(asyncio.get_running_loop())).find(GROUPS)
    assert list(found) == ["group-3"]
    assert diagnosis.diagnosed == GROUPS


async def test_a_fresh_diagnosis_is_not_repeated_and_an_old_one_is(clock: FakeClock) -> None:
    diagnosis = FakeDiagnosis(clock, 1_000)
    findings = WorstFindings(diagnosis.find_worst, RunQueue(asyncio.get_running_loop()))
    diagnosis.broken = {"group-3"}
    await findings.find(GROUPS)
    diagnosis.broken = set()
    assert list(await findings.find(GROUPS)) == ["group-3"]
    assert diagnosis.diagnosed == GROUPS
    clock.now_ns += MIN_AGE_NS
    assert not await findings.find(GROUPS)


async def test_one_call_spends_a_limited_time_and_later_calls_go_on(clock: FakeClock) -> None:
    diagnosis = FakeDiagnosis(clock, SPENT_NS // 4)
    findings = WorstFindings(diagnosis.find_worst, RunQueue(asyncio.get_running_loop()))
    for expected in (GROUPS[:4], GROUPS[:8], GROUPS):
        await findings.find(GROUPS)
        assert diagnosis.diagnosed == expected


async def test_removed_groups_are_forgotten(clock: FakeClock) -> None:
    diagnosis = FakeDiagnosis(clock, 1_000)
    findings = WorstFindings(diagnosis.find_worst, RunQueue(asyncio.get_running_loop()))
    diagnosis.broken = {"group-3"}
    await findings.find(GROUPS)
    await findings.find(GROUPS[:2])
    assert list(await findings.find(GROUPS)) == ["group-3"]
    assert diagnosis.diagnosed == GROUPS + GROUPS[2:]
