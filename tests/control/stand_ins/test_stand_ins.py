"""Stand-ins in groups of their own and beside a client, over the API."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartitions,
    encode_assignment,
)
from tests.broker.harness import Client, sync_request
from tests.http.api.api_port import Api, serving_api
from tests.http.api.test_groups import join

PARTITIONS = range(6)
TEST = {"group.initial.rebalance.delay.ms": "0", "group.consumer.heartbeat.interval.ms": "5000"}
BASE = "/v1/groups/billing"
ALL_OWNED = {"state": "Stable", "owned": ["payments"], "within": "60s"}


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    """With a topic payments of 6 partitions."""
    async with serving_api(None, TEST) as api:
        await api.call("POST", "/v1/topics", {"name": "payments", "partitions": len(PARTITIONS)})
        yield api


async def stand_in(api: Api, client_id: str, **more: Any) -> Any:
    answer = await api.call(
        "POST", f"{BASE}/stand-ins", {"client_id": client_id, "topics": ["payments"], **more}
    )
    assert answer.status == 200, answer
    return answer.value


async def wait(api: Api, **wanted: Any) -> None:
    answer = await api.call("POST", f"{BASE}/wait", ALL_OWNED | wanted)
    assert answer.status == 200, answer.value


async def owned(api: Api) -> dict[str, list[int]]:
    """Return the partitions of each stand-in, by client id."""
    listed = (await api.call("GET", f"{BASE}/stand-ins")).value["stand_ins"]
    return {each["client_id"]: each["assigned"].get("payments", []) for each in listed}


def shares(found: dict[str, list[int]]) -> list[int]:
    """How many partitions each has; all of them are there once."""
    assert sorted(number for numbers in found.values() for number in numbers) == list(PARTITIONS)
    return sorted(map(len, found.values()))


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"protocols": ["cooperative-sticky"]},
        {"protocols": ["cooperative-sticky", "range"]},
        {"group_protocol": "consumer"},
    ],
    ids=["range", "cooperative", "both", "consumer"],
)
async def test_changing_members_share_all_partitions(api: Api, how: dict[str, Any]) -> None:
    for members, name in enumerate(("a", "b", "c"), start=1):
        await stand_in(api, name, **how)
        await wait(api, members=members)
    found = (await api.call("GET", BASE)).value
    assert sorted(member["client_id"] for member in found["members"]) == ["a", "b", "c"]
    assert shares(await owned(api)) == [2, 2, 2]
    left = (await api.call("POST", f"{BASE}/stand-ins/b/leave")).value
    assert (left["state"], left["assigned"]) == ("left", {})
    await wait(api, members=2)
    assert shares(await owned(api)) == [0, 3, 3]
    await api.call("POST", f"{BASE}/stand-ins/b/rejoin")
    await wait(api, members=3)
    assert shares(await owned(api)) == [2, 2, 2]
    assert (await api.call("DELETE", f"{BASE}/stand-ins")).status == 204
    assert await owned(api) == {}
    assert (await api.call("POST", f"{BASE}/wait", {"state": "Empty", "within": "60s"})).status == 200


async def test_a_stalled_stand_in_expires_and_rejoins(api: Api) -> None:
    for members, name in enumerate(("a", "b"), start=1):
        await stand_in(api, name)
        await wait(api, members=members)
    assert (await api.call("POST", f"{BASE}/stand-ins/b/stall")).value["state"] == "stalled"
    advanced = await api.call("POST", f"{BASE}/clock/advance", {"by": "46s", "silent": ["b"]})
    assert advanced.status == 200, advanced.value
    await wait(api, members=1)
    assert len((await owned(api))["a"]) == len(PARTITIONS)
    await api.call("POST", f"{BASE}/stand-ins/b/rejoin")
    await wait(api, members=2)
    assert shares(await owned(api)) == [3, 3]


async def test_an_advance_expires_no_connected_stand_in(api: Api) -> None:
    for members, name in enumerate(("a", "b"), start=1):
        await stand_in(api, name)
        await wait(api, members=members)
    assert (await api.call("POST", f"{BASE}/clock/advance", {"by": "1h"})).status == 200
    await wait(api, members=2)
    causes = [entry["cause"] for entry in (await api.call("GET", f"{BASE}/ledger")).value["entries"]]
    assert "session expired" not in causes


async def test_a_leading_client_assigns_to_a_stand_in(api: Api) -> None:
    async with Client(api.server, "leader") as client:
        client.send(join("billing"), 3)
        leader = await client.receive()
        await client.call(sync_request("billing", leader.member_id, leader.generation_id, {}), 3)
        made = await stand_in(api, "ghost")
        assert made["state"] == "joining"
        await api.call("POST", f"{BASE}/wait", {"state": "PreparingRebalance", "within": "60s"})
        again = join("billing")
        again.member_id = leader.member_id
        client.send(again, 3)
        joined = await client.receive()
        [ghost] = [each.member_id for each in joined.members if each.member_id != leader.member_id]
        given = ConsumerProtocolAssignment(
            assigned_partitions=[TopicPartitions(topic="payments", partitions=[4])]
        )
        assignments = {ghost: encode_assignment(given, 0)}
        await client.call(sync_request("billing", leader.member_id, joined.generation_id, assignments), 3)
        await api.call("POST", f"{BASE}/wait", {"state": "Stable", "members": 2, "within": "60s"})
        assert await owned(api) == {"ghost": [4]}


async def test_a_leading_stand_in_assigns_the_given_partitions(api: Api) -> None:
    assignments = {"a": {"payments": [5]}, "b": {"payments": [0, 1, 2, 3, 4]}}
    await stand_in(api, "a", assignment=assignments)
    await api.call("POST", f"{BASE}/wait", {"state": "Stable", "members": 1, "within": "60s"})
    assert await owned(api) == {"a": [5]}
    await stand_in(api, "b", assignment=assignments)
    await wait(api, members=2)
    assert await owned(api) == {"a": [5], "b": [0, 1, 2, 3, 4]}


async def test_an_incompatible_stand_in_is_refused(api: Api) -> None:
    await stand_in(api, "a", protocols=["range"])
    await wait(api, members=1)
    await stand_in(api, "b", protocols=["sticky"])
    listed = api.control.stand_ins.list_stand_ins("billing")
    while [each.state for each in listed] != ["member", "failed"]:
        await api.call("POST", f"{BASE}/wait", {"state": "Stable", "within": "60s"})
        listed = api.control.stand_ins.list_stand_ins("billing")
    assert listed[1].error == "INCONSISTENT_GROUP_PROTOCOL"
    for body, problem in (
        ({"client_id": "a", "topics": ["payments"]}, "name-taken"),
        ({"client_id": "", "topics": ["payments"]}, "bad-request"),
        ({"topics": ["payments"]}, "bad-request"),
        ({"client_id": "c", "topics": ["payments"], "session_timeout": "soon"}, "bad-request"),
        (
            {"client_id": "c", "topics": [], "group_protocol": "consumer", "protocols": ["range"]},
            "bad-request",
        ),
    ):
        assert (await api.call("POST", f"{BASE}/stand-ins", body)).problem == problem, body
    for method, path in (("POST", "nobody/leave"), ("POST", "nobody/stall"), ("DELETE", "nobody")):
        assert (await api.call(method, f"{BASE}/stand-ins/{path}")).problem == "no-such-member"


async def test_a_static_stand_in_keeps_its_assignment(api: Api) -> None:
    for members, name in enumerate(("a", "b"), start=1):
        await stand_in(api, name, group_instance_id=f"instance-{name}")
        await wait(api, members=members)
    before = await owned(api)
    entries = (await api.call("GET", f"{BASE}/ledger")).value["entries"]
    await api.call("POST", f"{BASE}/stand-ins/b/stall")
    await api.call("POST", f"{BASE}/stand-ins/b/rejoin")
    await wait(api, members=2)
    assert await owned(api) == before
    assert len((await api.call("GET", f"{BASE}/ledger")).value["entries"]) == len(entries)
