"""Namespaces over HTTP: each a broker of its own, with all of the API below its path."""

import asyncio

import pytest

from protocol.messages.metadata import MetadataRequest
from tests.broker.harness import Client, join_alone
from tests.http.api.api_port import Api, serving_api


def port_of(bootstrap: str) -> int:
    return int(bootstrap.rpartition(":")[2])


async def groups(api: Api, base: str) -> list[str]:
    answer = await api.call("GET", f"{base}/groups")
    return [group["group_id"] for group in answer.value["groups"]]


async def test_each_namespace_has_its_own_groups_and_topics() -> None:
    async with serving_api() as api:
        made = [
            (await api.call("POST", "/v1/namespaces", {"name": name, "topics": {"orders": number}})).value
            for number, name in enumerate(("t-1", "t-2"), start=1)
        ]
        for described in made:
            async with Client(port=port_of(described["bootstrap"])) as client:
                await join_alone(client, f"group-of-{described['name']}")
            assert described["cluster_id"] != api.server.directory.meta.cluster_id
        assert await groups(api, "/v1") == []
        for number, name in enumerate(("t-1", "t-2"), start=1):
            base = f"/v1/namespaces/{name}"
            assert await groups(api, base) == [f"group-of-{name}"]
            [topic] = (await api.call("GET", f"{base}/topics")).value["topics"]
            assert (topic["name"], topic["partitions"]) == ("orders", number)
            described = (await api.call("GET", base)).value
            assert (described["topics"], described["groups"]) == ({"orders": number}, 1)
        listed = (await api.call("GET", "/v1/namespaces")).value
        assert [each["name"] for each in listed["namespaces"]] == ["default", "t-1", "t-2"]
        assert listed["namespaces"][0]["bootstrap"].endswith(f":{api.server.endpoints[0].port}")


async def test_the_clock_of_one_is_nobody_elses() -> None:
    async with serving_api() as api:
        await api.call("POST", "/v1/namespaces", {"name": "t-1"})
        await api.call("PUT", "/v1/namespaces/t-1/clock", {"frozen": True})
        frozen = [
            (await api.call("GET", f"{base}/clock")).value["frozen"]
            for base in ("/v1/namespaces/t-1", "/v1/namespaces/default", "/v1")
        ]
        assert frozen == [True, False, False]


async def test_a_namespace_is_reset_on_its_port_and_removed() -> None:
    async with serving_api() as api:
        made = (await api.call("POST", "/v1/namespaces", {"topics": {"orders": 2}})).value
        base = f"/v1/namespaces/{made['name']}"
        assert (await api.call("POST", f"{base}/topics", {"name": "payments", "partitions": 4})).status == 200
        async with Client(port=port_of(made["bootstrap"])) as client:
            await join_alone(client, "billing")
        reset = (await api.call("POST", f"{base}/reset")).value
        assert (reset["bootstrap"], reset["topics"], reset["groups"]) == (made["bootstrap"], {"orders": 2}, 0)
        assert reset["cluster_id"] != made["cluster_id"]
        assert (await api.call("DELETE", base)).status == 204
        for method, path in (
            ("GET", base),
            ("DELETE", base),
            ("GET", f"{base}/groups"),
            ("POST", f"{base}/reset"),
        ):
            assert (await api.call(method, path)).problem == "no-such-namespace"
        with pytest.raises(ConnectionError):
            await Client(port=port_of(made["bootstrap"])).__aenter__()


async def test_clients_are_told_another_address() -> None:
    async with serving_api() as api:
        made = (await api.call("POST", "/v1/namespaces", {"name": "t-1"})).value
        for name, port in (("t-1", port_of(made["bootstrap"])), ("default", api.server.endpoints[0].port)):
            path = f"/v1/namespaces/{name}/advertised"
            answer = await api.call("PUT", path, {"PLAINTEXT": "broker.example:49153"})
            assert answer.value["bootstrap"] == "broker.example:49153"
            for wrong in (
                {"SSL": "a:1"},
                {"PLAINTEXT": "a"},
                {"PLAINTEXT": "0.0.0.0:1"},
                {"PLAINTEXT": "a:0"},
            ):
                assert (await api.call("PUT", path, wrong)).problem == "bad-request"
            async with Client(port=port) as client:
                [node] = (await client.call(MetadataRequest(topics=[]), 1)).brokers
                assert (node.host, node.port) == ("broker.example", 49153)
        reset = (await api.call("POST", "/v1/namespaces/t-1/reset")).value
        assert reset["bootstrap"] == "broker.example:49153"


async def test_what_cannot_be_is_told() -> None:
    async with serving_api() as api:
        await api.call("POST", "/v1/namespaces", {"name": "t-1"})
        for body, problem in (
            ({"name": "t-1"}, "name-taken"),
            ({"name": "default"}, "name-taken"),
            ({"name": "../up"}, "bad-request"),
            ({"name": ""}, "bad-request"),
            ({"name": "x" * 101}, "bad-request"),
            ({"nam": "t-2"}, "bad-request"),
            ({"topics": {"orders": 0}}, "bad-request"),
            ({"topics": {"a/b": 1}}, "refused"),
            ({"config": {"sasl.enabled.mechanisms": "PLAIN"}}, "bad-request"),
            ({"config": {"num.partitions": "many"}}, "bad-request"),
        ):
            answer = await api.call("POST", "/v1/namespaces", body)
            assert answer.problem == problem, (body, answer)
        for method, path in (("DELETE", ""), ("POST", "/reset")):
            assert (await api.call(method, f"/v1/namespaces/default{path}")).problem == "not-possible"
        listed = (await api.call("GET", "/v1/namespaces")).value["namespaces"]
        assert [each["name"] for each in listed] == ["default", "t-1"]


async def test_a_name_is_taken_while_its_namespace_is_made() -> None:
    async with serving_api() as api:
        answers = await asyncio.gather(
            *(api.call("POST", "/v1/namespaces", {"name": "t-1", "topics": {"orders": 6}}) for _ in range(5))
        )
        assert sorted(answer.status for answer in answers) == [200, 409, 409, 409, 409]


async def test_topics_are_made_and_deleted_as_by_clients() -> None:
    async with serving_api() as api:
        made = await api.call("POST", "/v1/topics", {"name": "payments", "config": {"retention.ms": "1000"}})
        assert made.value["partitions"] == 1
        for body, problem in (
            ({"name": "payments"}, "name-taken"),
            ({"name": "payments", "partitions": 0}, "bad-request"),
            ({"name": "no config", "partitions": 1}, "refused"),
            ({"name": "x", "config": {"retention.ms": "soon"}}, "refused"),
            ({"partitions": 1}, "bad-request"),
        ):
            assert (await api.call("POST", "/v1/topics", body)).problem == problem, body
        names = [topic["name"] for topic in (await api.call("GET", "/v1/topics")).value["topics"]]
        assert names == ["orders", "payments"]
        assert (await api.call("DELETE", "/v1/topics/payments")).status == 204
        assert (await api.call("DELETE", "/v1/topics/payments")).problem == "no-such-topic"
        assert api.server.data_plane.catalogue.find_topic("payments") is None
