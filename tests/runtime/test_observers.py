"""Observers get every event once, by number."""

import logging
from collections.abc import AsyncIterator
from typing import Any, NoReturn

import pytest

from coordinator.core.outcome import Now
from coordinator.core.response_status import BLOCKED
from coordinator.group.group_event_types import GroupEvent, MemberJoined, RebalanceStarted
from coordinator.runtime.partition_lifecycle import PartitionState
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.runtime.bench import Bench
from tests.runtime.counter import Add, Counted
from tests.storage.faulty_files import FaultyFiles


class Ledger:
    """An observer that keeps everything."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, str, Any]] = []
        self.instants: list[Now] = []

    def observe(self, partition: Any, events: Any, first: int, now: Now) -> None:
        """Keeps the events."""
        self.entries += [(first + at, str(partition.name), event) for at, event in enumerate(events)]
        self.instants.append(now)


def fail(_: Any, events: Any, first: int, now: Now) -> NoReturn:
    raise KeyError(f"{first}: nobody knows what to make of {events} at {now}")


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench(FaultyFiles())
    await bench.take_all()
    yield bench
    await bench.close()


def join(member_id: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )


async def test_every_observer_is_told_every_event_once_in_order_by_number_and_time(bench: Bench) -> None:
    second = Ledger()
    events_before = len(bench.events)
    bench.engine.observers.append(second.observe)
    for amount in range(3):
        await bench.ask(bench.counters, "a", Add("a", amount))
        bench.put(bench.groups, "g", join(f"nobody-{amount}"))
        await bench.ask(bench.counters, "b", Add("b", amount))
    assert second.entries == bench.events[events_before:]
    numbers = [number for number, _, _ in second.entries]
    assert numbers == list(range(events_before, events_before + len(numbers)))
    assert sum(isinstance(event, Counted) for _, _, event in second.entries) == 6
    assert sum(isinstance(event, GroupEvent) for _, _, event in second.entries) == 3
    assert second.instants == sorted(second.instants)


async def test_an_observer_that_fails_harms_neither_the_others_nor_the_coordinator(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    behind = Ledger()
    bench.engine.observers.append(fail)
    bench.engine.observers.append(behind.observe)
    answer, _ = bench.put(bench.groups, "g", join(""))
    assert answer is BLOCKED
    observed = [event for _, _, event in behind.entries]
    assert [type(event) for event in observed] == [MemberJoined, RebalanceStarted]
    assert {event.generation_id for event in observed} == {0}
    assert {event.member.client_id for event in observed} == {"client"}
    assert behind.entries == bench.events[-len(observed) :]
    assert all(partition.state is PartitionState.OWNED for partition in bench.groups.partitions)
    assert await bench.ask(bench.counters, "a", Add("a", 1)) == 1
    assert caplog.records
    assert all("fail failed to handle" in record.getMessage() for record in caplog.records)
