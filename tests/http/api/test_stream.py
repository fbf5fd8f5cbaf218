"""Answers that come in pieces: events as they happen, and the ledger line by line."""

import asyncio
import gc
import logging
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple, Self

import msgspec
import pytest

from coordinator.http.api import api_service, event_stream_routes
from tests.http.api.api_port import Api, serving_api
from tests.http.test_http import Caller, get

TIMEOUT_S: Final = 60


class ExpectedEvent(NamedTuple):
    """An event as a stream gives it."""

    seq: int
    kind: str
    data: bytes


class Entry(msgspec.Struct):
    """What matters of an entry of the ledger here."""

    seq: int
    group_id: str


class Source:
    """A source of events for a stream, driven by the test."""

    def __init__(self) -> None:
        self.instance = "abcd"
        self.start = 6
        self.asked: list[tuple[str | None, frozenset[str], int | None, str | None]] = []
        self.open = 0
        self._left = asyncio.Event()
        self._events: deque[ExpectedEvent | None] = deque()
        self._changed = asyncio.Event()

    def subscribe(
        self, group_id: str | None, kinds: frozenset[str], after: int | None, instance: str | None
    ) -> Self:
        self.asked.append((group_id, kinds, after, instance))
        return self

    def __enter__(self) -> Self:
        self.open += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.open -= 1
        self._left.set()

    async def __anext__(self) -> ExpectedEvent:
        while not self._events:
            self._changed.clear()
            await self._changed.wait()
        event = self._events.popleft()
        if event is None:
            raise StopAsyncIteration
        return event

    def tell(self, *events: ExpectedEvent | None) -> None:
        """None: it is over."""
        self._events.extend(events)
        self._changed.set()

    def close(self) -> None:
        """The daemon ends: its readers find nothing more."""
        self.tell(None)

    async def nobody_follows(self) -> None:
        while self.open:
            self._left.clear()
            await asyncio.wait_for(self._left.wait(), TIMEOUT_S)


def feed(api: Api) -> Source:
    """Gives the API a source of events."""
    source = Source()
    setattr(api.control, "stream", source)  # noqa: B010 - bound late there, too
    return source


async def until(caller: Caller, end: bytes) -> bytes:
    """What is read, up to some bytes."""
    return await asyncio.wait_for(caller.reader.readuntil(end), TIMEOUT_S)


async def test_events_are_read_as_they_happen() -> None:
    async with serving_api() as api, Caller(api.port) as caller:
        source = feed(api)
        caller.writer.write(get("/v1/stream?group=billing&kind=GroupStabilized&kind=MemberLeft"))
        head = await until(caller, b"\r\n\r\n")
        assert b"200 OK" in head
        assert b"Content-Type: text/event-stream" in head
        assert b"no-store" in head
        assert b"id: abcd.6\n" in await until(caller, b"retry: 1000\n\n")
        assert source.asked == [("billing", frozenset({"GroupStabilized", "MemberLeft"}), None, None)]
        source.tell(ExpectedEvent(7, "GroupStabilized", b'{"seq":7}'))
        assert b'id: abcd.7\nevent: GroupStabilized\ndata: {"seq":7}\n\n' in await until(caller, b"}\n\n")
        source.tell(ExpectedEvent(9, "gap", b"{}"), None)
        assert b"id: abcd.9\nevent: gap\ndata: {}\n\n" in await caller.all()
        await source.nobody_follows()


@pytest.mark.parametrize(
    ("query", "header", "asked"),
    [
        ("", "41", (41, None)),
        ("?after=3", "5f3a9c1e.41", (41, "5f3a9c1e")),
        ("?after=3", "5f3a9c1e.-1", (-1, "5f3a9c1e")),
        ("?after=3", None, (3, None)),
        ("?after=5f3a9c1e.41", None, (41, "5f3a9c1e")),
        ("?after=-1", "", (-1, None)),
        ("", None, (None, None)),
        ("", "", (None, None)),
    ],
)
async def test_who_comes_back_says_where_it_was(
    query: str, header: str | None, asked: tuple[int | None, str | None]
) -> None:
    async with serving_api() as api:
        source = feed(api)
        source.tell(None)
        headers = {} if header is None else {"Last-Event-ID": header}
        assert (await api.call("GET", f"/v1/stream{query}", headers=headers)).status == 200
        assert [(after, instance) for _, _, after, instance in source.asked] == [asked]
        for wrong in ("x", "-2", "9" * 30, "x.5", "5f.", "5f.-2", ".5", "5f.5.5"):
            refused = await api.call("GET", "/v1/stream", headers={"Last-Event-ID": wrong})
            assert refused.problem == "bad-request"
            refused = await api.call("GET", f"/v1/stream?after={wrong}")
            assert (refused.problem, refused.value["pointer"]) == ("bad-request", "/after")


async def test_while_nothing_happens_something_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream_routes, "HEARTBEAT_S", 0.05)
    async with serving_api() as api, Caller(api.port) as caller:
        feed(api)
        caller.writer.write(get("/v1/stream"))
        read = b""
        while read.count(b": nothing happened\n\n") < 3:
            read += await until(caller, b"\n\n")


async def test_a_reader_that_goes_is_not_followed_for() -> None:
    async with serving_api() as api:
        source = feed(api)
        async with Caller(api.port) as caller:
            caller.writer.write(get("/v1/stream"))
            await until(caller, b"retry: 1000\n\n")
            assert source.open == 1
        await source.nobody_follows()
        head = await api.call("HEAD", "/v1/stream")
        assert (head.status, head.content_type, source.open) == (200, "text/event-stream", 0)


async def test_readers_have_an_end_when_the_daemon_has() -> None:
    async with serving_api() as api:
        source = feed(api)
        caller = await Caller(api.port).__aenter__()
        caller.writer.write(get("/v1/stream"))
        await until(caller, b"retry: 1000\n\n")
    await caller.all()
    await source.nobody_follows()
    await caller.__aexit__()


async def test_a_stop_that_ends_readers_is_nothing_to_tell_of(caplog: pytest.LogCaptureFixture) -> None:
    async with serving_api() as api:
        callers = [await Caller(api.port).__aenter__() for _ in range(3)]
        for caller in callers:
            caller.writer.write(get("/v1/stream"))
            await until(caller, b"retry: 1000\n\n")
    for caller in callers:
        assert (await caller.all()).endswith(b"0\r\n\r\n")
        await caller.__aexit__()
    gc.collect()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_there_are_only_so_many_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_service, "MAX_ENDLESS_STREAMS", 1)
    async with serving_api() as api:
        source = feed(api)
        async with Caller(api.port) as caller:
            caller.writer.write(get("/v1/stream"))
            await until(caller, b"retry: 1000\n\n")
            assert (await api.call("GET", "/v1/stream")).problem == "too-many"
            assert source.open == 1
        await source.nobody_follows()
        source.tell(None)
        assert (await api.call("GET", "/v1/stream")).status == 200


async def test_the_ledger_is_one_entry_a_line() -> None:
    entries = [Entry(number, "billing" if number % 2 else "audit") for number in range(450)]

    class Ledger:
        def list_lines(self, group_id: str | None, after: int = -1) -> Iterator[bytes]:
            for one in entries:
                if group_id in (None, one.group_id) and one.seq > after:
                    yield msgspec.json.encode(one) + b"\n"

        def has_entries(self, group_id: str) -> bool:
            return True

    async with serving_api() as api:
        setattr(api.control, "ledger", Ledger())  # noqa: B010 - bound late there, too
        api.control.stream.last_seq = 460
        everything = await api.call("GET", "/v1/ledger.jsonl")
        assert everything.content_type == "application/x-ndjson"
        assert [msgspec.json.decode(line)["seq"] for line in everything.body.splitlines()] == [*range(450)]
        some = await api.call("GET", "/v1/groups/billing/ledger.jsonl?after=440")
        assert [msgspec.json.decode(line)["seq"] for line in some.body.splitlines()] == [
            441,
            443,
            445,
            447,
            449,
        ]
        nothing = await api.call("GET", f"/v1/ledger.jsonl?after={api.control.stream.instance}.450")
        assert (nothing.status, nothing.body) == (200, b"")
        for path in ("/v1/ledger.jsonl", "/v1/groups/billing/ledger.jsonl"):
            for elsewhere in ("1000", "77aa.440"):
                refused = await api.call("GET", f"{path}?after={elsewhere}")
                assert (refused.status, refused.problem) == (409, "restarted"), elsewhere
                assert (refused.value["mark"], refused.value["seq"]) == (api.control.stream.instance, 460)
            assert (await api.call("GET", f"{path}?after=x")).problem == "bad-request"
        assert (await api.call("GET", "/v1/ledger.jsonl?before=1")).problem == "bad-request"
