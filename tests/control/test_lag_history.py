"""The history of lags: it is bounded, reaches back to its first sample, and grows while it has readers."""

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Callable

import pytest

from coordinator.control import lag_history
from coordinator.control.admin.offset_operations import PartitionEnds
from coordinator.control.lag_history import IDLE_LIMIT_S, MAX_POINTS, LagHistories, LagSeries
from coordinator.control.metrics_snapshot import (
    GroupCounts,
    GroupMetricsSnapshot,
    GroupMetricsSource,
    SelectedGroupMetrics,
)
from coordinator.core import clock
from coordinator.core.time_budget import RunQueue
from coordinator.group.group_event_types import GroupDeleted
from tests.control.checkpoints import CheckpointRequests
from tests.control.clock.living_member import until

GROUPS = ["audit", "billing"]


def fill(samples: int) -> LagSeries:
    """Return a series of samples with the numbers 0, 1, 2, ... as times and lags."""
    series = LagSeries()
    for number in range(samples):
        series.add(number, number)
    return series


def test_a_short_history_has_every_sample() -> None:
    series = fill(MAX_POINTS)
    assert [(point.at_ms, point.lag) for point in series.points()] == [(n, n) for n in range(MAX_POINTS)]
    assert not series.is_thinned


@pytest.mark.parametrize("samples", [MAX_POINTS + 1, 10 * MAX_POINTS, 1_000 * MAX_POINTS])
def test_a_long_history_keeps_its_beginning_in_equal_steps(samples: int) -> None:
    series = fill(samples)
    times = [point.at_ms for point in series.points()]
    assert MAX_POINTS // 2 <= len(times) <= MAX_POINTS
    assert times[0] == 0
    steps = {after - before for before, after in itertools.pairwise(times)}
    assert len(steps) == 1
    assert samples - times[-1] <= steps.pop()
    assert series.is_thinned


class CountingSource(GroupMetricsSource):
    """A source of snapshots in which each group has the number of the snapshot as its lag. Some snapshots fail."""

    def __init__(self, failing: Callable[[int], bool] = lambda _: False) -> None:
        self.taken = 0
        self._failing = failing
        self._was_taken = asyncio.Condition()

    async def take_snapshot(self, is_selected: Callable[[str], bool]) -> SelectedGroupMetrics:
        async with self._was_taken:
            self.taken += 1
            self._was_taken.notify_all()
        if self._failing(self.taken):
            raise RuntimeError(f"snapshot {self.taken} failed")
        groups = [
            GroupMetricsSnapshot(
                group_id=group_id,
                type="classic",
                state="Empty",
                members=0,
                is_frozen=False,
                rebalance_open_s=0,
                session_margin=None,
                counts=GroupCounts(),
                offsets={("orders", 0): 0},
            )
            for group_id in GROUPS
        ]
        return SelectedGroupMetrics(groups, 0, {("orders", 0): PartitionEnds(0, self.taken)}, {"orders": 1})

    async def wait_taken(self, number: int) -> None:
        """Wait until this snapshot has begun: the sampler has recorded all earlier ones."""
        async with asyncio.timeout(60), self._was_taken:
            await self._was_taken.wait_for(lambda: self.taken >= number)


@pytest.fixture
async def open_histories() -> AsyncIterator[list[LagHistories]]:
    """The histories that a test appends; they are closed after it."""
    opened: list[LagHistories] = []
    yield opened
    for histories in opened:
        histories.close()


@pytest.fixture
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take each sample as soon as the previous one is recorded."""
    monkeypatch.setattr(lag_history, "SAMPLE_INTERVAL_S", 0)


def create_histories(source: GroupMetricsSource, opened: list[LagHistories]) -> LagHistories:
    loop = asyncio.get_running_loop()
    opened.append(LagHistories(source, lambda _: None, RunQueue(loop), loop))
    return opened[-1]


async def read_lags(histories: LagHistories, group_id: str = "audit") -> list[int]:
    return [point.lag for point in (await histories.read_history(group_id)).points]


@pytest.mark.usefixtures("without_pauses")
async def test_a_failed_sample_is_logged_once_and_the_next_one_is_taken(
    open_histories: list[LagHistories], caplog: pytest.LogCaptureFixture
) -> None:
    source = CountingSource(failing=lambda number: 2 <= number <= 4 or number == 6)
    histories = create_histories(source, open_histories)
    histories.note_reader()
    await source.wait_taken(8)
    assert (await read_lags(histories))[:3] == [1, 5, 7]
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [str(record.exc_info[1]) for record in errors if record.exc_info] == [
        "snapshot 2 failed",
        "snapshot 6 failed",
    ]


async def test_a_failed_first_sample_does_not_block_its_reader(open_histories: list[LagHistories]) -> None:
    histories = create_histories(CountingSource(failing=lambda _: True), open_histories)
    async with asyncio.timeout(60):
        assert await read_lags(histories) == []


async def test_the_first_reader_takes_the_first_sample(open_histories: list[LagHistories]) -> None:
    """The board is a reader as well: a history that is read after it has a point."""
    source = CountingSource()
    histories = create_histories(source, open_histories)
    histories.note_reader()
    assert await read_lags(histories) == [1]
    assert await read_lags(histories, "billing") == [1]
    assert source.taken == 1


@pytest.mark.parametrize("is_started", [False, True])
async def test_closed_histories_take_no_sample(open_histories: list[LagHistories], is_started: bool) -> None:
    """A request may read the board when its namespace is removed: the reader comes after the end."""
    source = CountingSource()
    histories = create_histories(source, open_histories)
    if is_started:
        assert await read_lags(histories) == [1]
    histories.close()
    tasks = asyncio.all_tasks()
    histories.note_reader()
    async with asyncio.timeout(60):
        assert await read_lags(histories) == ([1] if is_started else [])
    assert not histories.is_sampling
    assert asyncio.all_tasks() <= tasks
    histories.close()


async def test_the_end_wakes_the_reader_that_waits_for_the_first_sample(
    open_histories: list[LagHistories],
) -> None:
    class EndlessSource(CountingSource):
        async def take_snapshot(self, is_selected: Callable[[str], bool]) -> SelectedGroupMetrics:
            await super().take_snapshot(is_selected)
            await asyncio.get_running_loop().create_future()
            raise AssertionError("the future has no result")

    source = EndlessSource()
    histories = create_histories(source, open_histories)
    reading = asyncio.create_task(read_lags(histories))
    await source.wait_taken(1)
    histories.close()
    async with asyncio.timeout(60):
        assert await reading == []


@pytest.mark.usefixtures("without_pauses")
async def test_the_sampling_ends_without_readers_and_goes_on_with_the_next_one(
    open_histories: list[LagHistories], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = CountingSource()
    histories = create_histories(source, open_histories)
    tasks = asyncio.all_tasks()
    histories.note_reader()
    await source.wait_taken(3)
    before = await read_lags(histories)
    monkeypatch.setattr(lag_history, "IDLE_LIMIT_S", -1)
    await until(lambda: not histories.is_sampling)
    await until(lambda: asyncio.all_tasks() <= tasks)
    ended = source.taken
    monkeypatch.undo()
    after = await read_lags(histories)
    assert histories.is_sampling
    assert after[: len(before)] == before
    assert after == list(range(1, ended + 2)), "the history stays, and the reader has a new point"


@pytest.mark.usefixtures("without_pauses")
async def test_readers_keep_the_sampling(
    open_histories: list[LagHistories], monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = 0
    monkeypatch.setattr(clock, "monotonic_ns", lambda: now_ns)
    source = CountingSource()
    histories = create_histories(source, open_histories)
    for _ in range(3):
        histories.note_reader()
        now_ns += int(IDLE_LIMIT_S * 1e9)
        await source.wait_taken(source.taken + 2)
        assert histories.is_sampling
    now_ns += 1
    await until(lambda: not histories.is_sampling)


async def test_other_work_runs_between_the_groups_of_a_sample(
    open_histories: list[LagHistories], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def do_nothing() -> None:
        pass

    requests = CheckpointRequests(do_nothing).install(monkeypatch)
    await read_lags(create_histories(CountingSource(), open_histories))
    assert requests.count == len(GROUPS)


def delete_group(histories: LagHistories, group_id: str) -> None:
    histories.on_event(0, GroupDeleted(group_id=group_id, offsets=1, reason="request"), 1, clock.now())


async def test_a_deleted_group_has_no_history(open_histories: list[LagHistories]) -> None:
    histories = create_histories(CountingSource(), open_histories)
    assert await read_lags(histories) == [1]
    delete_group(histories, "audit")
    assert await read_lags(histories) == []
    assert await read_lags(histories, "billing") == [1]


async def test_a_group_that_is_deleted_during_a_sample_has_no_history(
    open_histories: list[LagHistories], monkeypatch: pytest.MonkeyPatch
) -> None:
    histories = create_histories(CountingSource(), open_histories)

    async def delete() -> None:
        delete_group(histories, "billing")

    CheckpointRequests(delete, at=0).install(monkeypatch)
    assert await read_lags(histories, "billing") == []
    assert await read_lags(histories) == [1]
