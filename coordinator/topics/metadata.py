"""Metadata: which brokers there are, and which topics with which partitions. Creates topics that are asked
for.

Source: Kafka's `KafkaApis.handleTopicMetadataRequest`, KIP-4, KIP-204, KIP-516. One difference: Kafka
answers UNKNOWN_TOPIC_OR_PARTITION while it creates a topic, so that the client asks again; here it exists
when the answer is sent. One request creates as many partitions as one CreateTopics may; topics beyond that are
answered LEADER_NOT_AVAILABLE, and made when the client asks again.
"""

from collections.abc import Generator, Iterable
from typing import Final

from coordinator.cluster.ownership import Ownership
from coordinator.machine.outcome import Context, Now
from coordinator.topics.answer import (
    Answer,
    PartitionFailed,
    ReplicationFactorReduced,
    TopicChange,
    TopicCreated,
)
from coordinator.topics.authorized_operations import NOT_ASKED, ON_CLUSTER, ON_TOPIC
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.config import MAX_PARTITIONS, TopicsConfig
from coordinator.topics.create_topics import too_many
from coordinator.topics.data_plane import DataPlane, Steps
from coordinator.topics.leader_epoch import current_epoch
from coordinator.topics.leadership import NO_LEADER, leadership
from coordinator.topics.missing import TopicMissing, WhyMissing
from coordinator.topics.open_files import TooManyPartitions
from coordinator.topics.partition import Partition
from coordinator.topics.steps import Mark, Work
from coordinator.topics.topic import ZERO_ID, NewTopic, Topic
from coordinator.topics.topic_name import is_internal, metric_name, why_illegal
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

PARTITIONS_AT_ONCE: Final = 200
"""Partitions that are described in one step."""

Absent = dict[str, tuple[ErrorCode, WhyMissing | None]]
"""Why topics are not there: for the client, and where it is news for people."""


def answer_metadata(plane: DataPlane, request: MetadataRequest, context: Context, now: Now) -> Steps:
    """The answer, and the topics that came into being."""
    catalogue, config = plane.catalogue, plane.config
    if _is_nonsense(request, context.api_version):
        return Answer(_refused(request))
    changes: list[TopicChange] = []
    missing: list[TopicMissing] = []
    describe = _Description(plane, request.include_topic_authorized_operations)
    topics: list[MetadataResponseTopic] = []
    ids = [entry.topic_id for entry in request.topics or [] if entry.topic_id != ZERO_ID]
    if request.topics is None or (context.api_version == 0 and not request.topics):
        for name in [topic.name for topic in catalogue]:
            topic = catalogue.get(name)
            if topic is not None:
                topics.append((yield from describe.topic(topic)))
    elif ids:
        # When one is asked for by id, names alone are not looked at.
        for topic_id in dict.fromkeys(ids):
            topic = catalogue.get_by_id(topic_id)
            if topic is None:
                topics.append(_no_such_id(topic_id))
                missing.append(TopicMissing("", WhyMissing.UNKNOWN, topic_id=topic_id))
                yield None
            else:
                topics.append((yield from describe.topic(topic)))
    else:
        names = dict.fromkeys(entry.name or "" for entry in request.topics)
        may_create = config.auto_create_topics_enable and request.allow_auto_topic_creation
        absent: Absent = {}
        if may_create:
            absent = yield from _create(plane, names, changes)
        for name in names:
            topic = catalogue.get(name)
            if topic is not None:
                topics.append((yield from describe.topic(topic)))
                continue
            error, why = absent.get(name) or _why_absent(catalogue, config, name, may_create)
            topics.append(describe.absent(name, error))
            if why is not None:
                missing.append(TopicMissing(name, why))
            yield None
    nodes = [broker.seen_from(context.node) for broker in plane.ownership.brokers.values()]
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in nodes
        ],
        cluster_id=plane.cluster_id,
        controller_id=nodes[0].node_id,
        topics=topics,
        cluster_authorized_operations=(
            ON_CLUSTER if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )
    return Answer(response, changes=changes, missing=missing)


class _Description:
    """How the topics of one answer are described."""

    def __init__(self, plane: DataPlane, with_operations: bool) -> None:
        self._catalogue = plane.catalogue
        self._ownership = plane.ownership
        self._operations = ON_TOPIC if with_operations else NOT_ASKED

    def topic(self, topic: Topic) -> Generator[None, None, MetadataResponseTopic]:
        """One that exists, in steps: it may have any number of partitions."""
        partitions: list[MetadataResponsePartition] = []
        for first in range(0, len(topic.partitions), PARTITIONS_AT_ONCE):
            some = topic.partitions[first : first + PARTITIONS_AT_ONCE]
            partitions += [_partition(partition, self._ownership) for partition in some]
            yield
        return MetadataResponseTopic(
            error_code=ErrorCode.NONE,
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.is_internal,
            partitions=partitions,
            topic_authorized_operations=self._operations,
        )

    def absent(self, name: str, error: ErrorCode) -> MetadataResponseTopic:
        """One that does not exist, or not yet."""
        return MetadataResponseTopic(
            error_code=error,
            name=name,
            is_internal=is_internal(name),
            partitions=[],
            topic_authorized_operations=self._operations,
        )


def _no_such_id(topic_id: bytes) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id, partitions=[]
    )


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


def _partition(partition: Partition, ownership: Ownership) -> MetadataResponsePartition:
    leader_id, replicas, in_sync, offline = leadership(partition, ownership)
    return MetadataResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if leader_id == NO_LEADER else ErrorCode.NONE,
        partition_index=partition.name.partition,
        leader_id=leader_id,
        leader_epoch=current_epoch(partition, ownership),
        replica_nodes=replicas,
        isr_nodes=in_sync,
        offline_replicas=offline,
    )


def _why_absent(
    catalogue: Catalogue, config: TopicsConfig, name: str, may_create: bool
) -> tuple[ErrorCode, WhyMissing | None]:
    """What stood against creating the topic."""
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if why_illegal(name) is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION, WhyMissing.ILLEGAL_NAME
    if catalogue.is_changing(name):
        return ErrorCode.LEADER_NOT_AVAILABLE, None
    if not config.auto_create_topics_enable:
        return unknown, WhyMissing.AUTO_CREATION_OFF
    if not may_create:
        return unknown, WhyMissing.NOT_ALLOWED
    return unknown, WhyMissing.INTERNAL if is_internal(name) else WhyMissing.COLLIDES


def _to_create(
    plane: DataPlane, names: Iterable[str]
) -> Generator[None, None, tuple[list[NewTopic], Absent]]:
    """Topics that are not there and may be, as many as one request creates; the others. A broker's own topics are
    not created by asking for them."""
    catalogue, count = plane.catalogue, plane.config.num_partitions
    factor = plane.config.default_replication_factor
    absent: Absent = {}
    wanted: dict[str, NewTopic] = {}
    # Where CreateTopics refuses so many, a client of Kafka's asks in vain as well.
    if count > MAX_PARTITIONS:
        return [], absent
    for name in names:
        yield
        if catalogue.get(name) is not None or catalogue.is_changing(name):
            continue
        if why_illegal(name) is not None or is_internal(name) or catalogue.metric_names.collides(name):
            continue
        most = plane.ownership.most_replicas(name)
        replicas = min(factor, most) if plane.config.accept_any_replication_factor else factor
        if not 1 <= replicas <= most:
            absent[name] = ErrorCode.INVALID_REPLICATION_FACTOR, None
        elif (len(wanted) + 1) * count > MAX_PARTITIONS:
            absent[name] = ErrorCode.LEADER_NOT_AVAILABLE, None
        else:
            # Of two names that metrics could not tell apart the first is created.
            new = NewTopic(name, count, {}, replication_factor=replicas)
            wanted.setdefault(metric_name(name), new)
    return list(wanted.values()), absent


def _create(plane: DataPlane, names: Iterable[str], changes: list[TopicChange]) -> Work[Absent]:
    """Creates what is not there and may be; why some of that is not there yet, or cannot be."""
    wanted, absent = yield from _to_create(plane, names)
    if not wanted:
        return absent
    yield Mark.CHANGES
    created = yield from plane.catalogue.creating(wanted)
    failed: dict[str, str] = {}
    for name, made in created.items():
        if isinstance(made, TooManyPartitions):
            absent[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
        elif isinstance(made, OSError | StorageError):
            absent[name] = ErrorCode.LEADER_NOT_AVAILABLE, None
            failed[name] = reason_of(made)
        elif not isinstance(made, Exception):
            changes.append(TopicCreated(name, made.topic_id, len(made.partitions), automatic=True))
            if made.replication_factor < plane.config.default_replication_factor:
                asked = plane.config.default_replication_factor
                changes.append(ReplicationFactorReduced(name, asked, made.replication_factor))
    if failed:
        name, reason = next(iter(failed.items()))
        others = f", nor can {len(failed) - 1} other topics" if len(failed) > 1 else ""
        changes.append(PartitionFailed(name, 0, f"cannot be created{others}: {reason}"))
    changes += too_many(created)
    return absent
