"""OffsetCommit, OffsetFetch and OffsetDelete.

The handlers resolve topics, because groups look up offsets by name. A partition that does not exist never reaches a
group; its error appears at its place in the request. The topics of a large request are resolved in steps, and its
response is combined in steps. Existing partitions reach the group together, so that a commit of any size is one
batch of the log. OffsetFetch covers one group up to v7, several groups from v8, and topic ids from v10. Each form
reaches the groups as the batch form with names, one group at a time.

Source: Kafka's `KafkaApis.handleOffsetCommitRequest`, `handleOffsetFetchRequest`, `handleOffsetDeleteRequest`.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar

from coordinator.apis.group_handlers import GroupRouter
from coordinator.apis.request_task import (
    MAX_PARTITIONS_PER_STEP,
    PartResponses,
    RequestTasks,
    SendPart,
    gather_parts,
    in_pieces,
)
from coordinator.core.reply import defer_mapped
from coordinator.core.response_status import DeferredResponse
from coordinator.core.time_budget import Budget
from coordinator.group.group_requests import FetchOffsets
from coordinator.network.request_context import RequestContext
from coordinator.topics.catalogue import Catalogue
from protocol.error_codes import ErrorCode
from protocol.error_response import build_error_entry, build_error_response
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
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
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequestTopic, TxnOffsetCommitResponseTopic

COMMIT_TOPIC_IDS_SINCE: Final = 10
_SEVERAL_GROUPS_SINCE: Final = 8
_FETCH_TOPIC_IDS_SINCE: Final = 10
MAX_TOPICS_PER_PART: Final = 500
"""Topics of one request to a group. Other requests are answered after each one."""
T = TypeVar("T", OffsetCommitRequestTopic, TxnOffsetCommitRequestTopic)
R = TypeVar("R", OffsetCommitResponseTopic, TxnOffsetCommitResponseTopic)


class CommitTopicResolver(Generic[T, R]):
    """Resolves the topics of OffsetCommit or TxnOffsetCommit, given by name or by id. Groups get both: they find
    offsets by name, and store the id with them.
    """

    def __init__(
        self, catalogue: Catalogue, topic_class: type[T], response_class: type[R], topic_ids_since: int
    ) -> None:
        """Create the resolver.

        Args:
            topic_class: the class of topics in the request.
            response_class: the class of topics in the response.
            topic_ids_since: the first version with topic ids.
        """
        self._catalogue = catalogue
        self._topic_class: type[Any] = topic_class
        self._response_class: type[R] = response_class
        self._topic_ids_since = topic_ids_since

    def split_topics(self, topics: Sequence[T], by_id: bool) -> tuple[list[T], list[R]]:
        """Split a request into the partitions that exist and the errors of the others.

        As in Kafka, an existing topic without partitions in the request is in neither list.

        Args:
            topics: the topics of the request. Those whose partitions all exist get their name and id.
            by_id: whether the version names topics by id.
        """
        known: list[T] = []
        refused: list[R] = []
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
            refused.append(self._build_error(requested, missing, error))
            if topic is not None and found:
                known.append(self._topic_class(name=topic.name, topic_id=topic.topic_id, partitions=found))
        return known, refused

    async def split_topics_in_steps(
        self, topics: Sequence[T], by_id: bool, refused: dict[object, R], budget: Budget
    ) -> list[T]:
        """Return the partitions of a large request that exist, and add the errors of the others to `refused`, by
        name or id.

        Topics may be deleted between two steps: the caller refuses those just before the commit.
        """
        known: list[T] = []
        for requested in topics:
            is_begun = False
            for partitions in in_pieces(requested.partitions):
                piece = self._topic_class(
                    name=requested.name, topic_id=requested.topic_id, partitions=partitions
                )
                found, missing = self.split_topics([piece], by_id)
                if found and is_begun and known[-1].topic_id == found[0].topic_id:
                    known[-1].partitions += found[0].partitions
                elif found:
                    known.append(found[0])
                    is_begun = True
                add_topics(refused, missing, by_id)
                await budget.checkpoint()
        return known

    def refuse_deleted_topics(self, known: list[T], refused: dict[object, R], by_id: bool) -> list[T]:
        """Return the topics that still exist, and add the errors of the others."""
        error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        existing: list[T] = []
        for found in known:
            if self._catalogue.find_topic_by_id(found.topic_id) is not None:
                existing.append(found)
            else:
                add_topics(refused, [self._build_error(found, found.partitions, error)], by_id)
        return existing

    def _build_error(self, topic: T, partitions: Sequence[Any], error: ErrorCode) -> R:
        refused = self._topic_class(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
        # The entry is the same in all versions: it has the name and the id.
        return build_error_entry(self._response_class, refused, self._topic_ids_since, error)


def merge_topics(topics: Iterable[R], by_id: bool) -> list[R]:
    """Return one entry for each topic, at the place of its first one."""
    merged: dict[object, R] = {}
    add_topics(merged, topics, by_id)
    return list(merged.values())


def add_topics(merged: dict[object, R], topics: Iterable[R], by_id: bool) -> None:
    """Add topics to a response that has one entry for each topic, by name or id."""
    for topic in topics:
        key: object = topic.topic_id if by_id else topic.name
        if key in merged:
            merged[key].partitions += topic.partitions
        else:
            merged[key] = topic


class OffsetCommitHandler:
    """Answers OffsetCommit."""

    def __init__(self, router: GroupRouter, catalogue: Catalogue, tasks: RequestTasks) -> None:
        self._router = router
        self._resolver = CommitTopicResolver(
            catalogue, OffsetCommitRequestTopic, OffsetCommitResponseTopic, COMMIT_TOPIC_IDS_SINCE
        )
        self._split_topics = self._resolver.split_topics
        self._tasks = tasks

    def handle(self, request: OffsetCommitRequest, context: RequestContext) -> object:
        """Commit offsets of partitions that exist. Without any, the group gets no request."""
        by_id = context.api_version >= COMMIT_TOPIC_IDS_SINCE
        if context.is_large:
            budget = self._tasks.create_budget()
            return self._tasks.run(
                self._commit_in_steps(request, by_id, context, budget), context.defer, budget
            )
        known, refused = self._split_topics(request.topics, by_id)
        if not known:
            return OffsetCommitResponse(topics=merge_topics(refused, by_id))
        request.topics = known
        if not refused:
            return self._router.answer_request(request, context)
        return self._router.answer_request(request, context, partial(_add_refused_topics, refused, by_id))

    async def _commit_in_steps(
        self, request: OffsetCommitRequest, by_id: bool, context: RequestContext, budget: Budget
    ) -> object:
        """Answer a large request: topics are looked up in steps, the commit itself is one step."""
        refused: dict[object, OffsetCommitResponseTopic] = {}
        known = await self._resolver.split_topics_in_steps(request.topics, by_id, refused, budget)
        known = self._resolver.refuse_deleted_topics(known, refused, by_id)
        if not known:
            return OffsetCommitResponse(topics=list(refused.values()))
        request.topics = known
        partition = self._router.runtime.find_partition(request.group_id)
        part = partial(self._router.ask_partition, partition, request, context)
        (response,) = await gather_parts([part], context, budget)
        if not refused:
            return response
        for topic in response.topics:
            add_topics(refused, [topic], by_id)
            await budget.checkpoint()
        return OffsetCommitResponse(topics=list(refused.values()))


def _add_refused_topics(
    refused: list[OffsetCommitResponseTopic], by_id: bool, response: OffsetCommitResponse
) -> OffsetCommitResponse:
    """Add errors to the response of the group, which has names and ids of its topics."""
    return OffsetCommitResponse(topics=merge_topics([*refused, *response.topics], by_id))


class _FetchPart(NamedTuple):
    """Some topics of one group, by name."""

    group: OffsetFetchRequestGroup
    topic_ids: dict[str, bytes] | None
    """The ids by which the client named the topics; None if it named them by name."""
    unknown: list[OffsetFetchResponseTopics]
    """The errors of topics with unknown ids."""


class _SentPart(NamedTuple):
    """A part that was sent to the group."""

    part: _FetchPart
    continues_topic: bool
    """Whether it has further partitions of the last topic of the part before it, and nothing else."""


class OffsetFetchHandler:
    """Answers OffsetFetch."""

    def __init__(self, router: GroupRouter, catalogue: Catalogue, tasks: RequestTasks) -> None:
        self._router = router
        self._catalogue = catalogue
        self._tasks = tasks

    def handle(self, request: OffsetFetchRequest, context: RequestContext) -> object:
        """Return the committed offsets of each group."""
        version = context.api_version
        if context.is_large or version < _SEVERAL_GROUPS_SINCE or len(request.groups) != 1:
            budget = self._tasks.create_budget()
            return self._tasks.run(self._fetch_in_parts(request, context, budget), context.defer, budget)
        part = self._find_names(request.groups[0], version)
        send = self._create_part(part.group, request.require_stable, context)
        response = send(partial(defer_mapped, context.defer, partial(self._finish_single, part, version)))
        return (
            response if type(response) is DeferredResponse else self._finish_single(part, version, response)
        )

    def _finish_single(self, part: _FetchPart, version: int, response: Any) -> OffsetFetchResponse:
        return OffsetFetchResponse(groups=[self._add_ids(response, part, version)])

    async def _fetch_in_parts(
        self, request: OffsetFetchRequest, context: RequestContext, budget: Budget
    ) -> object:
        """Answer a request for several groups, a large request, or a version up to v7.

        A group gets a large request in parts; each part resolves its topics when it is sent. A repeated group is
        read once.
        """
        version = context.api_version
        groups = request.groups
        if version < _SEVERAL_GROUPS_SINCE:
            groups = [await _to_group_request(request, budget)]
        parts: dict[Hashable, list[_SentPart]] = {}
        with PartResponses(context) as responses:
            for requested in groups:
                key = _group_key(requested)
                if key in parts:
                    await budget.checkpoint()
                    continue
                parts[key] = []
                for group, continues_topic in _split_group(requested):
                    if continues_topic:
                        part = _continue_part(parts[key][-1].part, group, version)
                    else:
                        part = self._find_names(group, version)
                    parts[key].append(_SentPart(part, continues_topic))
                    responses.send(self._create_part(part.group, request.require_stable, context))
                    await budget.checkpoint()
            answers = iter(await responses)
        fetched: dict[Hashable, OffsetFetchResponseGroup] = {}
        for key, of_group in parts.items():
            fetched[key] = await self._join_answers(of_group, answers, version, budget)
            await budget.checkpoint()
        if version < _SEVERAL_GROUPS_SINCE:
            return await _to_single_response(request, fetched[_group_key(groups[0])], version, budget)
        return OffsetFetchResponse(groups=[fetched[_group_key(group)] for group in groups])

    def _create_part(
        self, group: OffsetFetchRequestGroup, require_stable: bool, context: RequestContext
    ) -> SendPart:
        partition = self._router.runtime.find_partition(group.group_id)
        return partial(self._router.ask_partition, partition, FetchOffsets(group, require_stable), context)

    def _find_names(self, group: OffsetFetchRequestGroup, version: int) -> _FetchPart:
        """Resolve the topics that a request names by id."""
        if version < _FETCH_TOPIC_IDS_SINCE or group.topics is None:
            return _FetchPart(group, None, [])
        topics: list[OffsetFetchRequestTopics] = []
        topic_ids: dict[str, bytes] = {}
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
                topic_ids[topic.name] = topic.topic_id
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
        return _FetchPart(named, topic_ids, unknown)

    def _add_ids(
        self, response: OffsetFetchResponseGroup, part: _FetchPart, version: int
    ) -> OffsetFetchResponseGroup:
        """Replace the topic names in a group's response by ids. A response about all topics omits deleted topics,
        which have no id.
        """
        if version < _FETCH_TOPIC_IDS_SINCE or response.error_code != ErrorCode.NONE:
            return response
        find_id = self._find_id if part.topic_ids is None else part.topic_ids.get
        topics = [
            OffsetFetchResponseTopics(name=named.name, topic_id=topic_id, partitions=named.partitions)
            for named in response.topics
            if (topic_id := find_id(named.name)) is not None
        ]
        return OffsetFetchResponseGroup(
            group_id=response.group_id, topics=topics + part.unknown, error_code=response.error_code
        )

    async def _join_answers(
        self,
        parts: Sequence[_SentPart],
        answers: Iterator[OffsetFetchResponseGroup],
        version: int,
        budget: Budget,
    ) -> OffsetFetchResponseGroup:
        """Join the responses to the parts of one group's request. The first error of a part becomes the group's."""
        joined = self._add_ids(next(answers), parts[0].part, version)
        for part, continues_topic in parts[1:]:
            await budget.checkpoint()
            answer = self._add_ids(next(answers), part, version)
            if joined.error_code == ErrorCode.NONE:
                if answer.error_code != ErrorCode.NONE:
                    joined = answer
                elif continues_topic:
                    joined.topics[-1].partitions += answer.topics[0].partitions
                else:
                    joined.topics += answer.topics
        return joined

    def _find_id(self, name: str) -> bytes | None:
        topic = self._catalogue.find_topic(name)
        return None if topic is None else topic.topic_id


def _group_key(group: OffsetFetchRequestGroup) -> Hashable:
    """Return a key that is equal for two groups of a request that one lookup can answer."""
    if group.topics is not None:
        return id(group)
    return group.group_id, group.member_id, group.member_epoch


def _split_group(group: OffsetFetchRequestGroup) -> Iterator[tuple[OffsetFetchRequestGroup, bool]]:
    """Split the request for a group into requests of at most `MAX_TOPICS_PER_PART` topics and
    `MAX_PARTITIONS_PER_STEP` partitions. A topic of more partitions has requests of its own. The second value says
    whether a request continues the topic of the request before it.
    """
    if group.topics is None:
        yield group, False
        return
    topics: list[OffsetFetchRequestTopics] = []
    left = MAX_PARTITIONS_PER_STEP
    for topic in group.topics:
        left -= len(topic.partition_indexes)
        if topics and (left < 0 or len(topics) >= MAX_TOPICS_PER_PART):
            yield _create_part_request(group, topics), False
            topics, left = [], MAX_PARTITIONS_PER_STEP - len(topic.partition_indexes)
        if left >= 0:
            topics.append(topic)
            continue
        left = MAX_PARTITIONS_PER_STEP
        for number, piece in enumerate(in_pieces(topic.partition_indexes)):
            slice_of_topic = OffsetFetchRequestTopics(
                name=topic.name, topic_id=topic.topic_id, partition_indexes=piece
            )
            yield _create_part_request(group, [slice_of_topic]), number > 0
    if topics or not group.topics:
        yield _create_part_request(group, topics), False


def _create_part_request(
    group: OffsetFetchRequestGroup, topics: list[OffsetFetchRequestTopics]
) -> OffsetFetchRequestGroup:
    return OffsetFetchRequestGroup(
        group_id=group.group_id, member_id=group.member_id, member_epoch=group.member_epoch, topics=topics
    )


def _continue_part(before: _FetchPart, group: OffsetFetchRequestGroup, version: int) -> _FetchPart:
    """Return the part with the next partitions of a topic. Its id was resolved with the first partitions."""
    assert group.topics is not None
    (topic,) = group.topics
    if before.unknown:
        error = build_error_entry(OffsetFetchResponseTopics, topic, version, ErrorCode.UNKNOWN_TOPIC_ID)
        return before._replace(unknown=[error])
    if before.topic_ids is not None:
        (topic.name,) = before.topic_ids
    return before._replace(group=group)


async def _to_group_request(request: OffsetFetchRequest, budget: Budget) -> OffsetFetchRequestGroup:
    topics: list[OffsetFetchRequestTopics] | None = None
    if request.topics is not None:
        topics = []
        for piece in in_pieces(request.topics):
            topics += [
                OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
                for topic in piece
            ]
            await budget.checkpoint()
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


async def _to_single_response(
    request: OffsetFetchRequest, answer: OffsetFetchResponseGroup, version: int, budget: Budget
) -> object:
    """Convert the response to the form of v0 to v7."""
    if answer.error_code != ErrorCode.NONE:
        return build_error_response(request, version, ErrorCode(answer.error_code))
    topics = []
    for topic in answer.topics:
        partitions: list[OffsetFetchResponsePartition] = []
        for piece in in_pieces(topic.partitions):
            partitions += map(_to_single_partition, piece)
            await budget.checkpoint()
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

    def __init__(self, router: GroupRouter, catalogue: Catalogue) -> None:
        self._router = router
        self._catalogue = catalogue

    async def handle(self, request: OffsetDeleteRequest, context: RequestContext, budget: Budget) -> object:
        """Delete the offsets of partitions that exist.

        The group always gets the request, because its error takes precedence; such a response has no topics.
        Partitions are looked up in steps. The group still gets a partition that is deleted between two steps, as if
        its topic had been deleted afterwards.
        """
        known: list[OffsetDeleteRequestTopic] = []
        refused: dict[str, OffsetDeleteResponseTopic] = {}
        for requested in request.topics:
            is_begun = False
            for partitions in in_pieces(requested.partitions):
                found = self._split_known(requested.name, partitions, refused)
                if found and is_begun:
                    known[-1].partitions += found
                elif found:
                    known.append(OffsetDeleteRequestTopic(name=requested.name, partitions=found))
                    is_begun = True
                await budget.checkpoint()
        partition = self._router.runtime.find_partition(request.group_id)
        existing = OffsetDeleteRequest(group_id=request.group_id, topics=known)
        part = partial(self._router.ask_partition, partition, existing, context)
        (response,) = await gather_parts([part], context, budget)
        if response.error_code != ErrorCode.NONE or not refused:
            return response
        for topic in response.topics:
            _add_refused(refused, topic.name, topic.partitions)
            await budget.checkpoint()
        return OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=list(refused.values()))

    def _split_known(
        self,
        name: str,
        partitions: list[OffsetDeleteRequestPartition],
        refused: dict[str, OffsetDeleteResponseTopic],
    ) -> list[OffsetDeleteRequestPartition]:
        """Return the existing partitions of a topic, and refuse the others."""
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
    """Add partitions to the response entry of their topic."""
    if name in refused:
        refused[name].partitions += partitions
    else:
        refused[name] = OffsetDeleteResponseTopic(name=name, partitions=partitions)
