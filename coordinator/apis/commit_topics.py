"""The topics of OffsetCommit and TxnOffsetCommit, which name them by name or by id.

A partition that does not exist never reaches a group; its error stands where the request named it. Groups get
both the name and the id of a topic: they find offsets by the name, and keep the id with them.
Source: Kafka's `KafkaApis.handleOffsetCommitRequest`, `handleTxnOffsetCommitRequest`,
`OffsetCommitResponse.Builder`.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

from coordinator.apis.scatter_gather import in_pieces
from coordinator.core.time_budget import Budget
from coordinator.topics.catalogue import Catalogue
from protocol.error_codes import ErrorCode
from protocol.error_response import build_error_entry
from protocol.messages.offset_commit import OffsetCommitRequestTopic, OffsetCommitResponseTopic
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequestTopic, TxnOffsetCommitResponseTopic

T = TypeVar("T", OffsetCommitRequestTopic, TxnOffsetCommitRequestTopic)
R = TypeVar("R", OffsetCommitResponseTopic, TxnOffsetCommitResponseTopic)


class CommitTopicResolver(Generic[T, R]):
    """Finds the topics of the commits of one API."""

    def __init__(
        self, catalogue: Catalogue, topic_class: type[T], response_class: type[R], topic_ids_since: int
    ) -> None:
        """In: the entries of the request and of the response; the first version with topic ids."""
        self._catalogue = catalogue
        self._topic_class: type[Any] = topic_class
        self._response_class: type[R] = response_class
        self._topic_ids_since = topic_ids_since

    def split_topics(self, topics: Sequence[T], by_id: bool) -> tuple[list[T], list[R]]:
        """Split a request into the partitions that exist and the errors of the others.

        A topic without partitions gets neither when it exists, as in Kafka.

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
    """Return one entry for each topic, where it was first named."""
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
