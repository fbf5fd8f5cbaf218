"""A real Apache Kafka broker as a peer: from its Maven artifacts, with a JDK."""

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Final

from benchmarks.connection import Connection
from benchmarks.process import Server
from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.kafka_log.broker import KafkaBroker

FIND_VERSION: Final = 4
CREATE_VERSION: Final = 7
DESCRIBE_VERSION: Final = 5
AS_KAFKA_STARTS: Final = (
    *("-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-XX:+UseG1GC", "-Xms1g", "-Xmx1g"),
    *("-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
)
"""What `kafka-server-start.sh` gives the JVM. The tests start theirs quickly and never let it compile well."""
NOT_YET: Final = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)


async def kafka(
    stack: ExitStack, topic: str, partitions: int, groups: Sequence[str], properties: Mapping[str, str]
) -> Server:
    """A broker that has a topic and coordinates `groups`; stopped when `stack` is left. Raises CannotBuild."""
    directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="groupd-bench-"))
    broker = KafkaBroker(directory, properties, java_options=AS_KAFKA_STARTS)
    broker.start()
    stack.callback(broker.kill)
    host, _, port = broker.bootstrap.rpartition(":")
    server = Server(broker.pid, host, int(port))
    await prepare(server, topic, partitions, groups)
    return server


async def create_topic(server: Server, topic: str, partitions: int) -> None:
    """Has a broker make a topic."""
    connection = await Connection.open(server)
    created = await connection.request(
        CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=topic, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
                )
            ],
            timeout_ms=10_000,
        ),
        CREATE_VERSION,
        CreateTopicsResponse,
    )
    assert created.topics[0].error_code == ErrorCode.NONE, created
    connection.transport.abort()


async def prepare(server: Server, topic: str, partitions: int, groups: Sequence[str]) -> None:
    """Has a broker make a topic, and waits until it coordinates `groups`."""
    await create_topic(server, topic, partitions)
    connection = await Connection.open(server)
    # The first question makes Kafka create its offsets topic.
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=list(groups))
    describe = DescribeGroupsRequest(groups=list(groups), include_authorized_operations=False)
    while True:
        found = await connection.request(find, FIND_VERSION, FindCoordinatorResponse)
        described = await connection.request(describe, DESCRIBE_VERSION, DescribeGroupsResponse)
        is_there = all(each.error_code == ErrorCode.NONE for each in found.coordinators)
        if is_there and all(each.error_code not in NOT_YET for each in described.groups):
            connection.transport.abort()
            return
        await asyncio.sleep(0.1)
