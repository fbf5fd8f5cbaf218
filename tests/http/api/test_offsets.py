"""The offsets of a group over HTTP: seen with their lag, and set."""

import logging
from typing import Final

import pytest

from tests.apis.test_topics import produce
from tests.broker.harness import Client
from tests.http.api.api_port import Answer, Api, serving_api
from tests.http.api.test_groups import commit, members

OFFSETS: Final = "/v1/groups/billing/offsets"


async def fill(api: Api, count: int) -> None:
    """So many records in orders-0."""
    async with Client(api.server) as client:
        for _ in range(count):
            assert (await client.call(produce(b"1"), 8)).responses[0].partition_responses[0].error_code == 0


def values(answer: Answer) -> list[tuple[int, int]]:
    """Partitions of orders and their offsets."""
    return [(one["partition"], one["offset"]) for one in answer.value["offsets"]]


async def test_lag_is_what_is_left_to_read() -> None:
    async with serving_api() as api:
        await fill(api, 5)
        await commit(api, "billing", 2)
        answer = (await api.call("GET", OFFSETS)).value
        (one,) = answer["offsets"]
        assert (one["topic"], one["partition"], one["offset"], one["metadata"]) == ("orders", 0, 2, "")
        assert (one["log_start_offset"], one["end_offset"], one["lag"], one["member_id"]) == (0, 5, 3, None)
        assert (answer["lag"], answer["state"]) == (3, "Empty")
        async with members(api, ("alice", None), owned={0: {"orders": [0, 1]}}) as (alice,):
            first, second = (await api.call("GET", OFFSETS)).value["offsets"]
            assert (first["member_id"], first["lag"]) == (alice, 3)
            assert (second["member_id"], second["offset"], second["lag"]) == (alice, None, None)
        assert (await api.call("GET", "/v1/groups/nobody/offsets")).problem == "no-such-group"


async def test_offsets_are_set_to_numbers_and_places() -> None:
    async with serving_api() as api:
        await fill(api, 5)
        for body, expected in (
            (
                {"offsets": {"orders-0": 41, "orders-1": 0}},
                [(0, 41), (1, 0)],
            ),  # as it is, also beyond the end
            ({"offsets": {"orders-0": "latest"}}, [(0, 5)]),
            ({"offsets": {"orders-0": "-2"}}, [(0, 3)]),
            ({"offsets": {"orders-0": "+1"}}, [(0, 4)]),
            ({"offsets": {"orders-0": "+100"}}, [(0, 5)]),
            ({"offsets": {"orders-0": "-100"}}, [(0, 0)]),
            ({"to": "latest"}, [(0, 5), (1, 0)]),
            ({"to": "earliest", "topics": ["orders-0"]}, [(0, 0)]),
            ({"to": 3, "topics": ["orders"]}, [(0, 3), (1, 3), (2, 3)]),
            ({"to": "current"}, [(0, 3), (1, 3), (2, 3)]),
            ({"to_time_ms": 0, "topics": ["orders-0"]}, [(0, 0)]),
            ({"to_time_ms": 2**62, "topics": ["orders-0", "orders-0"]}, [(0, 5)]),
        ):
            before = dict(values(await api.call("GET", OFFSETS))) if expected[0][1] != 41 else {}
            dry = await api.call("PUT", OFFSETS, {**body, "dry_run": True})
            assert values(dry) == expected, body
            if before:
                assert dict(values(await api.call("GET", OFFSETS))) == before
            answer = await api.call("PUT", OFFSETS, body)
            assert values(answer) == expected, body
            assert [one["before"] for one in answer.value["offsets"]] == [
                before.get(number) for number, _ in expected
            ]
            now = dict(values(await api.call("GET", OFFSETS)))
            assert all(now[number] == offset for number, offset in expected), body


async def test_offsets_of_a_group_with_members_stay(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with serving_api() as api:
        async with members(api, ("alice", None), owned={}):
            for dry in (False, True):
                refused = await api.call("PUT", OFFSETS, {"offsets": {"orders-0": 41}, "dry_run": dry})
                assert (refused.status, refused.problem) == (409, "refused")
                assert refused.value["error"] == "UNKNOWN_MEMBER_ID"
                assert (refused.value["state"], "alice" in refused.value["detail"]) == ("Stable", True)
            assert (await api.call("GET", OFFSETS)).value["offsets"] == []
        body = {"offsets": {"orders-0": 41}}
        assert (
            await api.call("PUT", "/v1/groups/audit/offsets", body, headers={"X-Groupd-Actor": "me"})
        ).status == 200
    lines = [record.getMessage() for record in caplog.records if record.name == "Control"]
    assert ["orders-0=41" in line and "audit" in line and line.endswith("by me") for line in lines] == [True]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"offsets": {"payments-0": 1}}, "/offsets/payments-0"),
        ({"offsets": {"orders-0": 1, "orders-3": 1}}, "/offsets/orders-3"),
        ({"to": "latest", "topics": ["orders", "payments"]}, "/topics/1"),
        ({"to": "latest", "topics": ["orders-3"]}, "/topics/0"),
    ],
)
async def test_what_is_not_there_has_no_offset(body: object, pointer: str) -> None:
    async with serving_api() as api:
        answer = await api.call("PUT", OFFSETS, body)
        assert (answer.problem, answer.value["pointer"]) == ("no-such-topic", pointer)
        assert (await api.call("GET", OFFSETS)).problem == "no-such-group"
