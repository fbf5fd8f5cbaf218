"""OffsetCommit, OffsetFetch and OffsetDelete: topics are resolved here, the groups see names only.

A partition that does not exist never reaches a group; its error is put where the request named it. Source:
Kafka's `KafkaApis.handleOffsetCommitRequest`, `handleOffsetFetchRequest`, `handleOffsetDeleteRequest`.
"""

from functools import partial
from typing import Final

from coordinator.net.caller import Caller
from coordinator.server.handlers.groups import GroupRouter
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

    def handle(self, request: OffsetCommitRequest, caller: Caller) -> object:
        """Commits what exists; a group that has nothing to commit is not consulted at all.

        The group gets the request with both name and id of each topic: the one to find offsets by, the other to
        keep with them.
        """
        by_id = caller.api_version >= TOPIC_IDS_SINCE
        known, refused = self._sift(request.topics, by_id)
        if not known:
            return OffsetCommitResponse(topics=_merged(refused, by_id))
        request.topics = known
        if not refused and not by_id:
            return self._router.answer(request, caller)
        ids = {topic.name: topic.topic_id for topic in known}
        return self._router.answer(request, caller, partial(_finish_commit, refused, ids, by_id))

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
                if found:
                    asked.name, asked.topic_id = topic.name, topic.topic_id
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
    refused: list[OffsetCommitResponseTopic],
    ids: dict[str, bytes],
    by_id: bool,
    response: OffsetCommitResponse,
) -> OffsetCommitResponse:
    """The groups' answer with what was refused here, and with ids for names where the client asked by id."""
    if by_id:
        for topic in response.topics:
            topic.topic_id = ids[topic.name]
    if not refused:
        return response
    return OffsetCommitResponse(topics=_merged([*refused, *response.topics], by_id))


def _merged(topics: list[OffsetCommitResponseTopic], by_id: bool) -> list[OffsetCommitResponseTopic]:
    """One entry for each topic, where it was first named. Source: Kafka's `OffsetCommitResponse.Builder`."""
    merged: dict[object, OffsetCommitResponseTopic] = {}
    for topic in topics:
        key: object = topic.topic_id if by_id else topic.name
        if key in merged:
            merged[key].partitions += topic.partitions
        else:
            merged[key] = topic
    return list(merged.values())


class OffsetDeleteHandler:
    """Answers OffsetDelete."""

    def __init__(self, router: GroupRouter, catalogue: Catalogue) -> None:
        self._router = router
        self._catalogue = catalogue

    def handle(self, request: OffsetDeleteRequest, caller: Caller) -> object:
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
        return self._router.answer(
            OffsetDeleteRequest(group_id=request.group_id, topics=known),
            caller,
            partial(_finish_delete, refused),
        )


def _finish_delete(
    refused: list[OffsetDeleteResponseTopic], response: OffsetDeleteResponse
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
