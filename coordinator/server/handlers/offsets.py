"""OffsetCommit, OffsetFetch and OffsetDelete: topics are resolved here, the groups see names only.

A partition that does not exist never reaches a group; its error is put where the request named it. Of a large
request the topics are resolved in steps, and its answer is put together in steps; what is there reaches the group
at once, so that a commit is one batch of the log, however large. Source: Kafka's
`KafkaApis.handleOffsetCommitRequest`, `handleOffsetFetchRequest`, `handleOffsetDeleteRequest`.
"""

from collections.abc import Iterator
from functools import partial
from typing import Final

from coordinator.net.caller import Caller
from coordinator.net.run_queue import RunQueue
from coordinator.server.handlers.groups import GroupRouter
from coordinator.server.handlers.in_pieces import in_pieces
from coordinator.server.handlers.merge import Combining, Merge, Put
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
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

TOPIC_IDS_SINCE: Final = 10


class OffsetCommitHandler:
    """Answers OffsetCommit."""

    def __init__(self, router: GroupRouter, catalogue: Catalogue, run_queue: RunQueue) -> None:
        self._router = router
        self._catalogue = catalogue
        self._run_queue = run_queue

    def handle(self, request: OffsetCommitRequest, caller: Caller) -> object:
        """Commits what exists; a group that has nothing to commit is not consulted at all.

        The group gets the request with both name and id of each topic: the one to find offsets by, the other to
        keep with them.
        """
        by_id = caller.api_version >= TOPIC_IDS_SINCE
        if caller.is_large:
            return self._handle_large(request, caller, by_id)
        known, refused = self._sift(request.topics, by_id)
        if not known:
            return OffsetCommitResponse(topics=_merged(refused, by_id))
        request.topics = known
        if not refused and not by_id:
            return self._router.answer(request, caller)
        ids = {topic.name: topic.topic_id for topic in known}
        return self._router.answer(request, caller, partial(_finish_commit, refused, ids, by_id))

    def _handle_large(self, request: OffsetCommitRequest, caller: Caller, by_id: bool) -> object:
        """The same in steps, but for the commit itself."""
        known: list[OffsetCommitRequestTopic] = []
        refused: dict[object, OffsetCommitResponseTopic] = {}

        def ask() -> Iterator[Put | None]:
            for asked in request.topics:
                is_begun = False
                for parts in in_pieces(asked.partitions):
                    piece = OffsetCommitRequestTopic(
                        name=asked.name, topic_id=asked.topic_id, partitions=parts
                    )
                    found, missing = self._sift([piece], by_id)
                    if found and is_begun:
                        known[-1].partitions += found[0].partitions
                    elif found:
                        known.append(found[0])
                        is_begun = True
                    _add(refused, missing, by_id)
                    yield None
            there, gone = self._still_there(known, by_id)
            _add(refused, gone, by_id)
            if there:
                partition = self._router.runtime.partition_of(request.group_id)
                yield partial(self._router.ask, partition, _commit_of(request, there), caller)

        def combine(answers: list[OffsetCommitResponse]) -> Combining:
            ids = {topic.name: topic.topic_id for topic in known}
            answered = [topic for answer in answers for topic in answer.topics]
            for topic in answered:
                topic.topic_id = ids[topic.name] if by_id else topic.topic_id
                if refused:
                    _add(refused, [topic], by_id)
                yield
            return OffsetCommitResponse(topics=list(refused.values()) if refused else answered)

        return Merge(combine, self._run_queue, caller.api_version).answer(ask(), caller)

    def _still_there(
        self, known: list[OffsetCommitRequestTopic], by_id: bool
    ) -> tuple[list[OffsetCommitRequestTopic], list[OffsetCommitResponseTopic]]:
        """What was found in earlier steps and is still there, and the answer for what was deleted since."""
        there: list[OffsetCommitRequestTopic] = []
        gone: list[OffsetCommitResponseTopic] = []
        error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for found in known:
            if self._catalogue.get_by_id(found.topic_id) is not None:
                there.append(found)
                continue
            parts = [
                OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=error)
                for part in found.partitions
            ]
            gone.append(
                OffsetCommitResponseTopic(
                    name="" if by_id else found.name, topic_id=found.topic_id, partitions=parts
                )
            )
        return there, gone

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


def _commit_of(request: OffsetCommitRequest, known: list[OffsetCommitRequestTopic]) -> OffsetCommitRequest:
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
    return OffsetCommitResponse(topics=_merged([*refused, *response.topics], by_id))


def _merged(topics: list[OffsetCommitResponseTopic], by_id: bool) -> list[OffsetCommitResponseTopic]:
    """One entry for each topic, where it was first named. Source: Kafka's `OffsetCommitResponse.Builder`."""
    merged: dict[object, OffsetCommitResponseTopic] = {}
    _add(merged, topics, by_id)
    return list(merged.values())


def _add(
    merged: dict[object, OffsetCommitResponseTopic], topics: list[OffsetCommitResponseTopic], by_id: bool
) -> None:
    for topic in topics:
        key: object = topic.topic_id if by_id else topic.name
        if key in merged:
            merged[key].partitions += topic.partitions
        else:
            merged[key] = topic


class OffsetDeleteHandler:
    """Answers OffsetDelete."""

    def __init__(self, router: GroupRouter, catalogue: Catalogue, run_queue: RunQueue) -> None:
        self._router = router
        self._catalogue = catalogue
        self._run_queue = run_queue

    def handle(self, request: OffsetDeleteRequest, caller: Caller) -> object:
        """Deletes what exists. The group is consulted in any case: its error wins, and names no topics."""
        known: list[OffsetDeleteRequestTopic] = []
        refused: dict[str, OffsetDeleteResponseTopic] = {}

        def ask() -> Iterator[Put | None]:
            for asked in request.topics:
                is_begun = False
                for parts in in_pieces(asked.partitions):
                    found = self._sift(asked.name, parts, refused)
                    if found and is_begun:
                        known[-1].partitions += found
                    elif found:
                        known.append(OffsetDeleteRequestTopic(name=asked.name, partitions=found))
                        is_begun = True
                    yield None
            partition = self._router.runtime.partition_of(request.group_id)
            existing = OffsetDeleteRequest(group_id=request.group_id, topics=known)
            yield partial(self._router.ask, partition, existing, caller)

        def combine(answers: list[OffsetDeleteResponse]) -> Combining:
            response = answers[0]
            if response.error_code != ErrorCode.NONE or not refused:
                return response
            for topic in response.topics:
                _refuse(refused, topic.name, topic.partitions)
                yield
            return OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=list(refused.values()))

        return Merge(combine, self._run_queue, caller.api_version).answer(ask(), caller)

    def _sift(
        self,
        name: str,
        partitions: list[OffsetDeleteRequestPartition],
        refused: dict[str, OffsetDeleteResponseTopic],
    ) -> list[OffsetDeleteRequestPartition]:
        """What of a topic exists; the others are refused."""
        topic = self._catalogue.get(name)
        count = 0 if topic is None else len(topic.partitions)
        missing = [
            OffsetDeleteResponsePartition(
                partition_index=part.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            for part in partitions
            if not 0 <= part.partition_index < count
        ]
        if missing:
            _refuse(refused, name, missing)
        return [part for part in partitions if 0 <= part.partition_index < count]


def _refuse(
    refused: dict[str, OffsetDeleteResponseTopic], name: str, partitions: list[OffsetDeleteResponsePartition]
) -> None:
    """Adds partitions to the answer for their topic."""
    if name in refused:
        refused[name].partitions += partitions
    else:
        refused[name] = OffsetDeleteResponseTopic(name=name, partitions=partitions)
