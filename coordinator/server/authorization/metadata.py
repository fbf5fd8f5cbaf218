"""Metadata: DESCRIBE on each topic; to have it created, CREATE on the cluster or on the topic.

Refused topics come after the others, first those that may be described and not created; of all topics they are
missing, and nothing of them is logged. Source: Kafka's `KafkaApis.handleTopicMetadataRequest`.
"""

from collections.abc import Generator
from typing import Final

from coordinator.security.acl import Operation, ResourceType
from coordinator.server.authorization.permits import Permits
from coordinator.server.authorization.verdict import PASS, Guard, Pass, Steps
from coordinator.topics.authorized_operations import NOT_ASKED
from protocol.errors import ErrorCode
from protocol.kinds import ZERO_UUID
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

_BY_ID_SINCE: Final = 12
_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def metadata_guard(creates_topics: bool) -> Guard:
    """In: whether topics that are asked for are created (`auto.create.topics.enable`)."""

    def guard(request: MetadataRequest, permits: Permits) -> Steps:
        if _is_nonsense(request, permits.api_version):
            return PASS  # and refused there
        is_all = request.topics is None or (permits.api_version == 0 and not request.topics)
        asks = request.include_topic_authorized_operations
        refused: list[MetadataResponseTopic] = []
        if is_all:
            yield from _look_at_all(permits, asks=asks)
        else:
            request.topics, refused = yield from _sift(
                request.topics or [],
                permits,
                creates=creates_topics and request.allow_auto_topic_creation,
                asks=asks,
            )
        # The oldest version cannot ask for no topic: it is answered with all, of which none is shown.
        shows_none = bool(refused) and not request.topics

        def finish(response: MetadataResponse) -> MetadataResponse:
            topics = [] if shows_none else response.topics
            if is_all:
                topics = [
                    topic
                    for topic in topics
                    if permits.allows_on_topic(Operation.DESCRIBE, topic.name or "", is_silent=True)
                ]
            for topic in topics if asks else ():
                if topic.topic_authorized_operations != NOT_ASKED and topic.name is not None:
                    topic.topic_authorized_operations = permits.operations(ResourceType.TOPIC, topic.name)
            response.topics = topics + refused
            if request.include_cluster_authorized_operations:
                response.cluster_authorized_operations = permits.operations_on_cluster()
            return response

        return Pass(finish)

    return guard


def _look_at_all(permits: Permits, *, asks: bool) -> Generator[None, None, None]:
    """Decides what of all topics is shown, in steps: the answer then waits for no decision."""
    for name in [topic.name for topic in permits.catalogue]:
        if permits.allows_on_topic(Operation.DESCRIBE, name, is_silent=True) and asks:
            permits.operations(ResourceType.TOPIC, name)
        yield


def _sift(
    topics: list[MetadataRequestTopic], permits: Permits, *, creates: bool, asks: bool
) -> Generator[None, None, tuple[list[MetadataRequestTopic], list[MetadataResponseTopic]]]:
    """What is left to be described, and the answers to what is refused, each once."""
    ids = dict.fromkeys(entry.topic_id for entry in topics if entry.topic_id != ZERO_UUID)
    if ids:  # names alone are not looked at then
        return (yield from _sift_ids(ids, permits, asks=asks))
    allowed: list[MetadataRequestTopic] = []
    hidden: list[MetadataResponseTopic] = []
    not_created: list[MetadataResponseTopic] = []
    for name in dict.fromkeys(entry.name or "" for entry in topics):
        if not permits.allows_on_topic(Operation.DESCRIBE, name):
            hidden.append(_refused(name, ZERO_UUID))
        elif creates and permits.catalogue.get(name) is None and not _may_create(permits, name):
            not_created.append(_refused(name, ZERO_UUID))
        else:
            allowed.append(MetadataRequestTopic(name=name))
            if asks:
                permits.operations(ResourceType.TOPIC, name)
        yield
    return allowed, not_created + hidden


def _sift_ids(
    ids: dict[bytes, None], permits: Permits, *, asks: bool
) -> Generator[None, None, tuple[list[MetadataRequestTopic], list[MetadataResponseTopic]]]:
    """The same by id: who is refused is not told the name, and one that is not known cannot be refused."""
    allowed: list[MetadataRequestTopic] = []
    hidden: list[MetadataResponseTopic] = []
    for topic_id in ids:
        name = permits.name_of(topic_id)
        if name is None or permits.allows_on_topic(Operation.DESCRIBE, name):
            allowed.append(MetadataRequestTopic(topic_id=topic_id))
            if asks and name is not None:
                permits.operations(ResourceType.TOPIC, name)
        else:
            hidden.append(_refused(None, topic_id))
        yield
    return allowed, hidden


def _may_create(permits: Permits, name: str) -> bool:
    return permits.allows_on_cluster(Operation.CREATE, logs_denied=False) or permits.allows_on_topic(
        Operation.CREATE, name
    )


def _is_nonsense(request: MetadataRequest, version: int) -> bool:
    """Whether topics are asked for in a way that the version does not know."""
    return any(
        (entry.name is None or entry.topic_id != ZERO_UUID)
        if version < _BY_ID_SINCE
        else (entry.name is None and entry.topic_id == ZERO_UUID)
        for entry in request.topics or ()
    )


def _refused(name: str | None, topic_id: bytes) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=_DENIED, name=name, topic_id=topic_id, partitions=[])
