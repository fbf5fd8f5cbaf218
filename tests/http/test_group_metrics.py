"""The metrics of single groups at /metrics/groups, and the selection of groups."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from urllib.parse import quote

import pytest

from coordinator.control import metrics_snapshot
from coordinator.control.diagnosis.violation import OracleName
from coordinator.core import time_budget
from protocol.error_codes import ErrorCode
from tests.apis.test_consumer_groups import joining
from tests.broker.harness import Client
from tests.control.diagnosis.watched_server import GROUP, generation, orders
from tests.hostile.test_names import NAMES
from tests.http.api.api_port import Api, serving_api
from tests.http.api.test_groups import commit
from tests.http.api.test_offsets import fill
from tests.http.scraped import scrape
from tests.http.test_control_metrics import MINUTE_MS, members, passes

MEMBERS = "kafka_consumergroup_members"
PAGE = "/metrics/groups"


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    async with serving_api() as api:
        yield api


async def test_lag_has_the_names_of_kafka_exporter(api: Api) -> None:
    await fill(api, 5)
    await commit(api, "audit", 2)
    found = await scrape(api, PAGE)
    place = {"topic": "orders", "partition": "0"}
    assert found.get("kafka_consumergroup_current_offset", consumergroup="audit", **place) == 2
    assert found.get("kafka_consumergroup_lag", consumergroup="audit", **place) == 3
    assert found.get("kafka_consumergroup_lag_sum", consumergroup="audit", topic="orders") == 3
    assert found.get("kafka_consumergroup_current_offset_sum", consumergroup="audit", topic="orders") == 2
    assert found.get(MEMBERS, consumergroup="audit") == 0
    assert found.get("kafka_topic_partition_current_offset", **place) == 5
    assert found.get("kafka_topic_partition_oldest_offset", **place) == 0
    assert found.get("kafka_topic_partitions", topic="orders") == 3


async def test_where_nothing_was_committed_there_is_no_series(api: Api) -> None:
    await fill(api, 5)
    async with AsyncExitStack() as stack:
        (alice,) = await members(stack, api, "alice")
        await generation({alice: orders(0, 1, 2)})
        found = await scrape(api, PAGE)
        assert found.get(MEMBERS, consumergroup=GROUP) == 1
        assert not [name for name in found.names if "lag" in name or "offset" in name]
        assert await alice.commit(2, 0) == 0
        found = await scrape(api, PAGE)
        assert found.labels("kafka_consumergroup_lag", "partition") == ["2"]


async def test_a_partition_that_is_not_there_has_no_lag(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await commit(api, "audit", 2)
    first = next(
        part for part in api.server.data_plane.catalogue.iterate_hosted() if part.name.partition == 0
    )
    with monkeypatch.context() as without:
        without.setattr(first, "log", None)  # as if its disk did not work
        found = await scrape(api, PAGE)
    place = {"topic": "orders", "partition": "0"}
    assert found.get("kafka_consumergroup_current_offset", consumergroup="audit", **place) == 2
    assert found.labels("kafka_consumergroup_lag", "consumergroup") == []
    assert found.labels("kafka_topic_partition_current_offset", "topic") == []


async def test_what_befell_a_group_is_told_of_it_alone(api: Api) -> None:
    await commit(api, "audit", 2)
    async with AsyncExitStack() as stack:
        alice, bob = await members(stack, api, "alice", "bob")
        await generation({alice: orders(0), bob: orders(0)})
        await alice.watch.found(OracleName.DOUBLE_OWNER)
        assert await alice.commit(0, 1) == 0
        alice.generation_id += 1
        await alice.commit(0, 1)
        await passes(api, 2 * MINUTE_MS)
        found = await scrape(api, PAGE)
    entries = api.control.ledger.list_entries(GROUP)
    assert found.get("groupd_group_rebalances_total", consumergroup=GROUP) == len(entries)
    took_ms = sum(entry.real.total_ms for entry in entries[-1:] if entry.real is not None)
    total = found.get("groupd_group_rebalance_seconds_sum", consumergroup=GROUP, phase="total")
    assert total is not None
    assert total >= took_ms / 1000
    assert found.get("groupd_group_rebalance_seconds_count", consumergroup=GROUP, phase="total") == sum(
        entry.result in ("stable", "empty") for entry in entries
    )
    assert found.get("groupd_group_member_sessions_expired_total", consumergroup=GROUP) == 2
    refused = {"consumergroup": GROUP, "error": "ILLEGAL_GENERATION"}
    assert found.get("groupd_group_commits_refused_total", **refused) == 1
    violated = {"consumergroup": GROUP, "oracle": "double_owner"}
    assert found.get("groupd_group_violations_total", **violated) == 1
    refused_by_generation = {"consumergroup": GROUP, "oracle": "zombie_commit"}
    assert found.get("groupd_group_notices_total", **refused_by_generation) == 1
    assert found.get("groupd_group_violations_total", **refused_by_generation) is None
    assert found.get("groupd_group_state", consumergroup=GROUP, type="classic", state="Empty") == 1
    assert found.get("groupd_group_rebalances_total", consumergroup="audit") == 0
    assert found.get("groupd_group_session_margin_ratio", consumergroup="audit") is None
    deleted = await api.call("DELETE", f"/v1/groups/{GROUP}")
    assert deleted.status == 204
    assert GROUP not in (await scrape(api, PAGE)).labels(MEMBERS, "consumergroup")
    await commit(api, GROUP, 1)
    found = await scrape(api, PAGE)
    assert found.get("groupd_group_rebalances_total", consumergroup=GROUP) == 0


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["audit", "billing", "billing-2", "bills"]),
        ("?match=billing*", ["billing", "billing-2"]),
        ("?match=*i*l*", ["billing", "billing-2", "bills"]),
        ("?match=audit&match=*2", ["audit", "billing-2"]),
        ("?match=bill", []),
        ("?match=", []),
        ("?match=" + "*l" * 4000 + "x", []),
    ],
)
async def test_some_are_asked_for_by_their_names(api: Api, query: str, expected: list[str]) -> None:
    for name in ("bills", "billing-2", "audit", "billing"):
        await commit(api, name, 1)
    assert (await scrape(api, PAGE + query)).labels(MEMBERS, "consumergroup") == expected


async def test_of_many_the_first_are_told_of(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_snapshot, "MAX_METRIC_GROUPS", 2)
    for name in ("d", "b", "a", "c"):
        await commit(api, name, 1)
    found = await scrape(api, PAGE)
    assert found.labels(MEMBERS, "consumergroup") == ["a", "b"]
    assert found.get("groupd_groups_left_out") == 2
    assert (await scrape(api, PAGE + "?match=c&match=d")).get("groupd_groups_left_out") == 0


@pytest.mark.parametrize("query", ["?mach=billing", "?match=a&x=1", "?" + "&".join(["match=a"] * 1001)])
async def test_a_wrong_question_is_answered_in_a_line(api: Api, query: str) -> None:
    answer = await api.call("GET", PAGE + query)
    assert (answer.status, answer.content_type, answer.body.count(b"\n")) == (400, "text/plain", 1)


async def test_any_name_is_only_a_name(api: Api) -> None:
    names = [name for name in NAMES.values() if name]
    for name in names:
        await commit(api, name, 1)
    found = await scrape(api, PAGE)
    assert sorted(found.labels(MEMBERS, "consumergroup")) == sorted(names)
    # Any group name selects exactly its own group.
    assert len((await scrape(api, f"{PAGE}?match={quote(names[0])}")).labels(MEMBERS, "consumergroup")) == 1


@pytest.mark.parametrize("page", [PAGE, f"/v1{PAGE}", f"/v1/namespaces/default{PAGE}"])
async def test_a_person_sees_no_character_that_steers_a_terminal(api: Api, page: str) -> None:
    """Only a scraper, which names the version of the format, gets every name as it is."""
    for name in NAMES.values():
        await commit(api, name, 1)
    for accept in ("*/*", "text/plain", "text/html,*/*;q=0.8"):
        answer = await api.call("GET", page, headers={"Accept": accept})
        assert answer.body.decode().replace("\n", "").isprintable()
        labels = (await scrape(api, page, accept)).labels(MEMBERS, "consumergroup")
        assert NAMES["quotes"] in labels
        assert r"\x1b[31mred\x1b[0m" in labels
        assert r"\u202egnp.exe" in labels
    exact = (await scrape(api, page)).labels(MEMBERS, "consumergroup")
    assert sorted(exact) == sorted(NAMES.values())


async def test_others_have_their_turn_while_many_groups_are_looked_at(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(50):
        await commit(api, f"group-{number}", 1)
    monkeypatch.setattr(time_budget, "SLICE_NS", -1)  # each step uses a whole slice
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(turn())
    for gathering in (
        api.control.metrics.take_snapshot(),
        api.control.group_metrics.take_snapshot(lambda _: True),
    ):
        turns = 0
        await gathering
        assert turns >= 50
    other.cancel()


async def test_groups_of_both_protocols_are_counted_by_state(api: Api) -> None:
    await commit(api, "audit", 1)
    async with Client(api.server) as client:
        assert (await client.call(joining(), 1)).error_code == ErrorCode.NONE
        found = await scrape(api)
        assert found.get("groupd_groups", state="Empty") == 1
        states = found.labels("groupd_consumer_groups", "state")
        counts = {state: found.get("groupd_consumer_groups", state=state) for state in states}
        assert counts == dict.fromkeys(states, 0) | {"Stable": 1}


async def test_a_namespace_has_metrics_of_its_own(api: Api) -> None:
    made = await api.call("POST", "/v1/namespaces", {"name": "t-1", "topics": {"orders": 3}})
    assert made.status == 200
    namespace = api.control.namespaces.get_namespace("t-1")
    await commit(replace(api, server=namespace.server), "billing", 1)
    await commit(api, "audit", 1)
    for base, group in (
        ("/v1/namespaces/t-1", "billing"),
        ("/v1", "audit"),
        ("/v1/namespaces/default", "audit"),
    ):
        assert (await scrape(api, f"{base}/metrics")).get("groupd_groups", state="Empty") == 1
        found = await scrape(api, f"{base}/metrics/groups?match=audit&match=bil*")
        assert found.labels(MEMBERS, "consumergroup") == [group]
        assert (await api.call("GET", f"{base}/metrics/groups?mach=a")).problem == "bad-request"
    assert (await api.call("GET", "/v1/namespaces/t-2/metrics")).problem == "no-such-namespace"
