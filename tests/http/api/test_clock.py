"""The clock routes: request bodies, responses and messages."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest

from coordinator.broker.server import Server
from coordinator.control.control_plane import ControlPlane
from coordinator.control.operator_actions import OperatorAction
from coordinator.control.problem import Problem, ProblemKind
from coordinator.http.api.api_route import ApiCall
from coordinator.http.api.clock_routes import ROUTES
from tests.broker.harness import Client
from tests.broker.test_group_partitions import commit
from tests.control.clock.living_member import GROUP, members_of
from tests.control.serving import controlled


@pytest.fixture
async def served() -> AsyncIterator[tuple[Server, ControlPlane]]:
    async with controlled() as served:
        yield served


async def asked(
    control: ControlPlane, method: str, path: str, body: bytes = b"{}", **names: str
) -> tuple[Any, str | None]:
    """Return the response as JSON and as text."""
    (route,) = [route for route in ROUTES if (route.method, route.path) == (method, path)]
    value = None if route.body is None else msgspec.json.decode(body, type=route.body)
    answer = await route.handle(control, ApiCall(path=names, query=None, body=value, actor="me"))
    if route.answer is not None:
        assert isinstance(answer, route.answer)
    return msgspec.to_builtins(answer), route.text and route.text(answer)


async def test_a_clock_is_frozen_moved_and_removed(served: tuple[Server, ControlPlane]) -> None:
    _, control = served
    path = "/groups/{group}/clock"
    acts: list[OperatorAction] = []
    control.actions.listeners.append(acts.append)
    shown, text = await asked(control, "GET", path, group=GROUP)
    assert (shown["clock"], shown["frozen"], shown["ahead_ms"], shown["next"]) == ("process", False, 0, None)
    frozen, text = await asked(control, "PUT", path, b'{"frozen": true, "except": "gone"}', group=GROUP)
    assert (frozen["clock"], frozen["frozen"], frozen["except"]) == ("group", True, "gone")
    assert text is not None
    assert "is frozen, except for" in text
    moved, text = await asked(control, "POST", path + "/advance", b'{"by": "45s", "silent": []}', group=GROUP)
    assert (moved["by_ms"], moved["fired"]) == (45_000, [])
    assert moved["clock"]["frozen"]
    await asked(control, "POST", path + "/step", b'{"settle": "1s"}', group=GROUP)
    assert await asked(control, "DELETE", path, group=GROUP) == (None, None)
    assert control.clocks.find_state(GROUP) is None
    assert [(act.kind, act.by) for act in acts] == [("clock", "me")] * 4
    assert acts[1].what.startswith("advance 45s")


async def test_the_default_clock_has_the_same_calls(served: tuple[Server, ControlPlane]) -> None:
    _, control = served
    await asked(control, "PUT", "/clock", b'{"frozen": true}')
    moved, text = await asked(control, "POST", "/clock/advance", b'{"by": 86400000}')
    assert moved["clock"]["group_id"] is None
    assert text is not None
    assert text.startswith("1 d passed. The default clock is frozen")
    assert (await asked(control, "GET", "/groups/{group}/clock", group=GROUP))[0]["clock"] == "default"
    await asked(control, "DELETE", "/clock")
    assert (await asked(control, "GET", "/clock"))[0]["clock"] == "process"


@pytest.mark.parametrize(
    ("method", "path", "body", "pointer"),
    [
        ("PUT", "/clock", b'{"frozen": false, "except": "gone"}', "/except"),
        ("POST", "/clock/advance", b'{"by": "soon"}', "/by"),
        ("POST", "/clock/advance", b'{"by": -1}', "/by"),
        ("POST", "/clock/advance", b'{"by": 1, "settle": "1h"}', "/settle"),
    ],
)
async def test_what_makes_no_sense_is_refused(
    served: tuple[Server, ControlPlane], method: str, path: str, body: bytes, pointer: str
) -> None:
    with pytest.raises(Problem) as refused:
        await asked(served[1], method, path, body)
    assert refused.value.kind is ProblemKind.BAD_REQUEST
    assert refused.value.fields["pointer"] == pointer
    assert not served[1].clocks.times


async def test_members_and_offsets(served: tuple[Server, ControlPlane]) -> None:
    server, control = served
    async with AsyncExitStack() as stack:
        await members_of(stack, server, "alice", "bob")
        path = "/groups/{group}/members/{member}/"
        answer, text = await asked(control, "POST", path + "expire", group=GROUP, member="alice")
        assert answer["client_id"] == "alice"
        assert text == (
            f"The session of alice ({answer['expired']}) is over. "
            f"The group rebalances to generation {answer['rebalance']}."
        )
        _, text = await asked(
            control, "POST", path + "remove", b'{"reason": "why"}', group=GROUP, member="bob"
        )
        assert text is not None
        assert "was removed" in text
    async with Client(server) as client:
        await client.call(commit(7, group="audit"), 2)
    expired, text = await asked(
        control, "POST", "/groups/{group}/offsets/expire", b'{"at": "+8d"}', group="audit"
    )
    assert (expired["expired"], expired["group"]) == ({"orders": [0]}, "deleted")
    assert text == "orders: 0\nThe group is deleted."
