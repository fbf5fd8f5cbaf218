"""What is taken at the start is taken by everything behind it: no value gets a server or a topic into trouble."""

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from coordinator.broker.server import Server
from coordinator.config.config_def import ConfigKey, InvalidConfig
from coordinator.config.properties import parse_config
from coordinator.config.setting_sources import PROFILES
from coordinator.config.topic_configs import TopicDefaults
from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.fetch import FetchResponse
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.harness import Client, join_request, serving
from tests.config.values import KEYS, candidates, distinct, is_taken
from tests.free_ports import free_ports
from tests.topics.broker import Broker, batch, produce_request
from tests.topics.fetching import fetch_request

TOPIC, BROKER = 2, 4
KEEP_CLIENTS_OUT: Final = {
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "connections.max.idle.ms",
    "socket.request.max.bytes",
    "queued.max.request.bytes",
}
"""Properties that may leave no client to ask anything; they get servers of their own."""
MOST_PARTITIONS: Final = 100
"""The test does not create a larger internal topic: two billion directories would take too long."""
INTERNAL: Final = ("offsets.topic.num.partitions", "transaction.state.log.num.partitions")


def rounds() -> Iterator[Mapping[str, str]]:
    """Every value that is taken, of many properties at a time as far as they go together."""
    mixed: list[dict[str, str]] = []
    for key in KEYS["broker"].values():
        for value in distinct("broker", key):
            if key.name in INTERNAL and int(value) > MOST_PARTITIONS:
                continue
            for texts in mixed:
                keeps_out = [name in KEEP_CLIENTS_OUT for name in (*texts, key.name)]
                if key.name not in texts and len(set(keeps_out)) == 1 and fits({**texts, key.name: value}):
                    texts[key.name] = value
                    break
            else:
                mixed.append({key.name: value})
    yield from mixed


def fits(texts: Mapping[str, str]) -> bool:
    """Whether values go together, and topics can be created with them."""
    try:
        TopicDefaults(texts).validate({})
    except InvalidConfig:
        return False
    return is_taken("broker", texts)


ROUNDS: Final = list(rounds())


def test_the_rounds_have_every_value() -> None:
    tried = {pair for texts in ROUNDS for pair in texts.items()}
    for key in KEYS["broker"].values():
        assert len(distinct("broker", key)) >= 1
        if key.name not in INTERNAL:
            assert {(key.name, value) for value in distinct("broker", key)} <= tried


def test_a_great_many_internal_partitions_are_at_least_a_config() -> None:
    config = parse_config(dict.fromkeys(INTERNAL, "2147483647"))
    assert config.offsets_topic_num_partitions == 2**31 - 1
    assert config.transaction_state_log_num_partitions == 2**31 - 1


@pytest.mark.parametrize("texts", ROUNDS, ids=lambda texts: f"{len(texts)}-{next(iter(texts))}")
async def test_a_server_opens_answers_and_closes(
    texts: Mapping[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    unexpected: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unexpected.append(context))
    (port,) = free_ports(1)
    few = {name: KEYS["broker"][name].default for name in PROFILES["test"]}
    few["offsets.topic.num.partitions"] = "1"
    here = {name: text.replace("9092", str(port)) for name, text in texts.items() if "listeners" in name}
    here["listeners"] = f"PLAINTEXT://127.0.0.1:{port}"
    here["super.users"] = ";".join(filter(None, (texts.get("super.users"), "User:ANONYMOUS")))
    async with serving(tmp_path, {**few, **texts, **here}, topics=[("orders", 1)]) as server:
        if not KEEP_CLIENTS_OUT & texts.keys():
            await ask_everything(server)
    assert unexpected == []
    assert [record.getMessage() for record in caplog.records] == []


async def ask_everything(server: Server) -> None:
    """Send one request for each feature that properties change: no response reports an internal error."""
    node = str(server.settings.config.node_id)
    resources = [(TOPIC, "orders"), (TOPIC, "__consumer_offsets"), (BROKER, node)]
    session_ms = server.settings.config.group_max_session_timeout_ms
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=5, committed_metadata="m" * 5
    )
    async with Client(server) as client:
        described = await client.call(
            DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
                    for kind, name in resources
                ]
            ),
            4,
        )
        assert [result.error_code for result in described.results] == [ErrorCode.NONE] * 3
        made = CreatableTopic(
            name="made", num_partitions=-1, replication_factor=-1, assignments=[], configs=[]
        )
        created = await client.call(CreateTopicsRequest(topics=[made]), 7)
        # Too many partitions, or more replicas than there are brokers.
        refused = {ErrorCode.POLICY_VIOLATION, ErrorCode.INVALID_REPLICATION_FACTOR}
        assert created.topics[0].error_code in {ErrorCode.NONE, *refused}
        asked = MetadataRequest(
            topics=[MetadataRequestTopic(name="asked-for")], allow_auto_topic_creation=True
        )
        await client.call(asked, 12)
        produced = await client.call(produce_request("orders", batch(3, time_ms=int(time.time() * 1000))), 12)
        assert produced.responses[0].partition_responses[0].error_code in (
            ErrorCode.NONE,
            ErrorCode.MESSAGE_TOO_LARGE,
            ErrorCode.INVALID_TIMESTAMP,
        )
        fetched = await client.call(fetch_request({("orders", 0): 0}), 12)
        assert fetched.responses[0].partitions[0].error_code == ErrorCode.NONE
        await client.call(FindCoordinatorRequest(key="billing", key_type=0), 2)
        joined = await client.call(join_request("billing", session_timeout_ms=session_ms), 5)
        assert joined.error_code == ErrorCode.MEMBER_ID_REQUIRED
        committed = await client.call(
            OffsetCommitRequest(
                group_id="simple",
                generation_id_or_member_epoch=-1,
                topics=[OffsetCommitRequestTopic(name="orders", partitions=[partition])],
            ),
            8,
        )
        # The last is Kafka's word for a record that exceeds message.max.bytes.
        assert committed.topics[0].partitions[0].error_code in (
            ErrorCode.NONE,
            ErrorCode.OFFSET_METADATA_TOO_LARGE,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        )


@pytest.mark.parametrize(("interval_ms", "is_written"), [("1", True), ("0", False)])
async def test_without_an_interval_checkpoints_are_written_at_the_stop_alone(
    tmp_path: Path, interval_ms: str, is_written: bool
) -> None:
    checkpoint = tmp_path / "recovery-point-offset-checkpoint"
    texts = {"log.flush": "always", "log.flush.offset.checkpoint.interval.ms": interval_ms}
    async with serving(tmp_path, texts, topics=[("orders", 1)]) as server, Client(server) as client:
        for _ in range(50):
            await client.call(produce_request("orders", batch(time_ms=int(time.time() * 1000))), 12)
        written = checkpoint.exists() and "orders 0 " in checkpoint.read_text()
        assert written is is_written
    assert "orders 0 50" in checkpoint.read_text()


# Topics


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A data plane for all of these topics, each of which has to be there after a restart."""
    running = Broker(str(tmp_path_factory.mktemp("data")))
    yield running
    topics = {topic.name for topic in running.plane.catalogue}
    running.restart()
    assert {topic.name for topic in running.plane.catalogue} == topics
    assert running.plane.list_failed_partitions() == {}
    running.stop()


@pytest.mark.parametrize("key", KEYS["topic"].values(), ids=lambda key: key.name)
def test_a_topic_takes_a_value_and_lives_with_it(plane: Broker, key: ConfigKey) -> None:
    for number, value in enumerate(distinct("topic", key)):
        topic = f"{key.name}-{number}"
        plane.create(topic, 1, **{key.name: value})
        assert alter(plane, topic, key.name, value) == ErrorCode.NONE
        for _ in range(3):
            produced = plane.produce(topic, batch(time_ms=plane.now_ms))
            assert produced.error_code != ErrorCode.UNKNOWN_SERVER_ERROR
        plane.advance(1000)
        assert not plane.apply_retention()
        fetched = plane.ask(fetch_request({(topic, 0): 0}), FetchResponse, 12).responses[0].partitions[0]
        assert fetched.error_code in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE)


@pytest.mark.parametrize("key", KEYS["topic"].values(), ids=lambda key: key.name)
def test_a_topic_refuses_a_value_with_invalid_config(plane: Broker, key: ConfigKey) -> None:
    topic = f"refusing-{key.name}"
    plane.create(topic)
    refused = [value for value in candidates(key) if not is_taken("topic", {key.name: value})]
    assert refused
    for value in refused:
        created = plane.create_result("never", 1, **{key.name: value})
        assert created.error_code == ErrorCode.INVALID_CONFIG, value
        assert key.name in created.error_message or key.name == "remote.storage.enable"
        assert alter(plane, topic, key.name, value) == ErrorCode.INVALID_CONFIG


def alter(plane: Broker, topic: str, name: str, value: str) -> int:
    config = AlterableConfig(name=name, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    return plane.ask(request, IncrementalAlterConfigsResponse).responses[0].error_code
