"""The wait routes: parameters, responses and messages."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from coordinator.broker.server import Server
from coordinator.control.control_plane import ControlPlane
from coordinator.control.problem import Problem, ProblemKind
from coordinator.http.api.api_route import ApiCall, ApiRoute
from coordinator.http.api.diagnosis_routes import WAIT_ROUTES
from tests.broker.harness import Client, join_alone, serving


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as server:
        yield server


def route(end: str) -> ApiRoute:
    return next(route for route in WAIT_ROUTES if route.path.endswith(f"/{end}"))


async def answered(control: ControlPlane, end: str, body: bytes | None = None) -> Any:
    """What a route answers to a body."""
    found = route(end)
    value = None if body is None or found.body is None else msgspec.json.decode(body, type=found.body)
    answer = await found.handle(
        control, ApiCall(path={"group": "billing"}, query=None, body=value, actor=None)
    )
    assert isinstance(answer, found.answer)
    msgspec.json.encode(answer)
    return answer


def text(end: str, answer: Any) -> str:
    """An answer as text for people."""
    to_text = route(end).text
    assert to_text is not None
    return to_text(answer)


async def test_they_change_nothing() -> None:
    assert not any(route.changes or route.needs_enable for route in WAIT_ROUTES)


async def test_a_wait_a_check_and_an_explanation(server: Server) -> None:
    control = ControlPlane(server)
    async with Client(server, "alice") as alice:
        await join_alone(alice, "billing")
        met = await answered(control, "wait", b'{"state": "Stable", "members": 1, "within": "60s"}')
        assert met.group.generation_id == 1
        assert text("wait", met).startswith("billing is Stable: generation 1, 1 member (")
        assert (await answered(control, "check", b'{"clients": ["alice"]}')).waited_ms < 5_000
        explained = await answered(control, "explain")
        assert text("explain", explained).startswith("billing is Stable since")


async def test_what_is_not_so_is_a_problem(server: Server) -> None:
    control = ControlPlane(server)
    with pytest.raises(Problem) as raised:
        await answered(control, "wait", b'{"members": 4, "within": "20ms"}')
    problem = raised.value
    assert problem.kind is ProblemKind.NOT_MET
    assert set(problem.fields) == {"seq", "unmet", "hints", "actions"}
    document = msgspec.json.decode(msgspec.json.encode(problem.fields))
    assert document["unmet"][0]["wanted"] == 4
    assert document["unmet"][0]["is"]["members"] == 0


async def test_without_a_ledger_nobody_waits_for_its_entries(server: Server) -> None:
    control = ControlPlane(server)
    control.waits.snapshots.has_ledger = False
    with pytest.raises(Problem) as raised:
        await answered(control, "check", b'{"rebalanced": {}}')
    assert raised.value.kind is ProblemKind.NOT_POSSIBLE


async def test_a_wait_that_is_too_long(server: Server) -> None:
    with pytest.raises(Problem) as raised:
        await answered(ControlPlane(server), "wait", b'{"members": 1, "within": "1h"}')
    assert raised.value.kind is ProblemKind.BAD_REQUEST
    assert raised.value.fields == {"pointer": "/within"}
