"""Metadata: which brokers there are, and which topics with which partitions. Creates topics that are asked
for.

Source: Kafka's `KafkaApis.handleTopicMetadataRequest`, KIP-4, KIP-204, KIP-516. One difference: Kafka
answers UNKNOWN_TOPIC_OR_PARTITION while it creates a topic, so that the client asks again; here it exists
when the answer is sent.
"""

from collections.abc import Callable

from coordinator.machine.outcome import Context, Now
from coordinator.topics.answer import Answer, PartitionFailed, TopicChange, TopicCreated
from coordinator.topics.authorized_operations import NOT_ASKED, ON_CLUSTER, ON_TOPIC
from coordinator.topics.catalogue import ZERO_ID, Catalogue, Topic
from coordinator.topics.config import MAX_PARTITIONS, TopicsConfig
from coordinator.topics.data_plane import DataPlane
from coordinator.topics.leader_epoch import current_epoch
from coordinator.topics.missing import TopicMissing, WhyMissing
from coordinator.topics.partition import Partition
from coordinator.topics.topic_name import is_internal, why_illegal
from protocol.errors import ErrorCode
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from storage.errors import StorageError
from storage.os_error import reason_of


def answer_metadata(plane: DataPlane, request: MetadataRequest, context: Context, now: Now) -> Answer:
    """The answer, and the topics that came into being."""
    catalogue, config = plane.catalogue, plane.config
    if _is_nonsense(request, context.api_version):
        return Answer(_refused(request))
    node_id = context.node.node_id
    operations = ON_TOPIC if request.include_topic_authorized_operations else NOT_ASKED
    changes: list[TopicChange] = []
    missing: list[TopicMissing] = []
    may_create = config.auto_create_topics_enable and request.allow_auto_topic_creation

    def describe(topic: Topic) -> MetadataResponseTopic:
        return MetadataResponseTopic(
            error_code=ErrorCode.NONE,
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.is_internal,
            partitions=[_partition(partition, node_id) for partition in topic.partitions],
            topic_authorized_operations=operations,
        )

    def by_name(name: str) -> MetadataResponseTopic:
        topic = catalogue.get(name)
        error = ErrorCode.NONE
        if topic is None:
            topic, error = _create(catalogue, config, name, changes) if may_create else (None, _missing(name))
        if topic is not None:
            return describe(topic)
        if error is not ErrorCode.LEADER_NOT_AVAILABLE:
            missing.append(TopicMissing(name, _why_missing(catalogue, config, name, may_create)))
        return MetadataResponseTopic(
            error_code=error,
            name=name,
            is_internal=is_internal(name),
            partitions=[],
            topic_authorized_operations=operations,
        )

    if request.topics is None or (context.api_version == 0 and not request.topics):
        topics = [describe(topic) for topic in catalogue]
    else:
        topics = _asked_for(catalogue, request, describe, by_name)
        missing += [
            TopicMissing("", WhyMissing.UNKNOWN, topic_id=topic.topic_id)
            for topic in topics
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        ]
    response = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=node_id, host=context.node.host, port=context.node.port)],
        cluster_id=plane.cluster_id,
        controller_id=node_id,
        topics=topics,
        cluster_authorized_operations=(
            ON_CLUSTER if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )
    return Answer(response, changes=changes, missing=missing)


def _asked_for(
    catalogue: Catalogue,
    request: MetadataRequest,
    describe: Callable[[Topic], MetadataResponseTopic],
    by_name: Callable[[str], MetadataResponseTopic],
) -> list[MetadataResponseTopic]:
    """Each topic once, in the order of the request; when one is asked for by id, names alone are not looked
    at.
    """
    entries = request.topics or []
    ids = list(dict.fromkeys(entry.topic_id for entry in entries if entry.topic_id != ZERO_ID))
    if not ids:
        return [by_name(name) for name in dict.fromkeys(entry.name or "" for entry in entries)]
    topics = []
    for topic_id in ids:
        topic = catalogue.get_by_id(topic_id)
        if topic is None:
            topics.append(
                MetadataResponseTopic(
                    error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id, partitions=[]
                )
            )
        else:
            topics.append(describe(topic))
    return topics


def _is_nonsense(request: MetadataRequest, version: int) -> bool:
    """Whether topics are asked for in a way that the version does not know: by id before v12, by nothing."""
    entries = request.topics or []
    if version < 12:
        return any(entry.name is None or entry.topic_id != ZERO_ID for entry in entries)
    return any(entry.name is None and entry.topic_id == ZERO_ID for entry in entries)


def _refused(request: MetadataRequest) -> MetadataResponse:
    """As Kafka answers a whole Metadata request with an error: through its topics, and without brokers."""
    topics = [
        MetadataResponseTopic(
            error_code=ErrorCode.INVALID_REQUEST,
            name=entry.name or "",
            topic_id=entry.topic_id,
            partitions=[],
        )
        for entry in request.topics or []
    ]
    return MetadataResponse(brokers=[], topics=topics)


def _partition(partition: Partition, node_id: int) -> MetadataResponsePartition:
    if partition.log is None:
        return MetadataResponsePartition(
            error_code=ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=partition.name.partition,
            leader_id=-1,
            leader_epoch=current_epoch(partition),
            replica_nodes=[node_id],
            isr_nodes=[node_id],
            offline_replicas=[node_id],
        )
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE,
        partition_index=partition.name.partition,
        leader_id=node_id,
        leader_epoch=current_epoch(partition),
        replica_nodes=[node_id],
        isr_nodes=[node_id],
    )


def _missing(name: str) -> ErrorCode:
    if why_illegal(name) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _why_missing(catalogue: Catalogue, config: TopicsConfig, name: str, may_create: bool) -> WhyMissing:
    """What stood against creating the topic."""
    if why_illegal(name) is not None:
        return WhyMissing.ILLEGAL_NAME
    if not config.auto_create_topics_enable:
        return WhyMissing.AUTO_CREATION_OFF
    if not may_create:
        return WhyMissing.NOT_ALLOWED
    return WhyMissing.INTERNAL if is_internal(name) else WhyMissing.COLLIDES


def _create(
    catalogue: Catalogue, config: TopicsConfig, name: str, changes: list[TopicChange]
) -> tuple[Topic | None, ErrorCode]:
    """The topic, or why it cannot be. A broker's own topics are not created by asking for them."""
    if why_illegal(name) is not None or is_internal(name) or catalogue.collides(name):
        return None, _missing(name)
    # Where CreateTopics refuses so many, a client of Kafka's asks in vain as well.
    if config.num_partitions > MAX_PARTITIONS:
        return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        topic = catalogue.create(name, config.num_partitions, {})
    except (OSError, StorageError) as error:
        changes.append(PartitionFailed(name, 0, f"cannot be created: {reason_of(error)}"))
        return None, ErrorCode.LEADER_NOT_AVAILABLE
    changes.append(TopicCreated(topic.name, topic.topic_id, len(topic.partitions), automatic=True))
    return topic, ErrorCode.NONE
