"""The board, the history of lags and the last commits over HTTP."""

import asyncio

from coordinator.runtime.partition_lifecycle import PartitionState
from tests.broker.harness import Client
from tests.control.clock.living_member import until
from tests.http.api.api_port import serving_api
from tests.http.api.test_groups import commit, join, members


async def test_the_board_names_the_worst_finding_of_each_group() -> None:
    async with serving_api(None, {"group.initial.rebalance.delay.ms": "300"}) as api:
        await commit(api, "audit", 1)
        async with members(api, ("alice", None), owned={0: {"orders": [0, 1]}}):
            board = (await api.call("GET", "/v1/board")).value
            groups = {group["group_id"]: group for group in board["groups"]}
            assert groups["audit"]["worst"] is None
            assert groups["billing"]["worst"]["kind"] == "unowned"
            assert "orders-2 has no owner" in groups["billing"]["worst"]["sentence"]
            assert board["unavailable_partitions"] == 0


async def test_the_board_counts_the_partitions_whose_groups_are_missing() -> None:
    async with serving_api() as api:
        await commit(api, "audit", 1)
        number = api.server.runtime.find_partition("audit").number
        move = asyncio.create_task(api.control.failover.failover_partition(number, 0, 60_000))
        await until(lambda: api.server.runtime.partitions[number].state is PartitionState.LOADING)
        board = (await api.call("GET", "/v1/board")).value
        assert board["unavailable_partitions"] == 1
        assert board["groups"] == []
        move.cancel()


async def test_findings_have_an_operation_with_its_arguments() -> None:
    async with serving_api() as api:
        async with Client(api.server, "bob") as bob:
            bob.send(join("billing"), 3)
            joined = await bob.receive()
        while (await api.call("GET", "/v1/groups/billing/members/bob")).value["is_connected"]:
            pass
        explained = (await api.call("GET", "/v1/groups/billing/explain")).value
        (gone,) = [finding for finding in explained["findings"] if finding["kind"] == "gone"]
        assert gone["action"] == {
            "operation": "expire_member",
            "label": "Expire bob",
            "arguments": {"group": "billing", "member": "bob"},
        }
        assert gone["members"] == [joined.member_id]


async def test_a_lag_has_a_history_from_the_first_request_on() -> None:
    async with serving_api() as api:
        await commit(api, "audit", 0)
        history = (await api.call("GET", "/v1/groups/audit/lag")).value
        (point,) = history["points"]
        assert point["lag"] == 0
        assert point["at_ms"] > 0
        assert (await api.call("GET", "/v1/groups/nothing/lag")).value["points"] == []


async def test_a_lag_has_a_point_after_the_first_request_for_the_board() -> None:
    async with serving_api() as api:
        await commit(api, "audit", 0)
        board = (await api.call("GET", "/v1/board")).value
        assert [group["lag"] for group in board["groups"]] == [0]
        assert [
            point["lag"] for point in (await api.call("GET", "/v1/groups/audit/lag")).value["points"]
        ] == [0]


async def test_a_group_that_is_created_again_begins_a_new_history_of_its_lag() -> None:
    async with serving_api() as api:
        await commit(api, "audit", 0)
        first = (await api.call("GET", "/v1/groups/audit/lag")).value["points"][0]
        assert (await api.call("DELETE", "/v1/groups/audit")).status == 204
        await commit(api, "audit", 0)
        assert first not in (await api.call("GET", "/v1/groups/audit/lag")).value["points"]


async def test_the_last_commits_are_listed_with_their_writers() -> None:
    async with serving_api(None, {"oracle.commits": "true"}) as api:
        for offset in (1, 2):
            await commit(api, "audit", offset)
        listed = (await api.call("GET", "/v1/groups/audit/commits")).value["commits"]
        assert [(one["topic"], one["partition"], one["before"], one["offset"]) for one in listed] == [
            ("orders", 0, None, 1),
            ("orders", 0, 1, 2),
        ]
        assert (await api.call("GET", "/v1/groups/nothing/commits")).value["commits"] == []
