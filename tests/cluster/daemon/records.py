"""Records of a replicated topic, written and read over the wire at its leader."""

from collections.abc import Sequence

from coordinator.core import clock
from coordinator.topics.cluster_partition import ClusterPartition
from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.metadata import MetadataRequest
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from storage.batch import BatchHeader, decode_records, encode_batch, walk_batches
from storage.record import Record
from storage.topic_partition import TopicPartition
from tests.broker.harness import Client
from tests.cluster.daemon.cluster_daemons import Daemon, Daemons, eventually

TOPIC = "kept"


def batch(*values: bytes, key: bytes | None = None, producer: tuple[int, int, int] = (-1, -1, -1)) -> bytes:
    """One batch of records; of a producer with id, epoch and first sequence."""
    now_ms = clock.wall_ms()  # old records may be deleted at once
    records = [Record(-1, now_ms, key, value) for value in values]
    producer_id, producer_epoch, base_sequence = producer
    return encode_batch(
        records, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence
    )


async def create(
    daemon: Daemon,
    *,
    name: str = TOPIC,
    partitions: int = 1,
    factor: int = 3,
    assignments: Sequence[Sequence[int]] = (),
    **configs: str,
) -> ErrorCode:
    """Create a topic. `assignments` lists the replicas of each partition, in place of a replication factor."""
    wanted = CreatableTopic(
        name=name,
        num_partitions=-1 if assignments else partitions,
        replication_factor=-1 if assignments else factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=number, broker_ids=list(replicas))
            for number, replicas in enumerate(assignments)
        ],
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
        ],
    )
    answer = await daemon.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=5000), 5)
    return ErrorCode(answer.topics[0].error_code)


def partition_of(daemon: Daemon, number: int = 0, name: str = TOPIC) -> ClusterPartition | None:
    """What a daemon has of a partition, if it knows it."""
    found = daemon.server.data_plane.catalogue.find_partition(name, number)
    assert found is None or isinstance(found, ClusterPartition)
    return found


async def leader(cluster: Daemons, number: int = 0, name: str = TOPIC) -> Daemon:
    """The one that leads a partition, when there is one."""
    found: list[Daemon] = []

    def is_there() -> bool:
        found[:] = [
            daemon
            for daemon in cluster.by_id.values()
            if daemon.server.membership.ownership.owns(daemon.node_id, TopicPartition(name, number))
            and partition_of(daemon, number, name) is not None
        ]
        return bool(found)

    await eventually(is_there)
    assert len(found) == 1, [daemon.node_id for daemon in found]
    return found[0]


async def produced(
    daemon: Daemon, data: bytes, number: int = 0, name: str = TOPIC, acks: int = -1
) -> PartitionProduceResponse:
    """What a daemon answers to a batch."""
    answer = await daemon.ask(_request(data, number, name, acks), 9)
    response: PartitionProduceResponse = answer.responses[0].partition_responses[0]
    return response


async def produce_quietly(daemon: Daemon, data: bytes) -> None:
    """Send a batch with acks=0."""
    async with Client(daemon.server) as client:
        client.send(_request(data, 0, TOPIC, 0), 9)
        # Requests of one connection are answered in order.
        client.send(MetadataRequest(topics=[]), 9)
        await client.receive_frame()


def _request(data: bytes, number: int, name: str, acks: int) -> ProduceRequest:
    part = PartitionProduceData(index=number, records=data)
    topic = TopicProduceData(name=name, partition_data=[part])
    return ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[topic])


async def write(daemon: Daemon, *values: bytes, number: int = 0, name: str = TOPIC) -> None:
    """Has records written, each in a batch of its own."""
    for value in values:
        answer = await produced(daemon, batch(value), number, name)
        assert answer.error_code == ErrorCode.NONE, answer


async def read(
    daemon: Daemon, offset: int = 0, number: int = 0, name: str = TOPIC
) -> list[bytes] | ErrorCode:
    """The values from an offset to the end, or the error."""
    values: list[bytes] = []
    while True:
        part = FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=1_000_000)
        topic = FetchTopic(topic=name, partitions=[part])
        answer = await daemon.ask(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic]), 11)
        data = answer.responses[0].partitions[0]
        if data.error_code:
            return ErrorCode(data.error_code)
        before = offset
        for each, header in _batches(data.records or b""):
            values += [record.value or b"" for record in each if record.offset >= before]
            offset = header.next_offset
        if offset == before:
            return values


def _batches(data: bytes) -> list[tuple[list[Record], BatchHeader]]:
    found = []
    for position, header in walk_batches(data):
        records = list(decode_records(data[position : position + header.size_bytes], header))
        found.append(([] if header.is_control else records, header))
    return found


async def delete_before(daemon: Daemon, offset: int, number: int = 0, name: str = TOPIC) -> tuple[int, int]:
    """The error code of DeleteRecords, and where the log begins then."""
    part = DeleteRecordsPartition(partition_index=number, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=name, partitions=[part])], timeout_ms=5000)
    answer = await daemon.ask(request, 2)
    found = answer.topics[0].partitions[0]
    return found.error_code, found.low_watermark
