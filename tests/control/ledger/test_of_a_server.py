"""The ledger and the stream of a server, over real sockets, and what the API answers of them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec import json

from coordinator.console.api.ledger import ROUTES, LedgerAnswer, LedgerQuery, ledger_lines
from coordinator.console.api.route import Call
from coordinator.control.control import Control
from coordinator.control.ledger.entry import EntryResult, LedgerEntry
from coordinator.control.problem import Problem, ProblemKind
from coordinator.server.server import Server
from tests.server.harness import (
    TIMEOUT_S,
    Client,
    heartbeat_request,
    join_alone,
    join_request,
    settings,
    sync_request,
)

OF_GROUP, OF_ALL = ROUTES
SESSION_MS = 300


@pytest.fixture
async def control(tmp_path: Path) -> AsyncIterator[Control]:
    how = settings(tmp_path / "data", {"ledger.file": str(tmp_path / "ledger.jsonl")}, topics=[("orders", 3)])
    server = Server(how)
    server.open()
    control = Control(server)
    await server.listen()
    await asyncio.wait_for(server.ready.wait(), TIMEOUT_S)
    control.server = server  # type: ignore[attr-defined]
    try:
        yield control
    finally:
        await server.close()
        control.close()
        await control.ledger.close()


async def asked(control: Control, group_id: str | None = None, **query: int) -> LedgerAnswer:
    route, path = (OF_ALL, {}) if group_id is None else (OF_GROUP, {"group": group_id})
    answer = await route.handle(control, Call(path, LedgerQuery(**query), None, None))
    assert isinstance(answer, LedgerAnswer)
    return answer


def server_of(control: Control) -> Server:
    server: Server = control.server  # type: ignore[attr-defined]
    return server


async def begun(control: Control, times: int) -> None:
    """Waits until so many rebalances of the group have begun."""
    with control.stream.follow("billing", frozenset({"RebalanceStarted"}), after=-1) as following:
        for _ in range(times):
            await asyncio.wait_for(anext(following), TIMEOUT_S)


async def test_a_member_that_died_and_its_connection(control: Control, tmp_path: Path) -> None:
    closed: asyncio.Queue[LedgerEntry] = asyncio.Queue()
    control.ledger.listeners.append(closed.put_nowait)
    async with Client(server_of(control), "alice") as alice:
        async with Client(server_of(control), "bob") as bob:
            alice.send(join_request("billing", session_timeout_ms=10_000), 3)
            first = await alice.receive()
            alice.send(sync_request("billing", first.member_id, 1, {first.member_id: b""}), 3)
            await alice.receive()
            bob.send(join_request("billing", session_timeout_ms=SESSION_MS), 3)
            await begun(control, 2)
            alice.send(join_request("billing", first.member_id), 3)
            joined, other = await alice.receive(), await bob.receive()
            alice.send(sync_request("billing", first.member_id, joined.generation_id, {}), 3)
            bob.send(sync_request("billing", other.member_id, joined.generation_id, {}), 3)
            await alice.receive()
            await bob.receive()
        await begun(control, 3)
        await alice.call(heartbeat_request("billing", first.member_id, 2), 3)
        assert (await asked(control, "billing")).entries[-1].result is EntryResult.OPEN
        alice.send(join_request("billing", first.member_id), 3)
        await alice.receive()
        alice.send(sync_request("billing", first.member_id, 3, {first.member_id: b""}), 3)
        await alice.receive()
    entries = [await asyncio.wait_for(closed.get(), TIMEOUT_S) for _ in range(3)]
    assert [entry.cause for entry in entries] == ["member joined", "member joined", "session expired"]
    actor = entries[-1].actor
    assert actor is not None
    assert (actor.client_id, actor.client_host) == ("bob", "/127.0.0.1")
    assert actor.last_heard_ms_ago == actor.real.last_heard_ms_ago
    assert actor.last_heard_ms_ago is not None
    assert actor.last_heard_ms_ago >= SESSION_MS
    assert actor.real.connection_closed_ms_ago is not None
    assert actor.real.connection_closed_ms_ago <= actor.last_heard_ms_ago
    real = entries[-1].real
    assert real is not None
    assert abs(real.total_ms - entries[-1].total_ms) < 100
    answer = await asked(control, "billing")
    assert answer.entries == entries
    assert answer.next == entries[-1].seq
    assert (await asked(control, "billing", after=answer.next)).entries == []
    assert OF_GROUP.text is not None
    assert "session expired: bob (127.0.0.1, last heard" in OF_GROUP.text(answer)
    lines = b"".join(ledger_lines(control, "billing", -1))
    assert [json.decode(line)["seq"] for line in lines.splitlines()] == [entry.seq for entry in entries]
    assert control.ledger.file is not None
    await control.ledger.file.written()
    assert (tmp_path / "ledger.jsonl").read_bytes() == lines


async def test_every_group_and_one_that_is_not_there(control: Control) -> None:
    async with Client(server_of(control)) as client, Client(server_of(control)) as other:
        await join_alone(client, "a")
        await join_alone(other, "b")
    answer = await asked(control)
    assert [entry.group_id for entry in answer.entries] == ["a", "b"]
    assert [entry.group_id for entry in (await asked(control, limit=1)).entries] == ["a"]
    assert [entry.group_id for entry in (await asked(control, last=1)).entries] == ["b"]
    assert OF_ALL.text is not None
    assert OF_ALL.text(answer).startswith("a #1")
    with pytest.raises(Problem) as caught:
        await asked(control, "c\x1b")
    assert caught.value.kind is ProblemKind.NO_SUCH_GROUP
    assert caught.value.detail.isprintable()


async def test_groups_that_are_unloaded_and_read_again(control: Control) -> None:
    async with Client(server_of(control)) as client:
        joined = await client.call(join_request("g"), 3)
        assert joined.error_code == 0
        assert (await asked(control, "g")).entries[-1].result is EntryResult.OPEN
        runtime = server_of(control).runtime
        closed: asyncio.Queue[LedgerEntry] = asyncio.Queue()
        control.ledger.listeners.append(closed.put_nowait)
        runtime.ownership.reload(runtime.partition_of("g"))
        assert (await asked(control, "g")).entries[-1].result is EntryResult.FAILED
        assert (await asyncio.wait_for(closed.get(), TIMEOUT_S)).result is EntryResult.FAILED


async def test_the_stream_tells_of_commits_nothing_and_of_all_else(control: Control) -> None:
    with control.stream.follow("g") as following:
        async with Client(server_of(control)) as client:
            await join_alone(client, "g")
        kinds: list[str] = []
        while not kinds or kinds[-1] != "AssignmentFetched":
            kinds.append((await asyncio.wait_for(anext(following), TIMEOUT_S)).kind)
    assert kinds == [
        "MemberJoined", "RebalanceStarted", "GroupStabilized", "SyncReceived", "AssignmentReceived",
        "AssignmentApplied", "RebalanceCompleted", "AssignmentFetched",
    ]  # fmt: skip
