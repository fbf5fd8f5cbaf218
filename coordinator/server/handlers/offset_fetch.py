"""OffsetFetch: one group up to v7, several from v8 on, topics by id from v10 on.

Every form is put to the groups as the batch form by name, one group at a time. Source: Kafka's
`KafkaApis.handleOffsetFetchRequest`.
"""

from collections.abc import Hashable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Final

from coordinator.group.requests import FetchOffsets
from coordinator.net.caller import Caller
from coordinator.net.run_queue import RunQueue
from coordinator.server.handlers.groups import GroupRouter
from coordinator.server.handlers.merge import Combining, Merge, Put
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
MOST_TOPICS_AT_ONCE: Final = 500
"""Topics that a group is asked about before others are answered."""


class OffsetFetchHandler:
    """Answers OffsetFetch."""

    def __init__(self, router: GroupRouter, catalogue: Catalogue, run_queue: RunQueue) -> None:
        self._router = router
        self._catalogue = catalogue
        self._run_queue = run_queue

    def handle(self, request: OffsetFetchRequest, caller: Caller) -> object:
        """The committed offsets of each group that is asked for.

        A group is asked in pieces, with others in between; one that is named again and again, once.
        """
        version = caller.api_version
        groups = request.groups if version >= _SEVERAL_GROUPS_SINCE else [_as_group(request)]
        pieces: dict[Hashable, int] = {}
        unknown_ids: list[list[OffsetFetchResponseTopics]] = []

        def ask() -> Iterator[Put | None]:
            for asked in groups:
                key = _key(asked)
                if key in pieces:
                    yield None
                    continue
                pieces[key] = 0
                for group in _pieces(asked):
                    pieces[key] += 1
                    if version >= _TOPIC_IDS_SINCE:
                        group, unknown = self._by_name(group)
                        unknown_ids.append(unknown)
                    fetch = FetchOffsets(group, request.require_stable)
                    partition = self._router.runtime.partition_of(group.group_id)
                    yield partial(self._router.ask, partition, fetch, caller)

        def combine(answers: list[OffsetFetchResponseGroup]) -> Combining:
            each, unknown = iter(answers), iter(unknown_ids)
            whole = {}
            for key, count in pieces.items():
                answer = _joined([*islice(each, count)])
                if version >= _TOPIC_IDS_SINCE:
                    answer = self._by_id(answer, [*chain.from_iterable(islice(unknown, count))])
                whole[key] = answer
                yield
            if version < _SEVERAL_GROUPS_SINCE:
                return (yield from _as_single(request, whole[_key(groups[0])], version))
            return OffsetFetchResponse(groups=[whole[_key(group)] for group in groups])

        return Merge(combine, self._run_queue, version).answer(ask(), caller)

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
        topics = []
        for named in answer.topics:
            topic = self._catalogue.get(named.name)
            if topic is not None:
                topics.append(
                    OffsetFetchResponseTopics(
                        name=named.name, topic_id=topic.topic_id, partitions=named.partitions
                    )
                )
        return OffsetFetchResponseGroup(
            group_id=answer.group_id, topics=topics + unknown, error_code=answer.error_code
        )


def _key(group: OffsetFetchRequestGroup) -> Hashable:
    """What tells apart what is to be looked up."""
    if group.topics is not None:
        return id(group)
    return group.group_id, group.member_id, group.member_epoch


def _pieces(group: OffsetFetchRequestGroup) -> list[OffsetFetchRequestGroup]:
    """The request for a group in several, of so many topics each."""
    topics = group.topics
    if topics is None or len(topics) <= MOST_TOPICS_AT_ONCE:
        return [group]
    return [
        OffsetFetchRequestGroup(
            group_id=group.group_id,
            member_id=group.member_id,
            member_epoch=group.member_epoch,
            topics=topics[start : start + MOST_TOPICS_AT_ONCE],
        )
        for start in range(0, len(topics), MOST_TOPICS_AT_ONCE)
    ]


def _joined(answers: list[OffsetFetchResponseGroup]) -> OffsetFetchResponseGroup:
    """The answer for a group, from those to its pieces; an error of one is that of all."""
    if len(answers) == 1:
        return answers[0]
    refused = next((answer for answer in answers if answer.error_code != ErrorCode.NONE), None)
    if refused is not None:
        return refused
    topics = [topic for answer in answers for topic in answer.topics]
    return OffsetFetchResponseGroup(group_id=answers[0].group_id, topics=topics)


def _as_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _as_single(request: OffsetFetchRequest, answer: OffsetFetchResponseGroup, version: int) -> Combining:
    """The form of v0 to v7, in steps; below v2 there is no error but that of a partition."""
    error = answer.error_code
    found: Iterator[tuple[str, Iterable[OffsetFetchResponsePartitions]]]
    found = ((topic.name, topic.partitions) for topic in answer.topics)
    if error != ErrorCode.NONE and version < _TOP_LEVEL_ERROR_SINCE:
        asked = request.topics or []
        found = (
            (topic.name, (_no_offset(index, answer.error_code) for index in topic.partition_indexes))
            for topic in asked
        )
        error = ErrorCode.NONE
    topics = []
    for name, parts in found:
        partitions = []
        for part in parts:
            partitions.append(_single(part))
            yield
        topics.append(OffsetFetchResponseTopic(name=name, partitions=partitions))
    return OffsetFetchResponse(topics=topics, error_code=error)


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
