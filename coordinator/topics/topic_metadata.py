"""Metadata and DescribeTopicPartitions: brokers, topics and partitions. Metadata creates topics that are
requested.

One difference from Kafka: it answers UNKNOWN_TOPIC_OR_PARTITION while it creates a topic, so that the client
retries; here the topic exists when the response is sent. One request creates as many partitions as one
CreateTopics may. Further topics are answered LEADER_NOT_AVAILABLE and created when the client retries.
DescribeTopicPartitions lists partitions in order of topic name, a page at a time.

Source: Kafka's `KafkaApis.handleTopicMetadataRequest`, `DescribeTopicPartitionsRequestHandler`; KIP-4,
KIP-204, KIP-516, KIP-966.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from coordinator.cluster.partition_ownership import PartitionOwnership
from coordinator.core.outcome import Context
from coordinator.topics.api_error import ApiError
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.data_plane import DataPlane
from coordinator.topics.data_plane_answer import (
    Answer,
    MissingReason,
    MissingTopic,
    PartitionFailed,
    ReplicationFactorReduced,
    TopicChange,
    TopicCreated,
)
from coordinator.topics.data_plane_config import MAX_PARTITIONS, DataPlaneConfig
from coordinator.topics.long_work import LongWork
from coordinator.topics.open_files import TooManyPartitions
from coordinator.topics.partition import ReadablePartition
from coordinator.topics.partition_leadership import NO_LEADER, describe_leadership, find_leader_epoch
from coordinator.topics.topic import ZERO_ID, CreatedTopics, NewTopicSpec, Topic
from coordinator.topics.topic_authorization import ON_CLUSTER, ON_TOPIC, OPERATIONS_NOT_REQUESTED, TopicRight
from coordinator.topics.topic_creation import build_too_many_changes
from coordinator.topics.topic_name import find_name_error, is_internal
from protocol.error_codes import ErrorCode
from protocol.error_response import build_error_response
from protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.schema import ZERO_UUID
from storage.storage_errors import StorageError, format_error_reason

PARTITIONS_PER_STEP: Final = 200
"""The number of partitions described in one step."""

AbsentTopics = dict[str, tuple[ErrorCode, MissingReason | None]]
"""The reasons for missing topics: the error for the client, and the reason if it must be logged."""


async def answer_metadata(
    plane: DataPlane, request: MetadataRequest, context: Context, work: LongWork
) -> Answer:
    """Describe the requested topics, and create missing ones where that is allowed."""
    catalogue, config = plane.catalogue, plane.config
    if _is_invalid(request, context.api_version):
        return Answer(_build_refused(request, context.api_version))
    missing: list[MissingTopic] = []
    describer = _TopicDescriber(plane, request.include_topic_authorized_operations)
    topics: list[MetadataResponseTopic] = []
    ids = [entry.topic_id for entry in request.topics or [] if entry.topic_id != ZERO_ID]
    if request.topics is None or (context.api_version == 0 and not request.topics):
        for name in [topic.name for topic in catalogue.listed()]:
            topic = catalogue.find_topic(name)
            if topic is not None:
                topics.append(await describer.describe_topic(work, topic))
    elif ids:
        # If the request gives a topic by id, topics given only by name are ignored.
        for topic_id in dict.fromkeys(ids):
            topic = catalogue.find_topic_by_id(topic_id)
            if topic is None:
                topics.append(_describe_unknown_id(topic_id))
                missing.append(MissingTopic("", MissingReason.UNKNOWN, topic_id=topic_id))
                await work.checkpoint()
            else:
                topics.append(await describer.describe_topic(work, topic))
    else:
        names = dict.fromkeys(entry.name or "" for entry in request.topics)
        creates = config.auto_create_topics_enable and request.allow_auto_topic_creation
        absent: AbsentTopics = {}
        if creates:
            absent = await _create_topics(plane, work, names, context.may_create)
        for name in names:
            topic = catalogue.find_topic(name)
            if topic is not None:
                topics.append(await describer.describe_topic(work, topic))
                continue
            error, reason = absent.get(name) or _find_absence(
                catalogue, config, name, creates, context.may_create
            )
            topics.append(describer.describe_absent(name, error))
            if reason is not None:
                missing.append(MissingTopic(name, reason))
            await work.checkpoint()
    nodes = [broker.node_for_client(context.node) for broker in plane.ownership.brokers.values()]
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in nodes
        ],
        cluster_id=plane.cluster_id,
        controller_id=nodes[0].node_id,
        topics=topics,
        cluster_authorized_operations=(
            ON_CLUSTER if request.include_cluster_authorized_operations else OPERATIONS_NOT_REQUESTED
        ),
    )
    return Answer(response, missing=missing)


class _TopicDescriber:
    """Describes the topics of one Metadata response."""

    def __init__(self, plane: DataPlane, with_operations: bool) -> None:
        self._catalogue = plane.catalogue
        self._ownership = plane.ownership
        self._operations = ON_TOPIC if with_operations else OPERATIONS_NOT_REQUESTED

    async def describe_topic(self, work: LongWork, topic: Topic) -> MetadataResponseTopic:
        """Describe a topic in its present state. It may have any number of partitions."""
        partitions: list[MetadataResponsePartition] = []
        for first in range(0, len(topic.partitions), PARTITIONS_PER_STEP):
            page = topic.partitions[first : first + PARTITIONS_PER_STEP]
            partitions += [_describe_partition(partition, self._ownership) for partition in page]
            await work.checkpoint()
        return MetadataResponseTopic(
            error_code=ErrorCode.NONE,
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.is_internal,
            partitions=partitions,
            topic_authorized_operations=self._operations,
        )

    def describe_absent(self, name: str, error: ErrorCode) -> MetadataResponseTopic:
        """Describe a missing topic."""
        return MetadataResponseTopic(
            error_code=error,
            name=name,
            is_internal=is_internal(name),
            partitions=[],
            topic_authorized_operations=self._operations,
        )


def _describe_unknown_id(topic_id: bytes) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id, partitions=[]
    )


def _is_invalid(request: MetadataRequest, version: int) -> bool:
    """Return whether the request form is invalid for its version: a topic id before v12, or neither name nor id."""
    entries = request.topics or []
    if version < 12:
        return any(entry.name is None or entry.topic_id != ZERO_ID for entry in entries)
    return any(entry.name is None and entry.topic_id == ZERO_ID for entry in entries)


def _build_refused(request: MetadataRequest, version: int) -> MetadataResponse:
    """Build Kafka's response for an invalid Metadata request: topics without a name have an empty one."""
    response: MetadataResponse = build_error_response(request, version, ErrorCode.INVALID_REQUEST)
    for topic in response.topics:
        topic.name = topic.name or ""
    return response


def _describe_partition(
    partition: ReadablePartition, ownership: PartitionOwnership
) -> MetadataResponsePartition:
    leader_id, replicas, in_sync, offline = describe_leadership(partition, ownership)
    return MetadataResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if leader_id == NO_LEADER else ErrorCode.NONE,
        partition_index=partition.name.partition,
        leader_id=leader_id,
        leader_epoch=find_leader_epoch(partition, ownership),
        replica_nodes=replicas,
        isr_nodes=in_sync,
        offline_replicas=offline,
    )


def _find_absence(
    catalogue: Catalogue,
    config: DataPlaneConfig,
    name: str,
    creates: bool,
    may_create: TopicRight | None,
) -> tuple[ErrorCode, MissingReason | None]:
    """Return the reason why a topic was not created."""
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if find_name_error(name) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION, MissingReason.ILLEGAL_NAME
    if catalogue.is_changing(name):
        return ErrorCode.LEADER_NOT_AVAILABLE, None
    if not config.auto_create_topics_enable:
        return unknown, MissingReason.AUTO_CREATION_OFF
    if not creates:
        return unknown, MissingReason.NOT_ALLOWED
    if may_create is not None and not may_create(name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED, None
    return unknown, MissingReason.INTERNAL if is_internal(name) else MissingReason.COLLIDES


async def _reserve_topics(
    plane: DataPlane, work: LongWork, names: Iterable[str], may_create: TopicRight | None
) -> tuple[dict[Topic, int], CreatedTopics, AbsentTopics]:
    """Reserve missing topics that may be created, up to the limit of one request. Return the reserved topics with
    their numbers of partitions, the errors for lack of descriptors, and the reasons for the others.

    A Metadata request creates no internal topic. Of two names with the same metric name it creates the first.
    """
    catalogue, count = plane.catalogue, plane.config.num_partitions
    factor = plane.config.default_replication_factor
    reserved: dict[Topic, int] = {}
    refused: CreatedTopics = {}
    absent: AbsentTopics = {}
    # CreateTopics rejects this many as well, so Kafka's clients would retry in vain.
    if count > MAX_PARTITIONS:
        return reserved, refused, absent
    for name in names:
        await work.checkpoint()
        if catalogue.find_topic(name) is not None or catalogue.is_changing(name):
            continue
        if (
            find_name_error(name) is not None
            or is_internal(name)
            or catalogue.metric_names.find_collision(name)
        ):
            continue
        if may_create is not None and not may_create(name):
            continue
        most = plane.ownership.max_replicas(name)
        replicas = min(factor, most) if plane.config.accept_any_replication_factor else factor
        if not 1 <= replicas <= most:
            absent[name] = ErrorCode.INVALID_REPLICATION_FACTOR, None
        elif (len(reserved) + len(refused) + 1) * count > MAX_PARTITIONS:
            absent[name] = ErrorCode.LEADER_NOT_AVAILABLE, None
        else:
            work.begin_changes()
            new = NewTopicSpec(name, count, {}, replication_factor=replicas)
            try:
                reserved[catalogue.reserve_topic(new)] = count
            except ApiError as error:
                refused[name] = error.with_traceback(None)
    return reserved, refused, absent


async def _create_topics(
    plane: DataPlane,
    work: LongWork,
    names: Iterable[str],
    may_create: TopicRight | None,
) -> AbsentTopics:
    """Create missing topics that may be created. Return the reasons for the topics still missing."""
    reserved, refused, absent = await _reserve_topics(plane, work, names, may_create)
    if not reserved and not refused:
        return absent
    created = refused | await plane.catalogue.create_reserved(work, reserved)
    changes: list[TopicChange] = []
    failed: dict[str, str] = {}
    for name, result in created.items():
        if isinstance(result, TooManyPartitions):
            absent[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
        elif isinstance(result, OSError | StorageError):
            absent[name] = ErrorCode.LEADER_NOT_AVAILABLE, None
            failed[name] = format_error_reason(result)
        elif not isinstance(result, Exception):
            changes.append(TopicCreated(name, result.topic_id, len(result.partitions), automatic=True))
            if result.replication_factor < plane.config.default_replication_factor:
                requested = plane.config.default_replication_factor
                changes.append(ReplicationFactorReduced(name, requested, result.replication_factor))
    if failed:
        name, reason = next(iter(failed.items()))
        others = f", nor can {len(failed) - 1} other topics" if len(failed) > 1 else ""
        changes.append(PartitionFailed(name, 0, f"cannot be created{others}: {reason}"))
    # From now on another request may delete these topics.
    work.publish_changes([*changes, *build_too_many_changes(created)])
    return absent


async def answer_describe_topic_partitions(
    plane: DataPlane, request: DescribeTopicPartitionsRequest, context: Context, work: LongWork
) -> Answer:
    """Return one page of topics. A request without topics lists all; a cursor continues at its topic and partition.

    An invalid cursor (a topic not requested, a negative partition) gives INVALID_REQUEST for each topic.
    """
    catalogue, config = plane.catalogue, plane.config
    cursor = request.cursor
    first = "" if cursor is None else cursor.topic_name
    is_all = not request.topics
    requested = (
        [topic.name for topic in catalogue.listed()] if is_all else [topic.name for topic in request.topics]
    )
    names = sorted({name for name in requested if name >= first})
    if cursor is not None and (cursor.partition_index < 0 or (not is_all and first not in names)):
        topics = []
        for requested_topic in request.topics:
            topics.append(
                _describe_topic_error(
                    requested_topic.name, ErrorCode.INVALID_REQUEST, OPERATIONS_NOT_REQUESTED
                )
            )
            await work.checkpoint()
        return Answer(DescribeTopicPartitionsResponse(topics=topics))
    remaining = max(1, min(config.max_request_partition_size_limit, request.response_partition_limit))
    response = DescribeTopicPartitionsResponse(topics=[])
    for name in names:
        await work.checkpoint()
        if remaining == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = catalogue.find_topic(name)
        if topic is None:
            illegal = find_name_error(name) is not None
            error = ErrorCode.INVALID_TOPIC_EXCEPTION if illegal else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            response.topics.append(_describe_topic_error(name, error))
            continue
        start = cursor.partition_index if cursor is not None and name == first else 0
        page = topic.partitions[start : start + remaining]
        response.topics.append(_describe_page(topic, page, plane.ownership))
        remaining -= len(page)
        if start + len(page) < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=start + len(page))
            break
    return Answer(response)


def _describe_topic_error(
    name: str, error: ErrorCode, operations: int = ON_TOPIC
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=error,
        name=name,
        topic_id=ZERO_UUID,
        partitions=[],
        topic_authorized_operations=operations,
    )


def _describe_page(
    topic: Topic, page: Sequence[ReadablePartition], ownership: PartitionOwnership
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_describe_page_partition(partition, ownership) for partition in page],
        topic_authorized_operations=ON_TOPIC,
    )


def _describe_page_partition(
    partition: ReadablePartition, ownership: PartitionOwnership
) -> DescribeTopicPartitionsResponsePartition:
    leader_id, replicas, in_sync, offline = describe_leadership(partition, ownership)
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if leader_id == NO_LEADER else ErrorCode.NONE,
        partition_index=partition.name.partition,
        leader_id=leader_id,
        leader_epoch=find_leader_epoch(partition, ownership),
        replica_nodes=replicas,
        isr_nodes=in_sync,
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=offline,
    )
