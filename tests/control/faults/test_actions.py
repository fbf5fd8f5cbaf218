"""Every action on every API of groups, in its oldest and its newest version, as a client sees it."""

import asyncio
from typing import Any

import pytest

from coordinator.control.problem import Problem, ProblemKind
from protocol.apis import APIS, ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.list_groups import ListGroupsRequest
from tests.broker.harness import Client, heartbeat_request, join_alone
from tests.control.faults.lab import Lab
from tests.control.faults.requests import CASES, GROUP, NAMES, REQUESTS, Subject, errors_of

ERROR = "COORDINATOR_NOT_AVAILABLE"
EVERY_API = pytest.mark.parametrize(("key", "version"), CASES, ids=NAMES)
AT = pytest.mark.parametrize("at", ["request", "answer"])


async def subject_of(lab: Lab, client: Client) -> Subject:
    """The only member of the group, on this connection."""
    member_id, generation_id = await join_alone(client, GROUP)
    return Subject(lab.server, member_id, generation_id)


def match(key: ApiKey) -> dict[str, Any]:
    return {"api": APIS[key].name}


@EVERY_API
@AT
async def test_an_error_stands_where_kafka_puts_it(lab: Lab, key: ApiKey, version: int, at: str) -> None:
    async with Client(lab.server) as client:
        subject = await subject_of(lab, client)
        name = lab.fault(match(key), do={"at": at, "error": ERROR})
        answer = await client.call(REQUESTS[key](subject, version), version)
        assert errors_of(key, answer) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        again = await client.call(REQUESTS[key](subject, version), version)
        assert ErrorCode.COORDINATOR_NOT_AVAILABLE not in errors_of(key, again)
    status = lab.status(name)
    assert (status.matched, status.hit, status.state) == (2, 1, "spent")
    assert status.last is not None
    assert status.last.api == APIS[key].name


@EVERY_API
@AT
async def test_a_hold_is_answered_when_it_is_released(lab: Lab, key: ApiKey, version: int, at: str) -> None:
    """Later requests of the connection wait for it, those of other connections do not."""
    async with Client(lab.server) as client, Client(lab.server) as other:
        subject = await subject_of(lab, client)
        name = lab.fault(match(key), do={"at": at, "hold": True})
        client.send(REQUESTS[key](subject, version), version)
        client.send(ListGroupsRequest(), 0)
        assert (await lab.hit(name)).holding == 1
        assert (await other.call(heartbeat_request("nobody", "m", 1), 0)).error_code
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.reader.readexactly(1), 0.01)
        released = lab.faults.release_fault(name)
        assert (released.released, released.holding) == (1, 0)
        assert ErrorCode.COORDINATOR_NOT_AVAILABLE not in errors_of(key, await client.receive())
        assert (await client.receive()).error_code == ErrorCode.NONE
    lab.faults.remove_all()
    await lab.until_plain()


@EVERY_API
@AT
async def test_a_delay_is_over_by_itself(lab: Lab, key: ApiKey, version: int, at: str) -> None:
    async with Client(lab.server) as client:
        subject = await subject_of(lab, client)
        name = lab.fault(match(key), do={"at": at, "delay": {"ms": 20, "jitter_ms": 5}})
        started = asyncio.get_running_loop().time()
        client.send(REQUESTS[key](subject, version), version)
        client.send(ListGroupsRequest(), 0)
        answer = await client.receive()
        assert asyncio.get_running_loop().time() - started >= 0.02
        assert ErrorCode.COORDINATOR_NOT_AVAILABLE not in errors_of(key, answer)
        assert (await client.receive()).error_code == 0
        assert lab.status(name).holding == 0


@EVERY_API
@AT
async def test_a_drop_closes_the_connection(lab: Lab, key: ApiKey, version: int, at: str) -> None:
    async with Client(lab.server) as client:
        subject = await subject_of(lab, client)
        lab.fault(match(key), do={"at": at, "drop": True})
        client.send(REQUESTS[key](subject, version), version)
        assert await client.closed()


@EVERY_API
@AT
async def test_swallowed_requests_get_no_response(lab: Lab, key: ApiKey, version: int, at: str) -> None:
    """Later requests get no response either. The removal of the fault closes the connection."""
    async with Client(lab.server) as client:
        subject = await subject_of(lab, client)
        name = lab.fault(match(key), do={"at": at, "swallow": True})
        client.send(REQUESTS[key](subject, version), version)
        client.send(ListGroupsRequest(), 0)
        assert (await lab.hit(name)).holding == 1
        lab.faults.remove_fault(name)
        assert await client.closed()
        await lab.until_plain()


@EVERY_API
async def test_a_throttle_time_is_put_where_there_is_room(lab: Lab, key: ApiKey, version: int) -> None:
    async with Client(lab.server) as client:
        subject = await subject_of(lab, client)
        lab.fault(match(key), times=None, do={"at": "answer", "throttle_ms": 77})
        answer = await client.call(REQUESTS[key](subject, version), version)
        has_room = version > 0 or key in (ApiKey.DELETE_GROUPS, ApiKey.OFFSET_DELETE)
        assert answer.throttle_time_ms == (77 if has_room else 0)
        lab.faults.remove_all()
        assert (await client.call(REQUESTS[key](subject, version), version)).throttle_time_ms == 0


@pytest.mark.parametrize("version", [0, 3, 4, 6])
async def test_another_coordinator_is_named(lab: Lab, version: int) -> None:
    key = ApiKey.FIND_COORDINATOR
    async with Client(lab.server) as client:
        subject = await subject_of(lab, client)
        outcome = {"node_id": 9, "host": "elsewhere", "port": 1234}
        lab.fault({"api": "FindCoordinator", "group": GROUP}, do={"at": "answer", "coordinator": outcome})
        answer = await client.call(REQUESTS[key](subject, version), version)
        found = answer.coordinators[0] if version >= 4 else answer
        assert (found.node_id, found.host, found.port, found.error_code) == (9, "elsewhere", 1234, 0)


@pytest.mark.parametrize("at", ["request", "answer"])
async def test_errors_before_and_after_the_group_differ(lab: Lab, at: str) -> None:
    """A commit that is refused before is missing. A commit with a changed response exists."""
    async with Client(lab.server) as client:
        subject = await subject_of(lab, client)
        lab.fault(match(ApiKey.OFFSET_COMMIT), do={"at": at, "error": "REQUEST_TIMED_OUT"})
        answer = await client.call(REQUESTS[ApiKey.OFFSET_COMMIT](subject, 8), 8)
        assert errors_of(ApiKey.OFFSET_COMMIT, answer) == [ErrorCode.REQUEST_TIMED_OUT]
        found = await client.call(REQUESTS[ApiKey.OFFSET_FETCH](subject, 5), 5)
        assert found.topics[0].partitions[0].committed_offset == (-1 if at == "request" else 7)


async def test_a_fault_can_confirm_a_commit_that_did_not_happen(lab: Lab) -> None:
    async with Client(lab.server) as client:
        subject = await subject_of(lab, client)
        lab.fault(match(ApiKey.OFFSET_COMMIT), do={"at": "request", "error": "NONE"})
        answer = await client.call(REQUESTS[ApiKey.OFFSET_COMMIT](subject, 8), 8)
        assert errors_of(ApiKey.OFFSET_COMMIT, answer) == [ErrorCode.NONE]
        found = await client.call(REQUESTS[ApiKey.OFFSET_FETCH](subject, 5), 5)
        assert found.topics[0].partitions[0].committed_offset == -1


@pytest.mark.parametrize("name", ["not-coordinator", "loading", "stale-coordinator", "lost-commit-answer"])
async def test_ready_made_faults(lab: Lab, name: str) -> None:
    async with Client(lab.server) as client:
        subject = await subject_of(lab, client)
        lab.fault({"group": GROUP}, use=name)
        key, version = ApiKey.OFFSET_COMMIT, 8
        if name == "stale-coordinator":
            key, version = ApiKey.FIND_COORDINATOR, 1
        client.send(REQUESTS[key](subject, version), version)
        if name == "lost-commit-answer":
            assert await client.closed()
            return
        answer = await client.receive()
        if name == "stale-coordinator":
            assert answer.port == 1
        else:
            error = "NOT_COORDINATOR" if name == "not-coordinator" else "COORDINATOR_LOAD_IN_PROGRESS"
            assert errors_of(key, answer) == [ErrorCode[error]]
        heartbeat = heartbeat_request(GROUP, subject.member_id, subject.generation_id)
        outcome = (await client.call(heartbeat, 3)).error_code
        assert outcome == (ErrorCode.NOT_COORDINATOR if name == "not-coordinator" else ErrorCode.NONE)
        other = heartbeat_request("other", subject.member_id, 1)
        assert (await client.call(other, 3)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_fault_that_does_not_exist_is_not_found(lab: Lab) -> None:
    with pytest.raises(Problem) as caught:
        lab.faults.get_status("nobody")
    assert caught.value.kind is ProblemKind.NO_SUCH_FAULT
