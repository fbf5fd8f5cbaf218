"""OffsetFetch: one group up to v7, several from v8 on, topics by id from v10 on.

Every form is put to the groups as the batch form by name, one group at a time. Source: Kafka's
`KafkaApis.handleOffsetFetchRequest`.
"""

from functools import partial
from typing import Final

from coordinator.group.requests import FetchOffsets
from coordinator.net.caller import Caller
from coordinator.server.handlers.groups import GroupRouter
from coordinator.server.handlers.merge import Merge
from coordinator.topics.catalogue import Catalogue
from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

_TOP_LEVEL_ERROR_SINCE: Final = 2
_SEVERAL_GROUPS_SINCE: Final = 8
_TOPIC_IDS_SINCE: Final = 10
_NO_OFFSET: Final = -1


class OffsetFetchHandler:
    """Answers OffsetFetch."""

    def __init__(self, router: GroupRouter, catalogue: Catalogue) -> None:
        self._router = router
        self._catalogue = catalogue

    def handle(self, request: OffsetFetchRequest, caller: Caller) -> object:
        """The committed offsets of each group that is asked for."""
        version = caller.api_version
        groups = request.groups if version >= _SEVERAL_GROUPS_SINCE else [_as_group(request)]
        unknown_ids: list[list[OffsetFetchResponseTopics]] = []

        def combine(answers: list[OffsetFetchResponseGroup]) -> OffsetFetchResponse:
            if version < _SEVERAL_GROUPS_SINCE:
                return _as_single(request, answers[0], version)
            if version >= _TOPIC_IDS_SINCE:
                answers = [
                    self._by_id(answer, unknown) for answer, unknown in zip(answers, unknown_ids, strict=True)
                ]
            return OffsetFetchResponse(groups=answers)

        merge = Merge(combine)
        router = self._router
        for group in groups:
            if version >= _TOPIC_IDS_SINCE:
                group, unknown = self._by_name(group)
                unknown_ids.append(unknown)
            fetch = FetchOffsets(group, request.require_stable)
            partition = router.runtime.partition_of(group.group_id)
            merge.ask(partial(router.ask, partition, fetch, caller), version)
        return merge.answer(caller)

    def _by_name(
        self, group: OffsetFetchRequestGroup
    ) -> tuple[OffsetFetchRequestGroup, list[OffsetFetchResponseTopics]]:
        """The request for a group with names for ids, and the answer for the ids that have no name."""
        if group.topics is None:
            return group, []
        topics: list[OffsetFetchRequestTopics] = []
        unknown: list[OffsetFetchResponseTopics] = []
        for asked in group.topics:
            topic = self._catalogue.get_by_id(asked.topic_id)
            if topic is None:
                parts = [_no_offset(index, ErrorCode.UNKNOWN_TOPIC_ID) for index in asked.partition_indexes]
                unknown.append(OffsetFetchResponseTopics(topic_id=asked.topic_id, partitions=parts))
            else:
                topics.append(
                    OffsetFetchRequestTopics(
                        name=topic.name, topic_id=asked.topic_id, partition_indexes=asked.partition_indexes
                    )
                )
        named = OffsetFetchRequestGroup(
            group_id=group.group_id, member_id=group.member_id, member_epoch=group.member_epoch, topics=topics
        )
        return named, unknown

    def _by_id(
        self, answer: OffsetFetchResponseGroup, unknown: list[OffsetFetchResponseTopics]
    ) -> OffsetFetchResponseGroup:
        """The answer for a group with ids for names; offsets of topics that exist no more have none."""
        if answer.error_code != ErrorCode.NONE:
            return answer
        topics = list(unknown)
        for named in answer.topics:
            topic = self._catalogue.get(named.name)
            if topic is not None:
                topics.append(
                    OffsetFetchResponseTopics(
                        name=named.name, topic_id=topic.topic_id, partitions=named.partitions
                    )
                )
        return OffsetFetchResponseGroup(group_id=answer.group_id, topics=topics, error_code=answer.error_code)


def _as_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _as_single(
    request: OffsetFetchRequest, answer: OffsetFetchResponseGroup, version: int
) -> OffsetFetchResponse:
    """The form of v0 to v7; below v2 there is no error but that of a partition."""
    if answer.error_code != ErrorCode.NONE and version < _TOP_LEVEL_ERROR_SINCE:
        topics = [
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    _single(_no_offset(index, answer.error_code)) for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or []
        ]
        return OffsetFetchResponse(topics=topics)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(name=topic.name, partitions=[_single(part) for part in topic.partitions])
            for topic in answer.topics
        ],
        error_code=answer.error_code,
    )


def _single(part: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=part.partition_index,
        committed_offset=part.committed_offset,
        committed_leader_epoch=part.committed_leader_epoch,
        metadata=part.metadata,
        error_code=part.error_code,
    )


def _no_offset(partition_index: int, error: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=partition_index,
        committed_offset=_NO_OFFSET,
        metadata="",
        error_code=error,
    )
