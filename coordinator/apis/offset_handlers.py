"""OffsetCommit, OffsetFetch and OffsetDelete. Topics are resolved here: groups look up offsets by name.

A partition that does not exist never reaches a group; its error stands where the request named it. The topics
of a large request are resolved in steps, and its response is combined in steps. Existing partitions reach the
group together, so that a commit of any size is one batch of the log.
OffsetFetch covers one group up to v7, several groups from v8, and topic ids from v10. Each form reaches the
groups as the batch form with names, one group at a time.
Source: Kafka's `KafkaApis.handleOffsetCommitRequest`, `handleOffsetFetchRequest`,
`handleOffsetDeleteRequest`.
"""

from collections.abc import Hashable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Final

from coordinator.apis.group_handlers import GroupRouter
from coordinator.apis.scatter_gather import Combining, ScatterGather, SendPart, in_pieces
from coordinator.core.time_budget import RunQueue
from coordinator.group.group_requests import FetchOffsets
from coordinator.network.request_context import RequestContext
from coordinator.topics.catalogue import Catalogue
from protocol.error_codes import ErrorCode
from protocol.error_response import build_error_entry, build_error_response
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
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

COMMIT_TOPIC_IDS_SINCE: Final = 10
_SEVERAL_GROUPS_SINCE: Final = 8
_FETCH_TOPIC_IDS_SINCE: Final = 10
MAX_TOPICS_PER_PART: Final = 500
"""Topics that a group is asked about before others are answered."""


class OffsetCommitHandler:
    """Answers OffsetCommit."""

    def __init__(self, router: GroupRouter, catalogue: Catalogue, run_queue: RunQueue) -> None:
        self._router = router
        self._catalogue = catalogue
        self._run_queue = run_queue

    def handle(self, request: OffsetCommitRequest, context: RequestContext) -> object:
        """Commits what exists; a group that has nothing to commit is not consulted at all.

        The group gets the request with both name and id of each topic: the one to find offsets by, the other to
        keep with them.
        """
        by_id = context.api_version >= COMMIT_TOPIC_IDS_SINCE
        if context.is_large:
            return self._handle_large(request, context, by_id)
        known, refused = self._split_known(request.topics, by_id)
        if not known:
            return OffsetCommitResponse(topics=_merge_topics(refused, by_id))
        request.topics = known
        if not by_id and not refused:
            return self._router.answer_request(request, context)
        ids = {topic.name: topic.topic_id for topic in known}
        return self._router.answer_request(request, context, partial(_finish_commit, refused, ids, by_id))

    def _handle_large(self, request: OffsetCommitRequest, context: RequestContext, by_id: bool) -> object:
        """Answer a large request: topics are checked in steps, the commit itself is one step."""
        known: list[OffsetCommitRequestTopic] = []
        refused: dict[object, OffsetCommitResponseTopic] = {}

        def iterate_parts() -> Iterator[SendPart | None]:
            for requested in request.topics:
                is_begun = False
                for partitions in in_pieces(requested.partitions):
                    piece = OffsetCommitRequestTopic(
                        name=requested.name, topic_id=requested.topic_id, partitions=partitions
                    )
                    found, missing = self._split_known([piece], by_id)
                    if found and is_begun:
                        known[-1].partitions += found[0].partitions
                    elif found:
                        known.append(found[0])
                        is_begun = True
                    _add_topics(refused, missing, by_id)
                    yield None
            existing, missing_topics = self._recheck_topics(known, by_id)
            _add_topics(refused, missing_topics, by_id)
            if existing:
                partition = self._router.runtime.find_partition(request.group_id)
                yield partial(
                    self._router.ask_partition, partition, _create_commit(request, existing), context
                )

        def combine(answers: list[OffsetCommitResponse]) -> Combining:
            ids = {topic.name: topic.topic_id for topic in known}
            answered = [topic for answer in answers for topic in answer.topics]
            for topic in answered:
                topic.topic_id = ids[topic.name] if by_id else topic.topic_id
                if refused:
                    _add_topics(refused, [topic], by_id)
                yield
            return OffsetCommitResponse(topics=list(refused.values()) if refused else answered)

        return ScatterGather(combine, self._run_queue).answer_parts(iterate_parts(), context)

    def _recheck_topics(
        self, known: list[OffsetCommitRequestTopic], by_id: bool
    ) -> tuple[list[OffsetCommitRequestTopic], list[OffsetCommitResponseTopic]]:
        """What was found in earlier steps and is still there, and the answer for what was deleted since."""
        existing: list[OffsetCommitRequestTopic] = []
        missing_topics: list[OffsetCommitResponseTopic] = []
        error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for found in known:
            if self._catalogue.find_topic_by_id(found.topic_id) is not None:
                existing.append(found)
                continue
            missing_topics.append(_build_commit_error(found, found.partitions, error))
        return existing, missing_topics

    def _split_known(
        self, topics: list[OffsetCommitRequestTopic], by_id: bool
    ) -> tuple[list[OffsetCommitRequestTopic], list[OffsetCommitResponseTopic]]:
        """What exists, by name; and the answer for what does not. A topic without partitions gets no answer
        when it exists, as in Kafka."""
        known: list[OffsetCommitRequestTopic] = []
        refused: list[OffsetCommitResponseTopic] = []
        for requested in topics:
            topic = (
                self._catalogue.find_topic_by_id(requested.topic_id)
                if by_id
                else self._catalogue.find_topic(requested.name)
            )
            count = 0 if topic is None else len(topic.partitions)
            for part in requested.partitions:
                if not 0 <= part.partition_index < count:
                    break
            else:
                if topic is not None:
                    if requested.partitions:
                        requested.name, requested.topic_id = topic.name, topic.topic_id
                        known.append(requested)
                    continue
            found = [part for part in requested.partitions if 0 <= part.partition_index < count]
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if topic is None and by_id:
                error = ErrorCode.UNKNOWN_TOPIC_ID
            missing = [part for part in requested.partitions if not 0 <= part.partition_index < count]
            refused.append(_build_commit_error(requested, missing, error))
            if topic is not None and found:
                known.append(
                    OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=found)
                )
        return known, refused


def _build_commit_error(
    topic: OffsetCommitRequestTopic, partitions: list[OffsetCommitRequestPartition], error: ErrorCode
) -> OffsetCommitResponseTopic:
    refused = OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
    # The entry is the same in all versions: it has the name and the id.
    return build_error_entry(OffsetCommitResponseTopic, refused, COMMIT_TOPIC_IDS_SINCE, error)


def _create_commit(
    request: OffsetCommitRequest, known: list[OffsetCommitRequestTopic]
) -> OffsetCommitRequest:
    """What of a commit reaches its group."""
    return OffsetCommitRequest(
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        retention_time_ms=request.retention_time_ms,
        topics=known,
    )


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
    return OffsetCommitResponse(topics=_merge_topics([*refused, *response.topics], by_id))


def _merge_topics(topics: list[OffsetCommitResponseTopic], by_id: bool) -> list[OffsetCommitResponseTopic]:
    """One entry for each topic, where it was first named. Source: Kafka's `OffsetCommitResponse.Builder`."""
    merged: dict[object, OffsetCommitResponseTopic] = {}
    _add_topics(merged, topics, by_id)
    return list(merged.values())


def _add_topics(
    merged: dict[object, OffsetCommitResponseTopic], topics: list[OffsetCommitResponseTopic], by_id: bool
) -> None:
    for topic in topics:
        key: object = topic.topic_id if by_id else topic.name
        if key in merged:
            merged[key].partitions += topic.partitions
        else:
            merged[key] = topic


class OffsetFetchHandler:
    """Answers OffsetFetch."""

    def __init__(self, router: GroupRouter, catalogue: Catalogue, run_queue: RunQueue) -> None:
        self._router = router
        self._catalogue = catalogue
        self._run_queue = run_queue

    def handle(self, request: OffsetFetchRequest, context: RequestContext) -> object:
        """The committed offsets of each group that is asked for.

        A group is asked in pieces, with others in between; one that is named again and again, once.
        """
        version = context.api_version
        groups = request.groups if version >= _SEVERAL_GROUPS_SINCE else [_to_group_request(request)]
        pieces: dict[Hashable, int] = {}
        unknown_ids: list[list[OffsetFetchResponseTopics]] = []

        def iterate_parts() -> Iterator[SendPart | None]:
            for requested in groups:
                key = _group_key(requested)
                if key in pieces:
                    yield None
                    continue
                pieces[key] = 0
                for group in _split_group(requested):
                    pieces[key] += 1
                    if version >= _FETCH_TOPIC_IDS_SINCE:
                        group, unknown = self._replace_ids_by_names(group, version)
                        unknown_ids.append(unknown)
                    fetch = FetchOffsets(group, request.require_stable)
                    partition = self._router.runtime.find_partition(group.group_id)
                    yield partial(self._router.ask_partition, partition, fetch, context)

        def combine(answers: list[OffsetFetchResponseGroup]) -> Combining:
            each, unknown = iter(answers), iter(unknown_ids)
            whole = {}
            for key, count in pieces.items():
                answer = _join_answers([*islice(each, count)])
                if version >= _FETCH_TOPIC_IDS_SINCE:
                    answer = self._replace_names_by_ids(
                        answer, [*chain.from_iterable(islice(unknown, count))]
                    )
                whole[key] = answer
                yield
            if version < _SEVERAL_GROUPS_SINCE:
                return (yield from _to_single_response(request, whole[_group_key(groups[0])], version))
            return OffsetFetchResponse(groups=[whole[_group_key(group)] for group in groups])

        return ScatterGather(combine, self._run_queue).answer_parts(iterate_parts(), context)

    def _replace_ids_by_names(
        self, group: OffsetFetchRequestGroup, version: int
    ) -> tuple[OffsetFetchRequestGroup, list[OffsetFetchResponseTopics]]:
        """The request for a group with names for ids, and the answer for the ids that have no name."""
        if group.topics is None:
            return group, []
        topics: list[OffsetFetchRequestTopics] = []
        unknown: list[OffsetFetchResponseTopics] = []
        for requested in group.topics:
            topic = self._catalogue.find_topic_by_id(requested.topic_id)
            if topic is None:
                unknown.append(
                    build_error_entry(
                        OffsetFetchResponseTopics, requested, version, ErrorCode.UNKNOWN_TOPIC_ID
                    )
                )
            else:
                topics.append(
                    OffsetFetchRequestTopics(
                        name=topic.name,
                        topic_id=requested.topic_id,
                        partition_indexes=requested.partition_indexes,
                    )
                )
        named = OffsetFetchRequestGroup(
            group_id=group.group_id, member_id=group.member_id, member_epoch=group.member_epoch, topics=topics
        )
        return named, unknown

    def _replace_names_by_ids(
        self, answer: OffsetFetchResponseGroup, unknown: list[OffsetFetchResponseTopics]
    ) -> OffsetFetchResponseGroup:
        """The answer for a group with ids for names; offsets of topics that exist no more have none."""
        if answer.error_code != ErrorCode.NONE:
            return answer
        topics = []
        for named in answer.topics:
            topic = self._catalogue.find_topic(named.name)
            if topic is not None:
                topics.append(
                    OffsetFetchResponseTopics(
                        name=named.name, topic_id=topic.topic_id, partitions=named.partitions
                    )
                )
        return OffsetFetchResponseGroup(
            group_id=answer.group_id, topics=topics + unknown, error_code=answer.error_code
        )


def _group_key(group: OffsetFetchRequestGroup) -> Hashable:
    """What tells apart what is to be looked up."""
    if group.topics is not None:
        return id(group)
    return group.group_id, group.member_id, group.member_epoch


def _split_group(group: OffsetFetchRequestGroup) -> list[OffsetFetchRequestGroup]:
    """The request for a group in several, of so many topics each."""
    topics = group.topics
    if topics is None or len(topics) <= MAX_TOPICS_PER_PART:
        return [group]
    return [
        OffsetFetchRequestGroup(
            group_id=group.group_id,
            member_id=group.member_id,
            member_epoch=group.member_epoch,
            topics=topics[start : start + MAX_TOPICS_PER_PART],
        )
        for start in range(0, len(topics), MAX_TOPICS_PER_PART)
    ]


def _join_answers(answers: list[OffsetFetchResponseGroup]) -> OffsetFetchResponseGroup:
    """The answer for a group, from those to its pieces; an error of one is that of all."""
    if len(answers) == 1:
        return answers[0]
    refused = next((answer for answer in answers if answer.error_code != ErrorCode.NONE), None)
    if refused is not None:
        return refused
    topics = [topic for answer in answers for topic in answer.topics]
    return OffsetFetchResponseGroup(group_id=answers[0].group_id, topics=topics)


def _to_group_request(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _to_single_response(
    request: OffsetFetchRequest, answer: OffsetFetchResponseGroup, version: int
) -> Combining:
    """The form of v0 to v7, in steps."""
    if answer.error_code != ErrorCode.NONE:
        return build_error_response(request, version, ErrorCode(answer.error_code))
    topics = []
    for topic in answer.topics:
        partitions = []
        for part in topic.partitions:
            partitions.append(_to_single_partition(part))
            yield
        topics.append(OffsetFetchResponseTopic(name=topic.name, partitions=partitions))
    return OffsetFetchResponse(topics=topics)


def _to_single_partition(part: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=part.partition_index,
        committed_offset=part.committed_offset,
        committed_leader_epoch=part.committed_leader_epoch,
        metadata=part.metadata,
        error_code=part.error_code,
    )


class OffsetDeleteHandler:
    """Answers OffsetDelete."""

    def __init__(self, router: GroupRouter, catalogue: Catalogue, run_queue: RunQueue) -> None:
        self._router = router
        self._catalogue = catalogue
        self._run_queue = run_queue

    def handle(self, request: OffsetDeleteRequest, context: RequestContext) -> object:
        """Deletes what exists. The group is consulted in any case: its error wins, and names no topics."""
        known: list[OffsetDeleteRequestTopic] = []
        refused: dict[str, OffsetDeleteResponseTopic] = {}

        def iterate_parts() -> Iterator[SendPart | None]:
            for requested in request.topics:
                is_begun = False
                for partitions in in_pieces(requested.partitions):
                    found = self._split_known(requested.name, partitions, refused)
                    if found and is_begun:
                        known[-1].partitions += found
                    elif found:
                        known.append(OffsetDeleteRequestTopic(name=requested.name, partitions=found))
                        is_begun = True
                    yield None
            partition = self._router.runtime.find_partition(request.group_id)
            existing = OffsetDeleteRequest(group_id=request.group_id, topics=known)
            yield partial(self._router.ask_partition, partition, existing, context)

        def combine(answers: list[OffsetDeleteResponse]) -> Combining:
            response = answers[0]
            if response.error_code != ErrorCode.NONE or not refused:
                return response
            for topic in response.topics:
                _add_refused(refused, topic.name, topic.partitions)
                yield
            return OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=list(refused.values()))

        return ScatterGather(combine, self._run_queue).answer_parts(iterate_parts(), context)

    def _split_known(
        self,
        name: str,
        partitions: list[OffsetDeleteRequestPartition],
        refused: dict[str, OffsetDeleteResponseTopic],
    ) -> list[OffsetDeleteRequestPartition]:
        """What of a topic exists; the others are refused."""
        topic = self._catalogue.find_topic(name)
        count = 0 if topic is None else len(topic.partitions)
        missing = [
            OffsetDeleteResponsePartition(
                partition_index=part.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            for part in partitions
            if not 0 <= part.partition_index < count
        ]
        if missing:
            _add_refused(refused, name, missing)
        return [part for part in partitions if 0 <= part.partition_index < count]


def _add_refused(
    refused: dict[str, OffsetDeleteResponseTopic], name: str, partitions: list[OffsetDeleteResponsePartition]
) -> None:
    """Adds partitions to the answer for their topic."""
    if name in refused:
        refused[name].partitions += partitions
    else:
        refused[name] = OffsetDeleteResponseTopic(name=name, partitions=partitions)
