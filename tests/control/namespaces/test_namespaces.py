"""Namespaces from inside: their remains, their lifetime, and their limits."""

import asyncio
import gc
import logging
import os
import socket
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest

from coordinator.broker.server import Server
from coordinator.config.config_errors import ConfigError
from coordinator.config.listeners import Address
from coordinator.config.properties import PROPERTIES, SYNONYMS, Config
from coordinator.config.setting_sources import PROFILES
from coordinator.control.event_stream import resolve_event_number
from coordinator.control.namespaces.namespace_broker import build_settings
from coordinator.control.namespaces.namespace_registry import MAX_NAMESPACES
from coordinator.control.problem import Problem, ProblemKind
from protocol.error_codes import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.metadata import MetadataRequest
from tests.apis.test_consumer_groups import joining
from tests.apis.test_group_configs import INTERVAL, SESSION, alter
from tests.broker.harness import Client, join_alone, join_request
from tests.control.serving import controlled
from tests.storage.faulty_files import FaultyFiles


def leftovers() -> tuple[int, int]:
    """Tasks and open files of this process."""
    return len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))


async def test_nothing_is_left_of_a_hundred_namespaces() -> None:
    async with controlled() as (_, control):
        namespaces = control.namespaces

        async def used_and_removed() -> list[weakref.ref[object]]:
            made = await namespaces.create_namespace(None, {"orders": 6}, {}, is_durable=False, by=None)
            async with Client(port=made.server.endpoints[0].port) as client:
                await join_alone(client, "billing")
            await namespaces.remove_namespace(made.name, None)
            return [weakref.ref(made), weakref.ref(made.server), weakref.ref(made.control)]

        await used_and_removed()
        gc.collect()  # earlier tests may have left open files to the collector
        before = leftovers()
        seen = [each for _ in range(100) for each in await used_and_removed()]
        gc.collect()
        assert leftovers() == before
        assert [each for each in seen if each() is not None] == []
        assert namespaces.list_namespaces() == []


async def test_one_more_than_there_may_be_is_refused_and_they_have_ports_of_their_own() -> None:
    async with controlled() as (_, control):
        made = [
            await control.namespaces.create_namespace(None, {}, {}, is_durable=False, by=None)
            for _ in range(MAX_NAMESPACES)
        ]
        assert len({each.server.endpoints[0].port for each in made}) == MAX_NAMESPACES
        with pytest.raises(Problem) as refused:
            await control.namespaces.create_namespace("one-more", {}, {}, is_durable=False, by=None)
        assert refused.value.kind is ProblemKind.TOO_MANY
        await control.namespaces.remove_namespace(made[7].name, None)
        await control.namespaces.create_namespace("one-more", {}, {}, is_durable=False, by=None)


async def test_idle_namespaces_are_removed_and_connected_ones_stay() -> None:
    async with controlled(properties={"namespace.idle.timeout.ms": "50"}) as (_, control):
        gone = asyncio.Event()
        control.actions.listeners.append(lambda act: gone.set() if "removed" in act.what else None)
        kept = await control.namespaces.create_namespace("kept", {}, {}, is_durable=False, by=None)
        async with Client(port=kept.server.endpoints[0].port) as client:
            await join_alone(client, "billing")
            await control.namespaces.create_namespace("idle", {}, {}, is_durable=False, by=None)
            await asyncio.wait_for(gone.wait(), 60)
            assert control.namespaces.list_namespaces() == [kept]
            gone.clear()
        await asyncio.wait_for(gone.wait(), 60)
        assert control.namespaces.list_namespaces() == []


async def test_ports_are_taken_from_the_range_and_returned() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with controlled(properties={"namespace.ports": f"{port}-{port}"}) as (_, control):
            with pytest.raises(Problem) as refused:
                await control.namespaces.create_namespace("a", {}, {}, is_durable=False, by=None)
            assert refused.value.kind is ProblemKind.NOT_POSSIBLE
            taken.close()
            for name in ("a", "b"):
                made = await control.namespaces.create_namespace(name, {}, {}, is_durable=False, by=None)
                assert made.server.endpoints[0].port == port
                await control.namespaces.remove_namespace(name, None)


async def test_a_failed_start_leaves_no_files() -> None:
    async with controlled() as (_, control):
        before = leftovers()
        attempts: list[dict[str, Any]] = [
            {"topics": {"not a name": 1}, "config": {}},
            {"topics": {"orders": 1}, "config": {"message.max.bytes": "-1"}},
            {"topics": {}, "config": {"listeners": "PLAINTEXT://0.0.0.0:9092"}},
            {"topics": {}, "config": {"group.min.session.timeout.mss": "1"}},
        ]
        for attempt in attempts:
            with pytest.raises(Problem):
                await control.namespaces.create_namespace("a", **attempt, is_durable=False, by=None)
        assert control.namespaces.list_namespaces() == []
        assert leftovers() == before
        await control.namespaces.create_namespace("a", {}, {}, is_durable=False, by=None)


def refusal(server: Server, name: str, value: str) -> ConfigError | None:
    """Why a namespace cannot have a property; None: it can."""
    given, address = {name: value}, Address("", 0)
    try:
        build_settings(server.settings, given, address, FaultyFiles(), "/d", in_memory=True)
    except ConfigError as error:
        return error
    return None


async def test_a_property_acts_in_a_namespace_or_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its server never reads could be set and ignored."""
    read: set[str] = set()

    def record(config: Config, name: str) -> Any:
        # Not by what checks the values, nor by the daemon's own broker.
        if config is not own and not sys._getframe(1).f_code.co_name.startswith(("__post_init__", "check_")):
            read.add(name.replace("_", "."))
        return object.__getattribute__(config, name)

    async with controlled() as (server, control):
        own = server.settings.config
        refusals = {
            name: refusal(
                server, name, PROFILES["test"].get(name, PROPERTIES[SYNONYMS.get(name, name)].default)
            )
            for name in (*PROPERTIES, *SYNONYMS)
        }
        monkeypatch.setattr(Config, "__getattribute__", record)
        made = await control.namespaces.create_namespace(
            "a", {}, {"log.flush": "interval"}, is_durable=False, by=None
        )
        async with Client(made.server) as client:
            await client.call(MetadataRequest(topics=[]), 1)
            await client.call(InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000), 4)
        monkeypatch.undo()
    refused = {name for name, error in refusals.items() if error is not None}
    assert all(error.names == (name,) for name, error in refusals.items() if error is not None)
    assert PROPERTIES.keys() - refused <= read
    assert {"cluster.etcd.endpoints", "connections.max.reauth.ms", "socket.listen.backlog.size"} <= refused
    assert refused.isdisjoint({"group.max.size", "broker.rack", "transaction.max.timeout.ms", "log.flush"})


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("cluster.etcd.endpoints", "namespace"),
        ("listener.name.plaintext.ssl.keystore.location", "namespace"),
        ("early.start.listeners", "namespace"),
        ("background.threads", "no effect"),
        ("group.max.sise", "group.max.size"),
    ],
)
async def test_a_property_that_is_refused_is_named_with_the_reason(name: str, says: str) -> None:
    async with controlled() as (_, control):
        with pytest.raises(Problem) as refused:
            await control.namespaces.create_namespace(
                "a", {}, {name: "127.0.0.1:1"}, is_durable=False, by=None
            )
        assert refused.value.kind is ProblemKind.BAD_REQUEST
        assert name in refused.value.detail
        assert says in refused.value.detail


async def test_a_full_namespace_does_not_fill_others() -> None:
    properties = {"namespace.max.bytes": str(1024 * 1024)}
    async with controlled(properties=properties) as (_, control):
        small, other = [
            await control.namespaces.create_namespace(name, {"orders": 1}, {}, is_durable=False, by=None)
            for name in "ab"
        ]
        files: Any = small.server.settings.files
        files.write("/data/ballast", bytes(files.space("/").usable_bytes))
        with pytest.raises(Problem) as refused:
            await small.control.topics.create_topic("payments", 1, {}, None)
        assert refused.value.fields["error"] == "KAFKA_STORAGE_ERROR"
        await other.control.topics.create_topic("payments", 1, {}, None)


async def test_a_durable_namespace_keeps_files_until_a_reset(tmp_path: Path) -> None:
    for by_now in (["orders"], ["orders", "payments"]):
        async with controlled(tmp_path / "data") as (_, control):
            made = await control.namespaces.create_namespace("kept", {}, {}, is_durable=True, by=None)
            await made.control.topics.create_topic(by_now[-1], 2, {}, None)
            assert [topic.name for topic in await made.control.topics.list_topics()] == by_now
    async with controlled(tmp_path / "data") as (_, control):
        made = await control.namespaces.create_namespace("kept", {}, {}, is_durable=True, by=None)
        await control.namespaces.reset_namespace("kept", None)
        assert await made.control.topics.list_topics() == []
        await control.namespaces.remove_namespace("kept", None)
        assert os.listdir(tmp_path / "data.namespaces") == []


async def test_a_reset_disconnects_clients_and_keeps_the_port() -> None:
    async with controlled() as (_, control):
        made = await control.namespaces.create_namespace("a", {"orders": 2}, {}, is_durable=False, by=None)
        port = made.server.endpoints[0].port
        async with Client(port=port) as client:
            await join_alone(client, "billing")
            await control.namespaces.reset_namespace("a", None)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await client.call(join_request("billing"), 2)
        async with Client(port=port) as client:
            assert made.server.endpoints[0].port == port
            assert [group.group_id for group in await made.control.groups.list_groups()] == []
            assert [topic.name for topic in await made.control.topics.list_topics()] == ["orders"]
            await join_alone(client, "billing")


async def test_consumer_groups_rebalance_as_quickly_as_classic_ones() -> None:
    """A classic client sends heartbeats every 3 s by default. The broker sets the interval for members of a
    consumer group."""
    async with controlled() as (_, control):
        made = await control.namespaces.create_namespace(
            "tests", {"orders": 2}, {}, is_durable=False, by=None
        )
        async with Client(port=made.server.endpoints[0].port) as client:
            for member in ("alice", "bob"):
                assert (await client.call(joining(member_id=member), 1)).heartbeat_interval_ms <= 1000
                view = made.control.groups.get_group("billing")
                assert view.assignment_epoch == view.generation_id, "the target does not wait for an interval"
            for name, shortest_ms in ((INTERVAL, 100), (SESSION, 200)):
                assert await alter(client, name, str(shortest_ms)) == (ErrorCode.NONE, None)
            assert (await client.call(joining(member_id="carol"), 1)).heartbeat_interval_ms == 100
            sessions_ms = {
                member.name.member_id: member.session_timeout_ms
                for member in made.control.groups.get_group("billing").members
            }
            assert sessions_ms == {"alice": 45_000, "bob": 45_000, "carol": 200}


@pytest.mark.parametrize("is_durable", [False, True], ids=["in memory", "durable"])
async def test_a_clock_that_ends_with_its_namespace_is_logged_only_where_offsets_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, is_durable: bool
) -> None:
    caplog.set_level(logging.WARNING)
    async with controlled(tmp_path / "data") as (_, control):
        for end in (
            lambda: control.namespaces.reset_namespace("tests", None),
            lambda: control.namespaces.remove_namespace("tests", None),
            control.namespaces.close,
        ):
            if not control.namespaces.list_namespaces():
                await control.namespaces.create_namespace("tests", {}, {}, is_durable=is_durable, by=None)
            tests = control.namespaces.get_namespace("tests")
            async with Client(port=tests.server.endpoints[0].port) as client:
                await join_alone(client, "billing")
                advance = tests.control.clock_commands.advance_clock(
                    "billing", 60_000, silent=[], settle_ms=0, description="advance 1m", actor=None
                )
                assert (await advance).by_ms == 60_000
            assert caplog.messages == []
            await end()
    lines = [line for line in caplog.messages if "ahead" in line]
    assert len(lines) == is_durable
    assert all("end with namespace tests" in line for line in lines)


async def test_an_event_number_from_before_a_reset_names_the_reset() -> None:
    async with controlled() as (_, control):
        made = await control.namespaces.create_namespace("tests", {}, {}, is_durable=False, by=None)
        number = f"{made.control.stream.instance}.0"
        await control.namespaces.reset_namespace("tests", None)
        with pytest.raises(Problem, match="a reset of the namespace") as refused:
            resolve_event_number(made.control.stream, number)
        assert refused.value.kind is ProblemKind.RESTARTED


@pytest.mark.parametrize(
    ("daemon", "given", "is_on"),
    [
        ({}, {}, True),
        ({"oracle.commits": "false"}, {}, False),
        ({}, {"oracle.commits": "false"}, False),
        ({"oracle.commits": "false"}, {"oracle.commits": "true"}, True),
    ],
    ids=["not set", "off in the daemon", "off in the namespace", "on in the namespace"],
)
async def test_commits_are_checked_in_namespaces_unless_a_property_says_otherwise(
    daemon: dict[str, str], given: dict[str, str], is_on: bool
) -> None:
    async with controlled() as (server, control):
        without_profile = {
            name: text for name, text in server.settings.properties.items() if name not in PROFILES["test"]
        }
        server.settings.properties = without_profile | daemon
        made = await control.namespaces.create_namespace(None, {}, given, is_durable=False, by=None)
        assert made.server.settings.config.oracle_commits is is_on
