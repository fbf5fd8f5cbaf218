"""OffsetCommit, OffsetFetch and OffsetDelete: topics are resolved here, the groups see names only.

A partition that does not exist never reaches a group; its error is put where the request named it. Source:
Kafka's `KafkaApis.handleOffsetCommitRequest`, `handleOffsetFetchRequest`, `handleOffsetDeleteRequest`.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, cast

from coordinator.server.connection import Connection
from coordinator.server.handlers.groups import GroupRouter
from coordinator.server.route import Route
from coordinator.topics.catalogue import Catalogue
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

TOPIC_IDS_SINCE: Final = 10


class OffsetCommitHandler:
    """Answers OffsetCommit."""

    def __init__(self, router: GroupRouter, catalogue: Catalogue) -> None:
        self._router = router
        self._catalogue = catalogue

    def handle(
        self, request: OffsetCommitRequest, connection: Connection, route: Route, correlation_id: int
    ) -> object | None:
        """Commits what exists; a group that has nothing to commit is not consulted at all.

        The group gets both name and id of each topic: the one to find offsets by, the other to keep with them.
        """
        by_id = route.version >= TOPIC_IDS_SINCE
        known, refused = self._sift(request.topics, by_id)
        if not known:
            return OffsetCommitResponse(topics=refused)
        request.topics = known
        context = self._router.context(connection, route.version)
        response, partition = self._router.ask(request, context)
        finish: Callable[[object], object] | None = None
        if refused or by_id:
            finish = partial(_finish_commit, refused, {topic.name: topic.topic_id for topic in known}, by_id)
        if partition is None:
            return response if finish is None else finish(response)
        slot = connection.open_slot(route, correlation_id, parks=self._router.runtime.was_parked)
        slot.finish = finish
        self._router.wait_in(slot, partition, context, request)
        return None

    def _sift(
        self, topics: list[OffsetCommitRequestTopic], by_id: bool
    ) -> tuple[list[OffsetCommitRequestTopic], list[OffsetCommitResponseTopic]]:
        """What exists, by name; and the answer for what does not. A topic without partitions gets no answer
        when it exists, as in Kafka."""
        known: list[OffsetCommitRequestTopic] = []
        refused: list[OffsetCommitResponseTopic] = []
        for asked in topics:
            topic = self._catalogue.get_by_id(asked.topic_id) if by_id else self._catalogue.get(asked.name)
            count = 0 if topic is None else len(topic.partitions)
            found = [part for part in asked.partitions if 0 <= part.partition_index < count]
            if topic is not None and len(found) == len(asked.partitions):
                asked.name, asked.topic_id = topic.name, topic.topic_id
                if found:
                    known.append(asked)
                continue
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if topic is None and by_id:
                error = ErrorCode.UNKNOWN_TOPIC_ID
            missing = [part for part in asked.partitions if not 0 <= part.partition_index < count]
            refused.append(
                OffsetCommitResponseTopic(
                    name=asked.name,
                    topic_id=asked.topic_id,
                    partitions=[
                        OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=error)
                        for part in missing
                    ],
                )
            )
            if topic is not None and found:
                known.append(
                    OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=found)
                )
        return known, refused


def _finish_commit(
    refused: list[OffsetCommitResponseTopic], ids: dict[str, bytes], by_id: bool, answer: object
) -> OffsetCommitResponse:
    """The groups' answer with what was refused here, and with ids for names where the client asked by id."""
    response = cast("OffsetCommitResponse", answer)
    if by_id:
        for topic in response.topics:
            topic.topic_id = ids[topic.name]
    if not refused:
        return response
    topics: dict[object, OffsetCommitResponseTopic] = {}
    for topic in [*refused, *response.topics]:
        key: object = topic.topic_id if by_id else topic.name
        if key in topics:
            topics[key].partitions += topic.partitions
        else:
            topics[key] = topic
    return OffsetCommitResponse(topics=list(topics.values()))


class OffsetDeleteHandler:
    """Answers OffsetDelete."""

    def __init__(self, router: GroupRouter, catalogue: Catalogue) -> None:
        self._router = router
        self._catalogue = catalogue

    def handle(
        self, request: OffsetDeleteRequest, connection: Connection, route: Route, correlation_id: int
    ) -> object | None:
        """Deletes what exists. The group is consulted in any case: its error wins, and names no topics."""
        known: list[OffsetDeleteRequestTopic] = []
        refused: list[OffsetDeleteResponseTopic] = []
        for asked in request.topics:
            topic = self._catalogue.get(asked.name)
            count = 0 if topic is None else len(topic.partitions)
            found = [part for part in asked.partitions if 0 <= part.partition_index < count]
            missing = [part for part in asked.partitions if not 0 <= part.partition_index < count]
            if found:
                known.append(OffsetDeleteRequestTopic(name=asked.name, partitions=found))
            if missing:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                parts = [
                    OffsetDeleteResponsePartition(partition_index=part.partition_index, error_code=error)
                    for part in missing
                ]
                refused.append(OffsetDeleteResponseTopic(name=asked.name, partitions=parts))
        request = OffsetDeleteRequest(group_id=request.group_id, topics=known)

        def finish(answer: object) -> object:
            return _finish_delete(cast("OffsetDeleteResponse", answer), refused)

        context = self._router.context(connection, route.version)
        response, partition = self._router.ask(request, context)
        if partition is None:
            return finish(response)
        slot = connection.open_slot(route, correlation_id, parks=self._router.runtime.was_parked)
        slot.finish = finish
        self._router.wait_in(slot, partition, context, request)
        return None


def _finish_delete(
    response: OffsetDeleteResponse, refused: list[OffsetDeleteResponseTopic]
) -> OffsetDeleteResponse:
    if response.error_code != ErrorCode.NONE or not refused:
        return response
    topics: dict[str, list[OffsetDeleteResponsePartition]] = {}
    for topic in [*refused, *response.topics]:
        topics.setdefault(topic.name, []).extend(topic.partitions)
    return OffsetDeleteResponse(
        error_code=ErrorCode.NONE,
        topics=[
            OffsetDeleteResponseTopic(name=name, partitions=partitions) for name, partitions in topics.items()
        ],
    )
