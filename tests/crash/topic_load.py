"""A client that creates, extends, configures, fills and deletes topics, and keeps their expected state."""

from collections.abc import Callable
from random import Random
from typing import Any, Final, NamedTuple

from protocol.error_codes import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.metadata import MetadataRequest
from protocol.schema import ZERO_UUID
from tests.apis.test_topics import produce
from tests.broker.harness import Client
from tests.crash.register import Register

NAMES: Final = tuple(f"topic-{number}" for number in range(6))
REFUSED: Final = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER)
LATEST: Final = -1
TOPIC: Final = 2
SET_BY_TOPIC: Final = 1
MOST_PARTITIONS: Final = 8


class TopicState(NamedTuple):
    """What clients can see of a topic."""

    partitions: int
    retention_ms: str
    records: int
    """In the first partition; the others are empty."""


class TopicKeeper:
    """One client that sends one request at a time."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.registers: dict[str, Register[TopicState | None]] = {name: Register(None) for name in NAMES}
        """What each topic may be; None for none."""
        self.refused = 0
        """Changes that the disk refused."""

    @property
    def acknowledged(self) -> int:
        """How many changes were acknowledged."""
        return sum(register.acknowledged for register in self.registers.values())

    async def run(self, client: Client, answered: Callable[[], None]) -> None:
        """Changes topics until the connection breaks. A refused change has no effect in this process either."""
        while True:
            name = self._random.choice(NAMES)
            register = self.registers[name]
            request, version, wanted = self._change(name, register.value)
            register.write(wanted)
            error = error_of(await client.call(request, version))
            if error == ErrorCode.NONE:
                register.acknowledge()
            else:
                assert error in REFUSED, (error, request)
                register.refuse()
                self.refused += 1
                assert (await topics(client)).get(name) == register.value, request
            answered()

    def _change(self, name: str, now: TopicState | None) -> tuple[object, int, TopicState | None]:
        """A request, its version, and the state of the topic after it."""
        random = self._random
        if now is None:
            created = TopicState(
                random.randrange(1, MOST_PARTITIONS), str(random.randrange(10**12, 10**13)), 0
            )
            return create(name, created), 5, created
        kind = random.choice(["delete", "grow", "configure", "produce", "produce", "produce"])
        if kind == "grow" and now.partitions < MOST_PARTITIONS:
            partitions = random.randrange(now.partitions + 1, MOST_PARTITIONS + 1)
            topic = CreatePartitionsTopic(name=name, count=partitions)
            request = CreatePartitionsRequest(topics=[topic], timeout_ms=60_000, validate_only=False)
            return request, 2, now._replace(partitions=partitions)
        if kind == "configure":
            retention_ms = str(random.randrange(10**12, 10**13))
            return configure(name, retention_ms), 1, now._replace(retention_ms=retention_ms)
        if kind == "produce":
            value = random.randbytes(random.randrange(1, 8000))
            return produce(value, topic=name), 9, now._replace(records=now.records + 1)
        return (
            DeleteTopicsRequest(topics=[DeleteTopicState(name=name, topic_id=ZERO_UUID)], timeout_ms=60_000),
            6,
            None,
        )

    async def verify(self, client: Client) -> None:
        """Asserts that the broker has the acknowledged topics, and no others."""
        found = await topics(client)
        for name, register in self.registers.items():
            register.found(found.pop(name, None))
        assert not found


def create(name: str, wanted: TopicState) -> CreateTopicsRequest:
    """A request for a topic of that kind."""
    topic = CreatableTopic(
        name=name,
        num_partitions=wanted.partitions,
        replication_factor=1,
        assignments=[],
        configs=[CreatableTopicConfig(name="retention.ms", value=wanted.retention_ms)],
    )
    return CreateTopicsRequest(topics=[topic], timeout_ms=60_000)


def configure(name: str, retention_ms: str) -> IncrementalAlterConfigsRequest:
    """A request for another retention."""
    config = AlterableConfig(name="retention.ms", config_operation=0, value=retention_ms)
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=[config])
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


def error_of(answer: Any) -> int:
    """The one error code in an answer."""
    for field in ("topics", "results", "responses", "partition_responses"):
        if hasattr(answer, field):
            (answer,) = getattr(answer, field)
    error: int = answer.error_code
    return error


async def topics(client: Client) -> dict[str, TopicState]:
    """Return a broker's description of its topics."""
    found: dict[str, TopicState] = {}
    for topic in (await client.call(MetadataRequest(topics=None), 9)).topics:
        if not topic.is_internal:
            assert [part.error_code for part in topic.partitions] == [ErrorCode.NONE] * len(topic.partitions)
            retention_ms = await retention_of(client, topic.name)
            first, *others = await ends_of(client, topic.name, len(topic.partitions))
            assert not any(others), (topic.name, others)
            found[topic.name] = TopicState(len(topic.partitions), retention_ms, first)
    return found


async def retention_of(client: Client, name: str) -> str:
    """What was set of a topic."""
    resource = DescribeConfigsResource(
        resource_type=TOPIC, resource_name=name, configuration_keys=["retention.ms"]
    )
    (answer,) = (await client.call(DescribeConfigsRequest(resources=[resource]), 4)).results
    (config,) = answer.configs
    assert config.config_source == SET_BY_TOPIC, config
    return str(config.value)


async def ends_of(client: Client, name: str, partitions: int) -> list[int]:
    """The log end offset of each partition."""
    parts = [ListOffsetsPartition(partition_index=each, timestamp=LATEST) for each in range(partitions)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=parts)])
    (answer,) = (await client.call(request, 5)).topics
    return [part.offset for part in sorted(answer.partitions, key=lambda part: part.partition_index)]
