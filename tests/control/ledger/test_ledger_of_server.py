"""The ledger and the event stream of a server, over real sockets, and the responses of the API about them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec import json

from coordinator.broker.composition_root import open_server
from coordinator.broker.server import Server
from coordinator.control.control_plane import ControlPlane
from coordinator.control.ledger.ledger_entry import EntryResult, LedgerEntry
from coordinator.control.problem import Problem, ProblemKind
from coordinator.http.api.api_route import ApiCall
from coordinator.http.api.event_stream_routes import StreamQuery, create_following, format_event
from coordinator.http.api.ledger_routes import ROUTES, LedgerAnswer, LedgerQuery
from protocol.error_codes import ErrorCode
from tests.apis.test_consumer_groups import joining
from tests.broker.harness import (
    TIMEOUT_S,
    Client,
    heartbeat_request,
    join_alone,
    join_request,
    settings,
    sync_request,
)
from tests.broker.test_group_partitions import code, commit

OF_GROUP, OF_ALL = ROUTES
SESSION_MS = 300


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    file = {"ledger.file": str(tmp_path / "ledger.jsonl")}
    server = open_server(settings(tmp_path / "data", file, topics=[("orders", 3)]))
    yield server
    await server.close()


@pytest.fixture
async def control(server: Server) -> AsyncIterator[ControlPlane]:
    control = ControlPlane(server)
    await server.listen()
    await asyncio.wait_for(server.ready.wait(), TIMEOUT_S)
    yield control
    control.close()
    await control.ledger.close()


async def asked(
    control: ControlPlane, group_id: str | None = None, after: object = -1, **query: int
) -> LedgerAnswer:
    route, path = (OF_ALL, {}) if group_id is None else (OF_GROUP, {"group": group_id})
    answer = await route.handle(control, ApiCall(path, LedgerQuery(after=str(after), **query), None, None))
    assert isinstance(answer, LedgerAnswer)
    return answer


async def begun(control: ControlPlane, times: int) -> None:
    """Waits until so many rebalances of the group have begun."""
    with control.stream.subscribe("billing", frozenset({"RebalanceStarted"}), after=-1) as following:
        for _ in range(times):
            await asyncio.wait_for(anext(following), TIMEOUT_S)


async def test_a_member_that_died_and_its_connection(
    server: Server, control: ControlPlane, tmp_path: Path
) -> None:
    closed: asyncio.Queue[LedgerEntry] = asyncio.Queue()
    control.ledger.listeners.append(closed.put_nowait)
    async with Client(server, "alice") as alice:
        async with Client(server, "bob") as bob:
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
    assert actor.real.connection_closed_ms_ago <= actor.last_heard_ms_ago + 1  # each is rounded by itself
    real = entries[-1].real
    assert real is not None
    assert abs(real.total_ms - entries[-1].total_ms) < 100
    answer = await asked(control, "billing")
    assert answer.entries == entries
    assert answer.next == entries[-1].seq
    assert (await asked(control, "billing", after=answer.next)).entries == []
    assert OF_GROUP.text is not None
    assert "session expired: bob (127.0.0.1, last heard" in OF_GROUP.text(answer)
    lines = b"".join(control.ledger.list_lines("billing"))
    assert [json.decode(line)["seq"] for line in lines.splitlines()] == [entry.seq for entry in entries]
    assert control.ledger.file is not None
    await control.ledger.file.flush()
    assert (tmp_path / "ledger.jsonl").read_bytes() == lines


async def test_the_epochs_of_a_consumer_group(server: Server, control: ControlPlane, tmp_path: Path) -> None:
    kinds = ["EpochBumped", "MemberReconciled"]
    with create_following(control, StreamQuery(group="billing", kind=kinds), None) as following:
        async with Client(server, "alice") as alice:
            answer = await alice.call(joining("billing"), 1)
            assert answer.error_code == ErrorCode.NONE
        entries = [await asyncio.wait_for(anext(following), TIMEOUT_S) for _ in kinds]
    assert [event.kind for event in entries] == kinds
    (entry,) = (await asked(control, "billing")).entries
    assert entry.actor is not None
    assert (entry.cause, entry.actor.client_id, entry.result) == (
        "member joined",
        "alice",
        EntryResult.STABLE,
    )
    assert (entry.type, entry.group_epoch, entry.assignment_epoch) == ("consumer", 2, 2)
    (story,) = entry.members
    assert (story.member_epoch, story.gained) == (2, ["orders-0", "orders-1", "orders-2"])
    assert control.ledger.file is not None
    await control.ledger.file.flush()
    assert json.decode((tmp_path / "ledger.jsonl").read_bytes(), type=LedgerEntry) == entry


async def test_the_ledgers_of_all_groups_and_of_an_unknown_one(server: Server, control: ControlPlane) -> None:
    async with Client(server) as client, Client(server) as other:
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


async def test_groups_that_are_unloaded_and_read_again(server: Server, control: ControlPlane) -> None:
    async with Client(server) as client:
        joined = await client.call(join_request("g"), 3)
        assert joined.error_code == 0
        assert (await asked(control, "g")).entries[-1].result is EntryResult.OPEN
        runtime = server.runtime
        closed: asyncio.Queue[LedgerEntry] = asyncio.Queue()
        control.ledger.listeners.append(closed.put_nowait)
        runtime.lifecycle.reload_partition(runtime.find_partition("g"))
        assert (await asked(control, "g")).entries[-1].result is EntryResult.FAILED
        assert (await asyncio.wait_for(closed.get(), TIMEOUT_S)).result is EntryResult.FAILED


async def test_the_stream_tells_of_commits_nothing_and_of_all_else(
    server: Server, control: ControlPlane
) -> None:
    with create_following(control, StreamQuery(group="g"), None) as following:
        async with Client(server) as client:
            member_id, generation_id = await join_alone(client, "g")
            before = control.stream.last_seq
            committed = await client.call(commit(5, member_id=member_id, generation_id=generation_id), 8)
            assert code(committed) == ErrorCode.NONE
            assert control.stream.last_seq == control.ledger.last_seq == before
        kinds: list[str] = []
        while not kinds or kinds[-1] != "AssignmentFetched":
            kinds.append((await asyncio.wait_for(anext(following), TIMEOUT_S)).kind)
    assert kinds == [
        "MemberJoined", "RebalanceStarted", "GroupStabilized", "SyncReceived", "AssignmentReceived",
        "AssignmentApplied", "RebalanceCompleted", "AssignmentFetched",
    ]  # fmt: skip


async def test_the_stream_resumes_from_the_last_event_id(server: Server, control: ControlPlane) -> None:
    async with Client(server) as client:
        await join_alone(client, "g")
    query = StreamQuery(kind=["GroupStabilized, RebalanceCompleted"], after="10000")
    instance = control.stream.instance
    with create_following(control, query, f"{instance}.0") as following:
        texts = [
            format_event(await asyncio.wait_for(anext(following), TIMEOUT_S), instance) for _ in range(2)
        ]
    for text, kind in zip(texts, ("GroupStabilized", "RebalanceCompleted"), strict=True):
        number, name, data = text.decode().removesuffix("\n\n").split("\n")
        value = json.decode(data.removeprefix("data: "))
        assert (number, name) == (f"id: {instance}.{value['seq']}", f"event: {kind}")


@pytest.mark.parametrize(
    ("kind", "last_event_id"), [("GroupStable", None), ("OffsetsCommitted", None), ("", "x")]
)
async def test_a_stream_that_cannot_be_is_refused(
    control: ControlPlane, kind: str, last_event_id: str | None
) -> None:
    with pytest.raises(Problem) as caught:
        create_following(control, StreamQuery(kind=[kind]), last_event_id)
    assert caught.value.kind is ProblemKind.BAD_REQUEST


async def test_a_number_of_another_process_is_refused(server: Server, control: ControlPlane) -> None:
    """Event numbers restart with the daemon, so an old number is not a position in its ledger."""
    async with Client(server, "alice") as alice:
        await join_alone(alice, "billing")
    answer = await asked(control)
    here = f"{answer.mark}.{answer.next}"
    assert (await asked(control, after=here)).entries == []
    assert (await asked(control, after=f"{answer.mark}.-1")).entries == answer.entries
    for other in (f"0{answer.mark}.0", answer.next + 1000):
        with pytest.raises(Problem) as refused:
            await asked(control, after=other)
        assert refused.value.kind is ProblemKind.RESTARTED
        assert refused.value.fields["mark"] == answer.mark
    with pytest.raises(Problem) as wrong:
        await asked(control, after="x.1")
    assert wrong.value.kind is ProblemKind.BAD_REQUEST
