"""Laws of the life cycle of a partition, under random events, disk failures and delays.

A partition has one load at a time, and serves nothing before that has ended. A failed append replaces the machine.
A release is final until the partition is opened again. What was acknowledged is never lost. Requests of a partition
that cannot serve them get Kafka's errors.
"""

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any, Final

import pytest

from coordinator.group.group_shard import GroupShard
from coordinator.runtime import partition_loader
from coordinator.runtime.partition_driver import PartitionDriver
from coordinator.runtime.partition_lifecycle import (
    TRANSITIONS,
    LifecycleEvent,
    LifecycleStage,
    PartitionLifecycle,
    PartitionState,
)
from protocol.error_codes import ErrorCode
from storage.log import PartitionLog
from tests.runtime.lifecycle_world import World, find_commit_error

SEEDS: Final = (74, *range(12), 20, 26, 40, 52, 55)
"""These reach every transition, and notice every planted fault."""
EXTENDED_SEEDS: Final = range(12, 2_000)
STEPS: Final = 400
RECOVERY_S: Final = 6
FAILING_CALLS: Final = ("write", "open", "pread", "truncate", "fsync_directory")
NOT_COORDINATOR, LOADING = ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

Seen = set[tuple[LifecycleStage, LifecycleEvent]]


@pytest.fixture(autouse=True)
def without_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A seed gives the same events on a slow machine."""
    monkeypatch.setattr(partition_loader, "SLICE_NS", 10**15)


class Model:
    """Drives a partition through random events, and checks its laws in every stage."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.random = self.world.random
        self.is_open = False
        self.in_service: GroupShard | None = None
        self.retired: list[GroupShard] = []
        """The machines that have left the service."""
        self._pinned: list[PartitionLog] = []
        self._steps: list[tuple[Callable[[], None], int]] = [
            (self.commit, 12),
            (self.fetch, 6),
            (self.world.loop.run_iteration, 24),
            (self.open_one, 10),
            (self.world.syncer.work_some, 10),
            (self.advance, 8),
            (self.fail_calls, 3),
            (self.fail_syncs, 3),
            (self.toggle_full_disk, 1),
            (self.clear_failures, 2),
            (self.open_partition, 5),
            (self.release, 1),
            (self.fail_machine, 2),
            (self.pin, 1),
            (self.unpin, 3),
        ]

    def run(self, steps: int) -> None:
        choices, weights = zip(*self._steps, strict=True)
        self.open_partition()
        for step in self.random.choices(choices, weights, k=steps):
            step()
            self.check()
        self.recover()

    # Steps

    def commit(self) -> None:
        state = self.world.partition.state
        error = self.world.commit()
        assert error == self.refusal(state), (state, error)

    def refusal(self, state: PartitionState) -> ErrorCode | None:
        """The error that Kafka answers to a commit; None where it is written."""
        if state is PartitionState.LOADING:
            return LOADING
        return None if state is PartitionState.OWNED else NOT_COORDINATOR

    def fetch(self) -> None:
        state = self.world.partition.state
        error, offset = self.world.fetch()
        if state in (PartitionState.OWNED, PartitionState.READ_ONLY):
            assert error is ErrorCode.NONE
            self.world.collect_replies()
            assert self.world.acknowledged <= offset <= self.world.last_offset
        else:
            assert error is self.refusal(state)

    def open_one(self) -> None:
        if self.world.opener.waiting:
            self.world.opener.run_one()

    def advance(self) -> None:
        self.world.loop.advance(self.random.choice((0.01, 1.0)))

    def fail_calls(self) -> None:
        self.world.files.fail(self.random.choice(FAILING_CALLS), times=self.random.choice((1, 10**6)))

    def fail_syncs(self) -> None:
        self.world.files.fail("fdatasync", times=self.random.choice((1, 10**6)))

    def toggle_full_disk(self) -> None:
        self.world.files.is_full = not self.world.files.is_full

    def clear_failures(self) -> None:
        self.world.files.faults.clear()
        self.world.files.is_full = False

    def open_partition(self) -> None:
        partition = self.world.partition
        epoch = partition.epoch + self.random.choice((0, 1, 1))
        is_new = epoch > partition.epoch
        self.world.runtime.lifecycle.open_partition(partition, epoch, self.random.choice((0, 0.5)))
        self.is_open = self.is_open or is_new

    def release(self) -> None:
        partition = self.world.partition
        log = partition.log
        self.world.runtime.lifecycle.release_partition(partition, partition.epoch + 1, "it moves")
        self.is_open = False
        assert log is None or log.is_closed or log.is_pinned
        self.answered_with(NOT_COORDINATOR)

    def fail_machine(self) -> None:
        partition, machine = self.world.partition, self.world.partition.plain_machine
        self.world.runtime.on_internal_error(partition, AssertionError("a machine contradicts itself"))
        assert machine is None or partition.plain_machine is not machine
        if machine is not None:
            self.answered_with(NOT_COORDINATOR)

    def answered_with(self, error: ErrorCode) -> None:
        """Each waiting request has got a response: the error, or an acknowledgement."""
        for reply in self.world.submitted.values():
            assert reply.response is not None
            assert find_commit_error(reply.response) in (error, ErrorCode.NONE)

    def pin(self) -> None:
        log = self.world.partition.log
        if log is not None and log.is_open and not log.is_pinned:
            log.pin()
            self._pinned.append(log)

    def unpin(self) -> None:
        for log in self._pinned:
            log.unpin()
        self._pinned.clear()

    # Laws

    def check(self) -> None:
        world, partition = self.world, self.world.partition
        assert world.load_count <= 1, "two loads at once"
        assert (partition.machine is not None) == partition.is_serving
        assert partition.state is partition.stage.state
        assert (partition.state is not PartitionState.ABSENT) == self.is_open
        for error in world.collect_replies():
            assert error in (ErrorCode.NONE, NOT_COORDINATOR)
        if partition.plain_machine is not self.in_service:
            if self.in_service is not None:
                self.retired.append(self.in_service)
            self.in_service = partition.plain_machine
            assert all(self.in_service is not machine for machine in self.retired)
        if partition.machine is None:
            assert not world.submitted, "a request waits for a partition that is out of service"

    def recover(self) -> None:
        """With a disk that works, the partition is where its owner wants it, and answers."""
        world, partition = self.world, self.world.partition
        self.clear_failures()
        self.unpin()
        world.settle_for(RECOVERY_S)
        self.check()
        assert not world.submitted
        assert all(reply.response is not None for reply in world.fetches)
        assert partition.stage is (LifecycleStage.OWNED if self.is_open else LifecycleStage.ABSENT)
        assert all(log.is_closed for log in world.opened if log is not partition.log)
        if not self.is_open:
            self.open_partition()
            world.runtime.lifecycle.open_partition(partition, partition.epoch + 1)
            world.settle_for(RECOVERY_S)
        assert world.commit() is None
        world.settle_for(RECOVERY_S)
        world.collect_replies()
        assert world.fetch() == (ErrorCode.NONE, world.last_offset)


def play(seeds: Iterable[int]) -> None:
    for seed in seeds:
        try:
            Model(seed).run(STEPS)
        except Exception as problem:
            problem.add_note(f"seed {seed}")
            raise


@pytest.mark.extended
def test_a_partition_keeps_the_laws_for_long() -> None:
    play(EXTENDED_SEEDS)


def world_with_one_commit() -> World:
    """A partition that is OWNED, with a commit that was acknowledged."""
    world = World(seed=2)
    world.runtime.lifecycle.open_partition(world.partition, 0)
    world.settle_for(0)
    assert world.commit() is None
    world.settle_for(0)
    assert world.collect_replies() == [ErrorCode.NONE]
    return world


def test_a_recovered_log_that_was_never_synced_is_not_served_in_part() -> None:
    """Its durable part lacks records that were acknowledged before it was opened."""
    world = world_with_one_commit()
    world.runtime.lifecycle.release_partition(world.partition, 1, "it moves")
    world.files.fail("fdatasync", times=10**9)
    world.runtime.lifecycle.open_partition(world.partition, 2)
    world.settle_for(3)
    assert world.fetch()[0] is LOADING
    world.files.faults.clear()
    world.settle_for(RECOVERY_S)
    assert world.fetch() == (ErrorCode.NONE, 0)


def test_the_durable_part_is_read_later_when_no_thread_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_with_one_commit()
    submit, problems = world.opener.submit, [RuntimeError("cannot start a thread")]

    def refuse_once(work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if problems:
            raise problems.pop()
        return submit(work, *args, **kwargs)

    monkeypatch.setattr(world.opener, "submit", refuse_once)
    world.files.fail("fdatasync")
    assert world.commit() is None
    world.settle_for(0)
    assert world.partition.state is PartitionState.LOADING
    assert not world.load_count
    world.settle_for(RECOVERY_S)
    assert world.collect_replies() == [NOT_COORDINATOR]
    assert world.fetch()[0] is ErrorCode.NONE


ELSEWHERE: Final = frozenset({LifecycleEvent.LOAD_FAILED, LifecycleEvent.FENCED})
"""Events of a damaged log and of a cluster: other tests have them."""


def test_a_partition_keeps_the_laws_at_every_transition(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Seen = set()
    apply = PartitionLifecycle.apply

    def record(lifecycle: PartitionLifecycle, event: LifecycleEvent) -> None:
        seen.add((lifecycle.stage, event))
        apply(lifecycle, event)

    monkeypatch.setattr(PartitionLifecycle, "apply", record)
    play(SEEDS)
    expected = {
        (stage, event)
        for stage, event in TRANSITIONS
        if event not in ELSEWHERE and stage is not LifecycleStage.FAILED
    }
    expected.remove((LifecycleStage.LOADING_DURABLE, LifecycleEvent.LOAD_REFUSED))
    assert not expected - seen, sorted((stage.name, event.name) for stage, event in expected - seen)


# Faults of a driver, one for each stage: the laws notice each


def _keep_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """ABSENT: the delays and loads of a released partition continue."""
    apply = PartitionLifecycle.apply

    def apply_without_attempt(lifecycle: PartitionLifecycle, event: LifecycleEvent) -> None:
        attempt = lifecycle.attempt
        apply(lifecycle, event)
        if event is LifecycleEvent.RELEASE:
            lifecycle.attempt = attempt

    monkeypatch.setattr(PartitionLifecycle, "apply", apply_without_attempt)


def _forget_retry(stage: LifecycleStage) -> Callable[[pytest.MonkeyPatch], None]:
    """WAITING, DURABLE_WAITING, UNWRITABLE: the delay never ends."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        retry = PartitionDriver._retry

        def skip(driver: PartitionDriver[Any], partition: Any, attempt: int) -> None:
            if partition.stage is not stage:
                retry(driver, partition, attempt)

        monkeypatch.setattr(PartitionDriver, "_retry", skip)

    return plant


def _load_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """LOADING: the load of a partition that was released and opened again does not wait for the last one."""
    start = PartitionDriver._start_load

    def start_at_once(driver: PartitionDriver[Any], partition: Any) -> None:
        driver._loads_in_progress.clear()
        start(driver, partition)

    monkeypatch.setattr(PartitionDriver, "_start_load", start_at_once)


def _forget_reopening(monkeypatch: pytest.MonkeyPatch) -> None:
    """LOADING_DURABLE: the log is not reopened after its durable part was read."""
    enqueue = PartitionDriver._enqueue_load

    def skip(driver: PartitionDriver[Any], partition: Any, source: Any) -> None:
        if partition.stage is not LifecycleStage.SERVING_DURABLE:
            enqueue(driver, partition, source)

    monkeypatch.setattr(PartitionDriver, "_enqueue_load", skip)


def _write_while_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """SERVING_DURABLE: the state claims that the partition accepts writes."""
    apply = PartitionLifecycle.apply

    def apply_wrongly(lifecycle: PartitionLifecycle, event: LifecycleEvent) -> None:
        apply(lifecycle, event)
        if lifecycle.stage is LifecycleStage.SERVING_DURABLE:
            lifecycle.state = PartitionState.OWNED

    monkeypatch.setattr(PartitionLifecycle, "apply", apply_wrongly)


def _ignore_failed_append(monkeypatch: pytest.MonkeyPatch) -> None:
    """OWNED: a machine stays in service after its append has failed."""
    monkeypatch.setattr(PartitionDriver, "on_append_failed", lambda *_: None)


PLANTED: Final[dict[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "absent": _keep_attempt,
    "waiting": _forget_retry(LifecycleStage.WAITING),
    "loading-durable": _forget_reopening,
    "loading": _load_twice,
    "serving-durable": _write_while_read_only,
    "durable-waiting": _forget_retry(LifecycleStage.DURABLE_WAITING),
    "unwritable": _forget_retry(LifecycleStage.UNWRITABLE),
    "owned": _ignore_failed_append,
}


@pytest.mark.parametrize("stage", PLANTED)
def test_a_faulty_driver_breaks_a_law(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[stage](monkeypatch)
    with pytest.raises(AssertionError):
        play(SEEDS)


def test_an_illegal_event_changes_nothing() -> None:
    for stage, event in product(LifecycleStage, LifecycleEvent):
        lifecycle = PartitionLifecycle()
        lifecycle.stage, lifecycle.state = stage, stage.state
        expected = TRANSITIONS.get((stage, event))
        if expected is None:
            with pytest.raises(AssertionError):
                lifecycle.apply(event)
            assert (lifecycle.stage, lifecycle.attempt, lifecycle.tenure) == (stage, 0, 0)
        else:
            lifecycle.apply(event)
            assert (lifecycle.stage, lifecycle.state) == (expected, expected.state)
