"""Questions that change nothing, or nothing that the reading knows of: lists, descriptions, metadata, records."""

from collections.abc import Callable
from typing import Any, Final

from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from storage.batch import encode_batch
from storage.record import Record
from tests.hostile.wire.question import GROUPS, SIMPLE_GROUPS, Question, Stage, ignore, some_version

_STATES: Final = {"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}


def list_groups(stage: Stage) -> Question:
    """All of them."""

    def hear(answer: Any) -> None:
        names = [group.group_id for group in answer.groups]
        assert len(names) == len(set(names))
        assert set(names) <= {*GROUPS, *SIMPLE_GROUPS}

    return Question(ListGroupsRequest(), some_version(stage.chance, ListGroupsRequest), hear)


def describe_groups(stage: Stage) -> Question:
    """DescribeGroups of all groups. The members must be known ones."""
    names = [*GROUPS, *SIMPLE_GROUPS]

    def hear(answer: Any) -> None:
        assert [group.group_id for group in answer.groups] == names
        for group in answer.groups:
            assert group.group_state in _STATES
            assert bool(group.members) <= (group.group_state not in ("Empty", "Dead"))
            assert group.group_id in GROUPS or not group.members

    version = some_version(stage.chance, DescribeGroupsRequest)
    return Question(DescribeGroupsRequest(groups=names), version, hear)


def metadata(stage: Stage) -> Question:
    """A topic by name, many times over now and then: a large answer."""
    topics = [MetadataRequestTopic(name="orders")] * stage.chance.choice((1, 1, 2000))
    version = some_version(stage.chance, MetadataRequest)
    return Question(MetadataRequest(topics=topics, allow_auto_topic_creation=False), version, ignore)


def api_versions(stage: Stage) -> Question:
    """Build an ApiVersions request, the first request of a client."""
    request = ApiVersionsRequest(client_software_name="play", client_software_version="1")
    return Question(request, some_version(stage.chance, ApiVersionsRequest), ignore)


def find_coordinator(stage: Stage) -> Question:
    """Build a FindCoordinator request, the next request of a consumer."""
    request = FindCoordinatorRequest(key="red", coordinator_keys=["red", "blue"])
    return Question(request, some_version(stage.chance, FindCoordinatorRequest), ignore)


def produce(stage: Stage) -> Question:
    """A record, or a large one."""
    value = stage.chance.randbytes(stage.chance.choice((10, 100, 50_000)))
    part = PartitionProduceData(index=0, records=encode_batch([Record(0, 0, None, value)], 0))
    data = [TopicProduceData(name="orders", partition_data=[part])]
    return Question(ProduceRequest(acks=1, timeout_ms=1000, topic_data=data), 7, ignore)


def fetch_records(stage: Stage) -> Question:
    """From the start, or from where nothing is yet, which is parked for a while."""
    offset = stage.chance.choice((0, 0, 1_000_000))
    part = FetchPartition(partition=1, fetch_offset=offset, partition_max_bytes=100_000)
    topics = [FetchTopic(topic="orders", partitions=[part])]
    request = FetchRequest(max_wait_ms=stage.chance.choice((0, 50)), min_bytes=1, topics=topics)
    return Question(request, stage.chance.randint(4, 11), ignore)


QUESTIONS: Final[tuple[Callable[[Stage], Question], ...]] = (
    list_groups,
    describe_groups,
    metadata,
    api_versions,
    find_coordinator,
    produce,
    fetch_records,
)
