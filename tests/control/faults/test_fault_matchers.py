"""Matching requests by their content, their senders, and the state of their group."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.control.field_parsers import compile_name_pattern
from protocol.apis import ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.broker.harness import Client, heartbeat_request, join_alone, join_request
from tests.broker.test_group_partitions import commit as simple_commit
from tests.control.faults.lab import Lab
from tests.control.faults.requests import GROUP, Subject, commit, errors_of, fetch

HIT = ErrorCode.NETWORK_EXCEPTION
DO = {"at": "request", "error": HIT.name}


@pytest.mark.parametrize(
    ("match", "fits"),
    [
        ({}, True),
        ({"group": "billing"}, True),
        ({"group": "bill*"}, True),
        ({"group": ["audit", "b*g"]}, True),
        ({"group": "bill"}, False),
        ({"client_id": "alice"}, True),
        ({"client_id": "bob"}, False),
        ({"member_id": "alice-*"}, True),
        ({"member_id": "bob-*"}, False),
        ({"group_instance_id": "*"}, False),
        ({"role": "leader"}, True),
        ({"role": "follower"}, False),
        ({"state": "Stable"}, True),
        ({"state": ["Empty", "PreparingRebalance"]}, False),
        ({"generation": 1}, True),
        ({"generation": ">=2"}, False),
        ({"members": 1}, True),
        ({"members": ">1"}, False),
        ({"version": "<5"}, True),
        ({"version": ">3"}, False),
        ({"version": 3}, True),
        ({"host": "127.0.0.1"}, True),
        ({"host": "10.*"}, False),
        ({"api": ["SyncGroup", "Heartbeat"]}, True),
        ({"api": "SyncGroup"}, False),
        ({"topic": "orders"}, False),
        ({"first_join": True}, False),
        ({"connection": "first"}, True),
        ({"group": "billing", "client_id": "bob"}, False),
    ],
    ids=str,
)
async def test_a_heartbeat_of_the_leader(lab: Lab, match: dict[str, Any], fits: bool) -> None:
    async with Client(lab.server, "alice") as client:
        member_id, generation_id = await join_alone(client, GROUP)
        lab.fault(match, do=DO)
        answer = await client.call(heartbeat_request(GROUP, member_id, generation_id), 3)
        assert (answer.error_code == HIT) is fits


async def test_first_join_matches_only_new_members(lab: Lab) -> None:
    async with Client(lab.server, "alice") as client, Client(lab.server, "bob") as newcomer:
        member_id, _ = await join_alone(client, GROUP)
        lab.fault({"api": "JoinGroup", "first_join": True}, times=None, do=DO)
        lab.fault(
            {"api": "JoinGroup", "first_join": False}, times=None, do=DO | {"error": "REQUEST_TIMED_OUT"}
        )
        assert (await newcomer.call(join_request(GROUP), 3)).error_code == HIT
        assert (
            await client.call(join_request(GROUP, member_id), 3)
        ).error_code == ErrorCode.REQUEST_TIMED_OUT


async def test_the_first_connection_of_each_client(lab: Lab) -> None:
    """A client that is cut off and comes back is served."""
    lab.fault({"api": "OffsetFetch", "connection": "first"}, times=None, do={"at": "request", "drop": True})
    subject = Subject(lab.server, "", -1)
    for name in ("alice", "bob"):
        async with Client(lab.server, name) as client:
            client.send(fetch(subject, 5), 5)
            assert await client.closed()
        async with Client(lab.server, name) as client:
            assert (await client.call(fetch(subject, 5), 5)).error_code == ErrorCode.NONE


async def test_an_unknown_group_has_the_state_dead(lab: Lab) -> None:
    lab.fault({"api": "DescribeGroups", "state": "Dead", "members": 0}, do=DO)
    async with Client(lab.server) as client:
        await join_alone(client, GROUP)
        answer = await client.call(DescribeGroupsRequest(groups=[GROUP, "nobody"]), 5)
        assert [group.error_code for group in answer.groups] == [ErrorCode.NONE, HIT]
        assert [group.group_id for group in answer.groups] == [GROUP, "nobody"]


@pytest.mark.parametrize("at", ["request", "answer"])
async def test_of_several_groups_only_those_that_fit_are_refused(lab: Lab, at: str) -> None:
    lab.fault({"group": GROUP}, times=None, do={"at": at, "error": HIT.name})
    async with Client(lab.server) as client:
        found = await client.call(FindCoordinatorRequest(coordinator_keys=["audit", GROUP, "other"]), 4)
        assert [entry.key for entry in found.coordinators] == ["audit", GROUP, "other"]
        assert [entry.error_code for entry in found.coordinators] == [0, HIT, 0]
        assert found.coordinators[0].port > 0 > found.coordinators[1].port


@pytest.mark.parametrize("version", [8, 10])
@pytest.mark.parametrize("at", ["request", "answer"])
async def test_some_partitions_of_a_commit(lab: Lab, at: str, version: int) -> None:
    """Other partitions are committed. Partitions that were refused before the group are not."""
    lab.fault(
        {"api": "OffsetCommit"},
        do={"at": at, "error": "OFFSET_METADATA_TOO_LARGE", "partitions": ["orders-1"]},
    )
    async with Client(lab.server) as client:
        subject = Subject(lab.server, *await join_alone(client, GROUP))
        answer = await client.call(commit(subject, version, (0, 1, 2)), version)
        errors = {part.partition_index: part.error_code for part in answer.topics[0].partitions}
        assert errors == {0: 0, 1: ErrorCode.OFFSET_METADATA_TOO_LARGE, 2: 0}
        found = await client.call(fetch(subject, version, (0, 1, 2)), version)
        offsets = [part.committed_offset for part in found.groups[0].topics[0].partitions]
        assert offsets == [7, -1 if at == "request" else 7, 7]


@pytest.mark.parametrize("version", [1, 5, 8, 10])
@pytest.mark.parametrize("at", ["request", "answer"])
async def test_some_partitions_of_a_fetch(lab: Lab, at: str, version: int) -> None:
    async with Client(lab.server) as client:
        subject = Subject(lab.server, *await join_alone(client, GROUP))
        assert errors_of(ApiKey.OFFSET_COMMIT, await client.call(commit(subject, 8), 8)) == [0]
        lab.fault({"topic": "orders"}, do={"at": at, "error": HIT.name, "partitions": ["*-2"]})
        answer = await client.call(fetch(subject, version, (0, 2)), version)
        topics = answer.groups[0].topics if version >= 8 else answer.topics
        assert len(topics) == 1
        found = {p.partition_index: (p.error_code, p.committed_offset) for p in topics[0].partitions}
        assert found == {0: (0, 7), 2: (HIT, -1)}


async def test_an_answer_with_an_error(lab: Lab) -> None:
    """An error can be replaced by another one. A success stays."""
    name = lab.fault(
        {"api": "Heartbeat", "error": "UNKNOWN_MEMBER_ID"}, times=None, do={"at": "answer", "error": HIT.name}
    )
    async with Client(lab.server) as client:
        member_id, generation_id = await join_alone(client, GROUP)
        assert (await client.call(heartbeat_request(GROUP, member_id, generation_id), 3)).error_code == 0
        assert (await client.call(heartbeat_request(GROUP, "nobody", generation_id), 3)).error_code == HIT
        assert (await client.call(heartbeat_request(GROUP, member_id, 77), 3)).error_code == 22
    assert (lab.status(name).matched, lab.status(name).hit) == (1, 1)


async def test_skip_and_times(lab: Lab) -> None:
    name = lab.fault({"api": "OffsetCommit"}, skip=2, times=3, do=DO)
    async with Client(lab.server) as client:
        outcomes = [
            errors_of(ApiKey.OFFSET_COMMIT, await client.call(simple_commit(n), 2))[0] == HIT
            for n in range(8)
        ]
    assert outcomes == [False, False, True, True, True, False, False, False]
    assert (lab.status(name).matched, lab.status(name).hit, lab.status(name).state) == (8, 3, "spent")


async def test_the_first_acting_fault_wins_and_others_count_matches(lab: Lab) -> None:
    first = lab.fault({"api": "OffsetCommit"}, times=2, do=DO)
    second = lab.fault({"group": "g"}, times=None, skip=1, do=DO | {"error": "REQUEST_TIMED_OUT"})
    async with Client(lab.server) as client:
        outcomes = [
            errors_of(ApiKey.OFFSET_COMMIT, await client.call(simple_commit(n), 2))[0] for n in range(4)
        ]
    assert outcomes == [HIT, HIT, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT]
    assert (lab.status(first).matched, lab.status(first).hit) == (4, 2)
    assert (lab.status(second).matched, lab.status(second).hit) == (4, 2)


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_the_same_seed_hits_the_same_requests(lab: Lab, seed: int) -> None:
    async def told() -> list[bool]:
        lab.fault({"api": "OffsetCommit"}, times=None, probability=0.4, seed=seed, do=DO)
        async with Client(lab.server) as client:
            answers = [await client.call(simple_commit(n), 2) for n in range(60)]
        lab.faults.remove_all()
        return [errors_of(ApiKey.OFFSET_COMMIT, answer) == [HIT] for answer in answers]

    first = await told()
    assert first == await told()
    assert 10 < sum(first) < 50


async def test_seeds_differ(lab: Lab) -> None:
    hits = set()
    for seed in range(5):
        name = lab.fault({"api": "OffsetCommit"}, times=None, probability=0.5, seed=seed, do=DO)
        async with Client(lab.server) as client:
            answers = [await client.call(simple_commit(n), 2) for n in range(20)]
        hits.add(tuple(errors_of(ApiKey.OFFSET_COMMIT, answer)[0] for answer in answers))
        lab.faults.remove_fault(name)
    assert len(hits) == 5


@given(st.text("ab*", max_size=8), st.text("ab", max_size=12))
def test_a_star_stands_for_anything(pattern: str, name: str) -> None:
    expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None
    assert compile_name_pattern(pattern, "/match/group")(name) == expected


def test_a_pattern_of_many_stars_takes_no_time() -> None:
    assert not compile_name_pattern("*a" * 1000 + "b", "/match/group")("a" * 10_000)
