"""The repetitions of OffsetCommits, for the cache in `coordinator/network/repeated_requests.py`.

A commit is repeated with other offsets, leader epochs and metadata of the same length. Everything else is equal.
So the decisions about the first request hold for its repetitions as long as

- its topics are still the same objects of the catalogue, which get no fewer partitions;
- the ACLs have not changed: the cache is behind the authorizer (`ApiAuthorization.guard_repetitions`);
- no interceptor is registered for the API, or for the machine of the group.

The router decides about the owner of the partition, the runtime about its state, and the group about each commit
(`coordinator/group/offsets/group_offset_commit.py`).
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from coordinator.apis.group_handlers import GroupRouter
from coordinator.apis.offset_handlers import COMMIT_TOPIC_IDS_SINCE
from coordinator.core.outcome import Context
from coordinator.core.reply import DeferReply
from coordinator.core.response_status import DeferredResponse
from coordinator.group.group_requests import PreparedCommit, RepeatedCommit, copy_commit
from coordinator.network.repeated_requests import AnsweredRequest, Gap, Repetition
from coordinator.network.request_context import RequestContext
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.topic import Topic
from protocol.codec import encode
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition

LEADER_EPOCH_SINCE: Final = 6
"""The first version with the leader epoch, which follows the offset. Commits of earlier versions are not cached."""
_OFFSET_AND_EPOCH: Final = "qi"
_OFFSET_AND_EPOCH_BYTES: Final = 12
_FIELDS: Final = 3
"""The fields of a partition in the gaps: offset, leader epoch and metadata."""
_FIRST_OFFSET, _FIRST_EPOCH, _FIRST_METADATA = 1, 2, 3  # gap 0 is the correlation id
_DIFFERENCE: Final = re.compile(rb"[^\0]+")


class RepeatedCommitFactory:
    """Creates the repetitions of the OffsetCommits of one broker."""

    def __init__(self, router: GroupRouter, catalogue: Catalogue) -> None:
        self._router = router
        self._catalogue = catalogue

    def create_repetition(self, answered: AnsweredRequest) -> Repetition | None:
        """Return the repetition of a commit that waits for the log. Return None if an element was refused, if an
        interceptor needs every commit, or if the frame has no gaps of a known kind.
        """
        request, context = answered.request, answered.context
        version = context.api_version
        if type(answered.response) is not DeferredResponse or version < LEADER_EPOCH_SINCE:
            return None
        partition = self._router.runtime.find_partition(request.group_id)
        machine, topics = partition.machine, self._find_topics(request)
        if machine is None or machine is not partition.plain_machine or topics is None:
            return None
        # The authorizer and the handler have removed refused elements: the request then differs from its frame.
        gaps = find_gaps(answered.frame[answered.body :], answered.body, request, version)
        if gaps is None:
            return None
        prepared = machine.prepare_commit(request, version)
        if prepared is None:
            return None
        repeater = CommitRepeater(self._router, self._catalogue, prepared, topics, context)
        return Repetition(request, prepared.response, repeater.repeat, gaps)

    def _find_topics(self, request: OffsetCommitRequest) -> tuple[Topic, ...] | None:
        """Return the topics of a request, None if one of them is missing or has another id."""
        topics: list[Topic] = []
        for requested in request.topics:
            topic = self._catalogue.find_topic(requested.name)
            if topic is None or topic.topic_id != requested.topic_id:
                return None
            topics.append(topic)
        return tuple(topics)


class CommitRepeater:
    """Sends the repetitions of one OffsetCommit to its group."""

    __slots__ = (
        "_api_version",
        "_client",
        "_find_topic",
        "_partition",
        "_prepared",
        "_router",
        "_texts",
        "_topics",
    )

    def __init__(
        self,
        router: GroupRouter,
        catalogue: Catalogue,
        prepared: PreparedCommit,
        topics: tuple[Topic, ...],
        context: RequestContext,
    ) -> None:
        """Create the repeater of a prepared commit of some topics. `context` is the context of its request."""
        self._router = router
        self._prepared = prepared
        self._topics: Sequence[tuple[str | bytes, Topic]]
        if context.api_version >= COMMIT_TOPIC_IDS_SINCE:
            self._topics = tuple((topic.topic_id, topic) for topic in topics)
            self._find_topic: Any = catalogue.find_topic_by_id
        else:
            self._topics = tuple((topic.name, topic) for topic in topics)
            self._find_topic = catalogue.find_topic
        self._api_version = context.api_version
        self._client = context.client
        self._partition = router.runtime.find_partition(prepared.request.group_id)
        has_metadata = any(
            part.committed_metadata for topic in prepared.request.topics for part in topic.partitions
        )
        self._texts = None if has_metadata else ("",) * len(prepared.places)
        """The metadata of all repetitions; None if each repetition has its own."""

    def repeat(self, _: int, changes: Sequence[Any], defer: DeferReply | None) -> object | None:
        """Commit the offsets of a repetition. See `Repeat`."""
        assert defer is not None, "a commit waits for the log"
        partition = self._partition
        if partition.machine is not partition.plain_machine:
            return None
        find_topic = self._find_topic
        for name, topic in self._topics:
            if find_topic(name) is not topic:
                return None
        texts = self._texts
        if texts is None:
            metadata = changes[_FIRST_METADATA::_FIELDS]
            if not all(map(bytes.isascii, metadata)):
                return None
            texts = tuple(map(bytes.decode, metadata))
        repeated = RepeatedCommit(
            self._prepared, changes[_FIRST_OFFSET::_FIELDS], changes[_FIRST_EPOCH::_FIELDS], texts
        )
        router, client = self._router, self._client
        context = Context(
            router.runtime.next_waiter(),
            self._api_version,
            client.client_id,
            client.host,
            connection_id=client.connection_id,
        )
        return router.send_request(partition, repeated, context, defer)


def find_gaps(
    body: bytes, position: int, request: OffsetCommitRequest, version: int
) -> tuple[Gap, ...] | None:
    """Return the places of offset, leader epoch and metadata of each partition in a frame.

    They are the bytes that change when these fields are inverted. Return None if the request does not encode to its
    frame, so that it is not the whole request or has unknown fields, and for metadata that is not ASCII.

    Args:
        body: the body of the request in the frame.
        position: the position of the body in the frame.
        request: the request.
        version: its version, from `LEADER_EPOCH_SINCE` on.
    """
    if encode(request, version) != body:
        return None
    partitions = [partition for topic in request.topics for partition in topic.partitions]
    if not all((partition.committed_metadata or "").isascii() for partition in partitions):
        return None
    inverted = encode(copy_commit(request, map(_invert_fields, partitions)), version)
    assert len(inverted) == len(body), "the fields keep their lengths"
    difference = int.from_bytes(body, "big") ^ int.from_bytes(inverted, "big")
    spans = (found.span() for found in _DIFFERENCE.finditer(difference.to_bytes(len(body), "big")))
    gaps: list[Gap] = []
    for partition in partitions:
        start, end = next(spans)
        assert end - start == _OFFSET_AND_EPOCH_BYTES, (start, end)
        gaps.append((position + start, _OFFSET_AND_EPOCH))
        if partition.committed_metadata:
            start, end = next(spans)
            assert end - start == len(partition.committed_metadata), (start, end)
            gaps.append((position + start, f"{end - start}s"))
        else:
            gaps.append((position + end, "0s"))
    return tuple(gaps)


def _invert_fields(partition: OffsetCommitRequestPartition) -> tuple[int, int, str]:
    """Return an offset, a leader epoch and metadata in which every byte differs."""
    metadata = "".join(chr(ord(character) ^ 1) for character in partition.committed_metadata or "")
    return ~partition.committed_offset, ~partition.committed_leader_epoch, metadata
