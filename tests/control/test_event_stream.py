"""The event stream: resuming from a number, filters, and slow readers."""

import asyncio
import tracemalloc
from contextlib import ExitStack
from typing import Any

import pytest
from msgspec import json

from coordinator.control.event_stream import GAP, EventStream, EventSubscription, StreamEvent
from coordinator.core.outcome import Now
from coordinator.core.wire_name import get_wire_name
from coordinator.group.event_details import MemberName, ProtocolsDiffer
from coordinator.group.group_event_types import (
    CommitRefused,
    GroupEmptied,
    JoinRefused,
    MemberIdRequired,
    MemberLeft,
    RebalanceStarted,
)
from protocol.error_codes import ErrorCode
from tests.control.ledger.observed_coordinator import ObservedCoordinator

NOW = Now(1, 1_700_000_000_000)
ALICE = MemberName("alice-1", None, "alice", "/127.0.0.1")


def tell(stream: EventStream, number: int, group_id: str = "g") -> None:
    stream.on_event(0, GroupEmptied(group_id, number), number, NOW)


async def read(following: EventSubscription, count: int) -> list[StreamEvent]:
    return [await asyncio.wait_for(anext(following), 60) for _ in range(count)]


async def is_over(following: EventSubscription) -> bool:
    try:
        await asyncio.wait_for(anext(following), 60)
    except StopAsyncIteration:
        return True
    return False


def value_of(event: StreamEvent) -> dict[str, Any]:
    value: dict[str, Any] = json.decode(event.data)
    return value


async def test_the_stream_begins_with_new_events() -> None:
    stream = EventStream()
    tell(stream, 0)
    with stream.subscribe() as following:
        tell(stream, 3)
        tell(stream, 4)
        assert [event.seq for event in await read(following, 2)] == [3, 4]
        waiting = asyncio.ensure_future(anext(following))
        await asyncio.sleep(0)
        tell(stream, 5)
        event = await waiting
    assert (event.seq, event.kind) == (5, "GroupEmptied")
    assert value_of(event) | {"at_ms": 0} == {
        "seq": 5, "kind": "GroupEmptied", "group_id": "g", "generation_id": 5, "at_ms": 0,
        "group_time_ms": NOW.wall_ms, "line": "Group g with generation 5 is now empty.", "member": None,
    }  # fmt: skip
    assert stream.reader_count == 0


async def test_a_resumed_stream_misses_no_event() -> None:
    stream = EventStream()
    for number in range(10):
        tell(stream, number)
    with stream.subscribe(after=6) as following:
        tell(stream, 10)
        assert [event.seq for event in await read(following, 4)] == [7, 8, 9, 10]


async def test_lost_events_are_a_gap() -> None:
    stream = EventStream(ring_bytes=10_000)
    for number in range(100):
        tell(stream, number)
    assert stream.bytes <= 10_000
    with stream.subscribe(after=2) as following:
        gap, *events = await read(following, 6)
    assert gap.kind == GAP
    assert gap.seq == events[0].seq - 1
    assert value_of(gap) == {"after": 2, "gone_up_to": gap.seq, "restarted": False}
    with stream.subscribe(after=gap.seq) as following:
        assert (await read(following, 1))[0].kind != GAP


async def test_a_number_of_a_process_that_is_no_more() -> None:
    stream = EventStream()
    tell(stream, 0)
    with stream.subscribe(after=5_000) as following:
        gap, event = await read(following, 2)
    assert (gap.kind, event.kind) == (GAP, "GroupEmptied")
    assert value_of(gap) == {"after": 5_000, "gone_up_to": -1, "restarted": True}


async def test_a_number_that_another_process_had_is_not_ones_own() -> None:
    before, now = EventStream(), EventStream()
    for number in range(10):
        tell(before, number)
        tell(now, number)
    assert before.instance != now.instance
    with now.subscribe(after=3, instance=before.instance) as following:
        gap, *events = await read(following, 11)
        assert following.start is None
    assert value_of(gap) == {"after": 3, "gone_up_to": -1, "restarted": True}
    assert [event.seq for event in events] == [*range(10)]
    with now.subscribe(after=3, instance=now.instance) as following:
        assert [event.seq for event in await read(following, 6)] == [*range(4, 10)]
        assert following.start == 3


async def test_a_new_reader_learns_its_position() -> None:
    stream = EventStream()
    tell(stream, 4)
    with stream.subscribe() as following:
        assert following.start == 4


async def test_one_group_and_some_kinds() -> None:
    stream = EventStream()
    stream.on_event(0, MemberIdRequired("g", 1, ALICE, "Stable"), 0, NOW)
    with (
        stream.subscribe("g", after=-1) as of_group,
        stream.subscribe(kinds=frozenset({"GroupEmptied"})) as of_kind,
    ):
        tell(stream, 1, "other")
        tell(stream, 2)
        stream.on_event(0, MemberIdRequired("g", 1, ALICE, "Stable"), 3, NOW)
        assert [event.seq for event in await read(of_group, 3)] == [0, 2, 3]
        assert [event.seq for event in await read(of_kind, 2)] == [1, 2]


async def test_only_a_slow_reader_is_disconnected() -> None:
    stream = EventStream(max_behind_bytes=5_000)
    with stream.subscribe() as slow, stream.subscribe() as quick:
        for number in range(100):
            tell(stream, number)
            await read(quick, 1)
        assert await is_over(slow)
        assert slow.bytes < 6_000
        tell(stream, 100)
        assert (await read(quick, 1))[0].seq == 100
    assert stream.cut_off_count == 1


async def test_readers_that_never_read_hold_little_more_than_the_ring() -> None:
    """Each begins with all that was in the ring at its time: that must not outlive the ring by much."""
    ring_bytes, behind_bytes, readers = 300_000, 30_000, 32
    stream = EventStream(ring_bytes, behind_bytes)
    tracemalloc.start()
    with ExitStack() as stack:
        for number in range(readers * 100):
            tell(stream, number)
            if number % 100 == 0:
                stack.enter_context(stream.subscribe(after=-1))
        held_bytes, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert stream.cut_off_count > readers - 3
        assert held_bytes < 1.5 * (ring_bytes + behind_bytes)
    assert stream.reader_count == 0


async def test_the_end_of_the_process_ends_it() -> None:
    stream = EventStream()
    with stream.subscribe() as following:
        waiting = asyncio.ensure_future(anext(following))
        await asyncio.sleep(0)
        stream.close()
        with pytest.raises(StopAsyncIteration):
            await waiting


async def test_every_event_of_a_group_s_life_has_a_line() -> None:
    group = ObservedCoordinator()
    group.formed("alice", "bob", "carol")
    group.rejoin("bob")
    group.beat("alice", "carol")
    group.advance(20_000)
    values = [value_of(event) for event in group.stream.list_recent()]
    assert len({value["kind"] for value in values}) > 10
    assert all(value["line"] for value in values)
    assert [value["seq"] for value in values] == sorted(value["seq"] for value in values)
    started = next(value for value in values if value["kind"] == "RebalanceStarted")
    assert (started["trigger"]["cause"], started["member"]["client_id"]) == ("member joined", "alice")


def test_long_texts_are_cut_and_counted() -> None:
    stream = EventStream(ring_bytes=200_000)
    name = MemberName("m" * 30_000, None, "c\x1b" * 10_000, "/127.0.0.1")
    detail = ProtocolsDiffer("consumer", ("p" * 1_000,) * 1_000, None, ())
    for number in range(0, 30, 3):
        stream.on_event(0, MemberLeft("g", 1, name, "r" * 30_000, False, "c", "/1"), number, NOW)
        stream.on_event(0, JoinRefused("g", None, name, ErrorCode.NONE, "", detail, None), number + 1, NOW)
        stream.on_event(
            0, CommitRefused("g", 1, name, ErrorCode.ILLEGAL_GENERATION, "", None, 1), number + 2, NOW
        )
    assert stream.bytes <= 200_000
    events = stream.list_recent()
    assert events
    assert all(event.data.isascii() or event.data.decode().isprintable() for event in events)
    assert all(len(event.data) < 60_000 for event in events)


def test_a_list_of_members_is_cut() -> None:
    stream = EventStream()
    group = ObservedCoordinator(stream=stream)
    group.formed(*(f"c{number}" for number in range(25)))
    started = [
        value_of(event) for event in stream.list_recent() if event.kind == get_wire_name(RebalanceStarted)
    ]
    assert len(started[-1]["members"]) == 20
