"""Two requests of which one runs during an await of the other, compared with both orders in which they may run.

Each request of the data plane that has an await is stopped at each of them, before and after the awaited call is
done; then the other request runs as a whole, and the first one goes on. Responses and state have to be those of one
order. A refusal after which the client retries is right as well, where the refused request has had no effect."""

from collections.abc import Callable, Iterator, Sequence
from itertools import count, product
from typing import Any, NamedTuple

import msgspec
import pytest

from coordinator.config.properties import Config
from coordinator.topics import fetch as fetch_module
from coordinator.topics import fetch_session, produce
from coordinator.topics.data_plane import HANDLER_NAMES
from coordinator.topics.data_plane_answer import Answer
from protocol.apis import ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.alter_configs import AlterableConfig as ReplacedConfig
from protocol.messages.alter_configs import AlterConfigsRequest
from protocol.messages.alter_configs import AlterConfigsResource as ReplacedConfigs
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from protocol.messages.elect_leaders import ElectLeadersRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from protocol.messages.produce import PartitionProduceResponse, ProduceRequest
from protocol.schema import ZERO_UUID, message_info
from tests.storage.faulty_files import FaultyFiles
from tests.topics.broker import Broker, batch, produce_request
from tests.topics.stepped_request import SteppedRequest
from tests.topics.transacting import transactional

TOPIC, GROUP = 2, 32
RECORDS = 5
RETRIED = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "the configs by which its batch was examined have changed",
    ErrorCode.TOPIC_ALREADY_EXISTS: "the topic of that name is being deleted",
    ErrorCode.REASSIGNMENT_IN_PROGRESS: "the topic is getting partitions already",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "the topic is being deleted, or created",
    ErrorCode.UNKNOWN_TOPIC_ID: "the topic is being deleted",
    ErrorCode.LEADER_NOT_AVAILABLE: "the topic is being created",
}
"""Errors of a request that meets another one half done, and why it is refused."""


def creation(*names: str, partitions: int = 2) -> CreateTopicsRequest:
    config = CreatableTopicConfig(name="retention.ms", value="5000000")
    topics = [
        CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[config]
        )
        for name in names
    ]
    return CreateTopicsRequest(topics=topics)


def deletion(*names: str) -> DeleteTopicsRequest:
    states = [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in names]
    return DeleteTopicsRequest(topics=states, timeout_ms=1000)


def growth(partitions: int) -> CreatePartitionsRequest:
    topic = CreatePartitionsTopic(name="orders", count=partitions)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=False)


def change(kind: int, name: str, key: str, value: str) -> IncrementalAlterConfigsRequest:
    config = AlterableConfig(name=key, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


def replacement() -> AlterConfigsRequest:
    config = ReplacedConfig(name="segment.ms", value="7654321")
    resource = ReplacedConfigs(resource_type=TOPIC, resource_name="orders", configs=[config])
    return AlterConfigsRequest(resources=[resource], validate_only=False)


def record_deletion(offset: int) -> DeleteRecordsRequest:
    partitions = [DeleteRecordsPartition(partition_index=0, offset=offset)]
    return DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name="orders", partitions=partitions)], timeout_ms=1000
    )


def production(*, is_transactional: bool = False) -> ProduceRequest:
    request = produce_request("orders", transactional(7, 0, 0) if is_transactional else batch(2))
    request.transactional_id = "t" if is_transactional else None
    return request


def fetch() -> FetchRequest:
    partitions = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10_000)]
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=10_000,
        session_id=0,
        session_epoch=0,
        topics=[FetchTopic(topic="orders", partitions=partitions)],
        forgotten_topics_data=[],
    )


def offsets(timestamp: int) -> ListOffsetsRequest:
    partitions = [ListOffsetsPartition(partition_index=0, timestamp=timestamp)]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=partitions)])


def metadata(*names: str) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=True)


def all_metadata() -> MetadataRequest:
    return MetadataRequest(topics=None, allow_auto_topic_creation=True)


class Kind(NamedTuple):
    """A kind of request, and the version at which the test sends it; None: the newest one."""

    create: Callable[[], Any]
    version: int | None = None


CHANGES: dict[str, Kind] = {
    "create": Kind(lambda: creation("new")),
    "create the same": Kind(lambda: creation("orders", partitions=3)),
    "create a colliding name": Kind(lambda: creation("ne_w")),
    "create the other colliding name": Kind(lambda: creation("ne.w")),
    "create by metadata": Kind(lambda: metadata("new")),
    "grow": Kind(lambda: growth(4)),
    "grow further": Kind(lambda: growth(5)),
    "delete": Kind(lambda: deletion("orders")),
    "configure": Kind(lambda: change(TOPIC, "orders", "retention.ms", "123456789")),
    "configure otherwise": Kind(lambda: change(TOPIC, "orders", "max.message.bytes", "54321")),
    "replace configs": Kind(replacement),
    "configure a group": Kind(lambda: change(GROUP, "g", "consumer.session.timeout.ms", "50000")),
    "delete records": Kind(lambda: record_deletion(3)),
    "delete more records": Kind(lambda: record_deletion(-1)),
    "produce": Kind(production, 12),
    "produce in a transaction": Kind(lambda: production(is_transactional=True), 12),
    "init producer id": Kind(lambda: InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)),
}
READS: dict[str, Kind] = {
    "fetch": Kind(fetch, 12),
    "list offsets": Kind(lambda: offsets(0)),
    "list latest offsets": Kind(lambda: offsets(-1)),
    "metadata": Kind(lambda: metadata("orders", "payments")),
    "all metadata": Kind(all_metadata),
    "describe topic partitions": Kind(
        lambda: DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name="orders"), TopicRequest(name="payments")]
        )
    ),
    "describe configs": Kind(
        lambda: DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=TOPIC, resource_name="orders", configuration_keys=None),
                DescribeConfigsResource(resource_type=GROUP, resource_name="g", configuration_keys=None),
            ]
        )
    ),
    "describe producers": Kind(
        lambda: DescribeProducersRequest(
            topics=[DescribeProducersTopicRequest(name="orders", partition_indexes=[0])]
        )
    ),
    "offset for leader epoch": Kind(
        lambda: OffsetForLeaderEpochRequest(
            replica_id=-2,
            topics=[
                OffsetForLeaderTopic(
                    topic="orders",
                    partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)],
                )
            ],
        )
    ),
    "reassign": Kind(
        lambda: AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(
                    name="orders",
                    partitions=[ReassignablePartition(partition_index=n, replicas=[1]) for n in (0, 1)],
                )
            ]
        )
    ),
    "list reassignments": Kind(
        lambda: ListPartitionReassignmentsRequest(
            topics=[ListPartitionReassignmentsTopics(name="orders", partition_indexes=[0, 1])]
        )
    ),
    "describe log dirs": Kind(
        lambda: DescribeLogDirsRequest(
            topics=[
                DescribableLogDirTopic(topic="orders", partitions=[0, 1]),
                DescribableLogDirTopic(topic="payments", partitions=[0]),
            ]
        )
    ),
    "elect all leaders": Kind(
        lambda: ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=1000)
    ),
}
KINDS = CHANGES | READS
NEW_TOPICS = ("create", "create a colliding name", "create the other colliding name", "create by metadata")
OTHERS = ("configure a group", "init producer id")
OF_ORDERS = [name for name in KINDS if name not in NEW_TOPICS + OTHERS]
PAIRS = [
    *product(NEW_TOPICS, NEW_TOPICS),
    *((name, name) for name in OTHERS),
    ("describe configs", "configure a group"),
    *product(OF_ORDERS, [name for name in OF_ORDERS if name in CHANGES]),
]
"""The pairs of requests about the same topic, the same group or the same block of producer ids."""


class Outcome(NamedTuple):
    """Return the responses by kind of request, and the state that clients can read afterwards."""

    responses: dict[str, Any]
    state: Any


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request has a checkpoint wherever one of any length has it."""
    monkeypatch.setattr(fetch_session, "LARGE_FETCH", 0)
    for module in (fetch_module, fetch_session):
        monkeypatch.setattr(module, "PARTITIONS_PER_STEP", 1)
    monkeypatch.setattr(produce, "MAX_PARTITIONS_AT_ONCE", 0)
    monkeypatch.setattr(produce, "PARTITIONS_PER_STEP", 1)


def prepared() -> Broker:
    """A broker with two topics. Its first producer id needs a block."""
    broker = Broker("/data", Config(num_partitions=2), FaultyFiles())
    ids = count(1)
    broker.plane.catalogue.new_id = lambda: next(ids).to_bytes(16)
    broker.create("orders", 2)
    broker.create("payments")
    for number in range(2):
        broker.produce("orders", batch(RECORDS), number)
    return broker


def simplify(value: Any) -> Any:
    """A message without the fields that differ between two runs or mean the same: ids of topics and texts.

    The start of the log in a Produce response says nothing of the order: as in Kafka a DeleteRecords reads the high
    watermark before it moves the start. Neither does the free space of the disk, which is read before the sizes.
    """
    if isinstance(value, msgspec.Struct):
        left_out = {"topic_id", "error_message", "session_id", "usable_bytes"}
        if isinstance(value, PartitionProduceResponse):
            left_out.add("log_start_offset")
        return {
            name: simplify(getattr(value, name)) for name in value.__struct_fields__ if name not in left_out
        }
    if isinstance(value, list | tuple):
        return [simplify(each) for each in value]
    return value


def read_state(broker: Broker) -> Any:
    """What clients can read, after a clean stop and a start too."""
    catalogue = broker.plane.catalogue
    topics = {}
    for topic in catalogue:
        partitions = []
        for part in topic.partitions:
            assert part.log is not None, part.name
            partitions.append(
                (part.log.log_start_offset, part.high_watermark, part.last_stable_offset, part.log.config)
            )
        topics[topic.name] = topic.overrides, partitions
    entries = {
        name: (entry.partitions, dict(entry.configs)) for name, entry in catalogue.file.state.topics.items()
    }
    names = [each for each in broker.files.listdir(broker.path) if broker.files.is_directory(f"/data/{each}")]
    return {
        "topics": topics,
        "file": entries,
        "groups": dict(catalogue.group_configs.by_group),
        "directories": sorted(names),
        "reserved": catalogue.open_files.reserved,
        "open": catalogue.open_files.open,
        "waiting fetches": len(broker.plane.fetch_purgatory),
    }


def begin(broker: Broker, kind: Kind) -> SteppedRequest[Answer]:
    return broker.begin(kind.create(), kind.version)


def send(broker: Broker, kind: Kind) -> Any:
    return simplify(broker.send(kind.create(), kind.version).response)


def in_order(first: str, second: str) -> Outcome:
    broker = prepared()
    responses = {name: send(broker, KINDS[name]) for name in dict.fromkeys((first, second))}
    if first == second:
        responses["second"] = send(broker, KINDS[second])
    return Outcome(responses, read_state(broker))


def interleave(first: str, second: str) -> Iterator[tuple[int, bool, Outcome]]:
    """Stop the first request at each await in turn, before and after the awaited call is done, and run the second
    one. Yield the number of the await, whether it is done, and the outcome."""
    for at in count():
        for is_done in (False, True):
            broker = prepared()
            begun = begin(broker, KINDS[first])
            for _ in range(at):
                begun.advance()
            if begun.is_ended:
                return
            if is_done and begun.step is None:
                continue  # a checkpoint does nothing
            resume = begun.perform() if is_done else begun.advance
            response = send(broker, KINDS[second])
            resume()
            responses = {first: simplify(begun.finish().response)}
            responses["second" if first == second else second] = response
            yield at, is_done, Outcome(responses, read_state(broker))


def find_codes(message: Any) -> set[int]:
    """The error codes in a simplified message."""
    if isinstance(message, dict):
        own = {message["error_code"]} if message.get("error_code") else set()
        return own.union(*map(find_codes, message.values()))
    return set().union(*map(find_codes, message)) if isinstance(message, list) else set()


def is_right(outcome: Outcome, orders: Sequence[Outcome], alone: dict[str, Outcome]) -> bool:
    """Whether an outcome is that of one order, or one of the two requests is refused, to be retried, and has had no
    effect."""
    if outcome in orders:
        return True
    for refused, other in zip(outcome.responses, reversed(outcome.responses), strict=True):
        codes = find_codes(outcome.responses[refused])
        if codes and codes <= RETRIED.keys() and outcome.state == alone[other].state:
            return bool(outcome.responses[other] == alone[other].responses[other])
    return False


def run_alone(name: str) -> Outcome:
    broker = prepared()
    return Outcome({name: send(broker, KINDS[name])}, read_state(broker))


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_an_interleaved_request_leaves_what_one_order_leaves(first: str, second: str) -> None:
    orders = [in_order(first, second), in_order(second, first)]
    if first == second:
        orders.append(
            Outcome(
                {first: orders[0].responses["second"], "second": orders[0].responses[first]}, orders[0].state
            )
        )
    alone = {name: run_alone(name) for name in {first, second}}
    alone["second"] = Outcome({"second": alone[second].responses[second]}, alone[second].state)
    is_stopped = False
    for at, is_done, outcome in interleave(first, second):
        is_stopped = True
        assert is_right(outcome, orders, alone), (at, is_done, outcome, orders)
    assert is_stopped


def test_every_request_with_an_await_is_covered() -> None:
    covered = {ApiKey(message_info(type(kind.create())).api_key) for kind in KINDS.values()}
    for key in HANDLER_NAMES.keys() - covered:
        assert key is ApiKey.LIST_CONFIG_RESOURCES, key
