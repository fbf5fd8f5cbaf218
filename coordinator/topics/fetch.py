"""Fetch: records for consumers, at once or as soon as there are enough of them.

A request is served whole or parked whole. It is answered at once when it finds `min_bytes`, meets an error,
does not want to wait, or has nothing to wait for; otherwise it waits for appends to its partitions, or for
`max_wait_ms`. What it then answers is read afresh.

Partitions are read in order, each up to `partition_max_bytes`, all together up to `max_bytes`; the first
one that has records gives at least one batch, however large, so that a consumer always gets on. A last batch
is cut where the bytes end: consumers know that, and read it again.

Consumers of committed records read up to the last stable offset: what comes after it neither answers their requests
nor wakes them. They are told which of what they get may be of transactions that were aborted, and leave it out.

Source: Kafka's `KafkaApis.handleFetchRequest`, `ReplicaManager.readFromLog`, `DelayedFetch`; KIP-98.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, Final

from coordinator.answers import PARKED
from coordinator.cluster.ownership import Ownership
from coordinator.machine.outcome import Context, Now
from coordinator.topics.answer import Answer, PartitionFailed
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.config import TopicsConfig
from coordinator.topics.current_leader import IN_FETCH_SINCE, current_leader, endpoints
from coordinator.topics.data_plane import DataPlane, Steps
from coordinator.topics.fetch_session import (
    NO_SESSION,
    TOPIC_IDS_SINCE,
    FetchContext,
    FetchSessions,
    FetchTarget,
    TargetKey,
    news,
    next_epoch,
)
from coordinator.topics.isolation import READ_COMMITTED
from coordinator.topics.leader_epoch import check_current_leader_epoch
from coordinator.topics.missing import MOST_TOLD, missing_partition
from coordinator.topics.parked_fetches import Awaited, ParkedFetch, ParkedFetches
from coordinator.topics.partition import Partition
from coordinator.topics.steps import taken
from coordinator.topics.topic import ZERO_ID
from protocol.errors import ErrorCode
from protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from storage.errors import OffsetOutOfRange, StorageError
from storage.leader_epochs import UNKNOWN_EPOCH, UNKNOWN_OFFSET
from storage.os_error import reason_of
from storage.topic_partition import TopicPartition

LARGE_FETCH_BYTES: Final = 1024 * 1024
"""Records of a fetch from so many partitions that it is answered in steps. Between them what it has found is in
memory, and nobody has counted it."""
STORAGE_ERROR_SINCE: Final = 6
LEADERS_ARE_TOLD: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
ANSWERED_AT_ONCE: Final = 500
"""Partitions that are put into the answer in one step."""

Found = list[tuple[TargetKey, PartitionData]]


def answer_fetch(plane: DataPlane, request: FetchRequest, context: Context, now: Now) -> Answer | Steps:
    """What there is; or PARKED, and the answer comes as a completion of a later call."""
    fetcher = plane.fetcher
    if fetcher is None:
        fetcher = plane.fetcher = Fetcher(
            plane.catalogue, plane.config, plane.sessions, plane.parked, plane.fetch_room, plane.ownership
        )
    assert isinstance(fetcher, Fetcher)
    steps = fetcher.answer(request, context, now.monotonic_ms)
    return steps if plane.sessions.is_large(request) else taken(steps)


class Fetcher:
    """Answers Fetch requests over the catalogue's partitions."""

    def __init__(
        self,
        catalogue: Catalogue,
        config: TopicsConfig,
        sessions: FetchSessions,
        parked: ParkedFetches,
        room: Callable[[], int],
        ownership: Ownership,
    ) -> None:
        """In: `room` says how many bytes of records an answer may have now, beyond its first batch."""
        self._ownership = ownership
        self._room = room
        self._catalogue = catalogue
        self._max_bytes = config.fetch_max_bytes
        self._sessions = sessions
        self._parked = parked
        self._reported: set[TopicPartition] = set()
        self._failures: list[PartitionFailed] = []
        """Partitions that could not be read, each reported once, with the next answer."""

    def answer(self, request: FetchRequest, context: Context, monotonic_ms: int) -> Steps:
        """The response, or PARKED: it comes from `answer_parked`."""
        version = context.api_version
        fetch = yield from self._sessions.open(request, version, self._name_of, monotonic_ms)
        if fetch.error is not ErrorCode.NONE:
            return Answer(FetchResponse(error_code=fetch.error, session_id=NO_SESSION, responses=[]))
        found, size, may_wait, unknown = yield from self._read(fetch, request, context)
        missing = [
            missing_partition(self._catalogue, target.name or "", target.partition, target.topic_id)
            for target in unknown[:MOST_TOLD]
        ]
        failures, self._failures = self._failures, []
        may_wait = may_wait and request.max_wait_ms > 0 and self._parked.has_room(len(fetch.targets))
        if may_wait and size < min(request.min_bytes, self._max_bytes):
            parked = ParkedFetch(request, context, fetch, monotonic_ms + request.max_wait_ms)
            parked.missing_bytes = max(1, min(parked.missing_bytes, self._max_bytes))
            is_satisfied = yield from self._await(parked)
            if not is_satisfied:
                self._parked.park(parked)
                return Answer(PARKED, changes=failures, missing=missing)
        response = yield from self._respond(fetch, context, found, monotonic_ms)
        return Answer(response, changes=failures, missing=missing)

    def answer_parked(self, parked: ParkedFetch, monotonic_ms: int) -> Steps:
        """The response to a fetch that is no longer parked, with what there is now."""
        context = parked.context
        found, _, _, _ = yield from self._read(parked.fetch, parked.request, context)
        response = yield from self._respond(parked.fetch, context, found, monotonic_ms)
        return Answer(response)

    def _name_of(self, topic_id: bytes) -> str | None:
        topic = self._catalogue.get_by_id(topic_id)
        return None if topic is None else topic.name

    # Reading

    def _partition(self, target: FetchTarget, context: Context) -> Partition | ErrorCode:
        if target.topic_id != ZERO_ID:
            topic = self._catalogue.get_by_id(target.topic_id)
            if topic is not None:
                target.name = topic.name
            elif target.name is not None and self._catalogue.get(target.name) is not None:
                return ErrorCode.INCONSISTENT_TOPIC_ID
        if target.name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if context.may_read is not None and not context.may_read(target.name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        partition = self._catalogue.partition(target.name, target.partition)
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if partition is None else partition

    def _read(
        self, fetch: FetchContext, request: FetchRequest, context: Context
    ) -> Generator[None, Any, tuple[Found, int, bool, list[FetchTarget]]]:
        """What each partition has, how many bytes of records that is, whether it may be waited for more, and which
        partitions are not there.

        A topic that does not exist does not end the wait, an error while reading does; as in Kafka.
        """
        found: Found = []
        unknown_ids: Found = []
        refused: Found = []
        missing: list[FetchTarget] = []
        left = min(max(0, request.max_bytes), self._max_bytes, self._room())
        if fetch.is_large:
            left = min(left, LARGE_FETCH_BYTES)
        size, has_known, has_error = 0, False, False
        is_committed = request.isolation_level == READ_COMMITTED
        for key, target in list(fetch.targets.items()):
            yield None
            partition = self._partition(target, context)
            if isinstance(partition, ErrorCode):
                data = _refused(target.partition, partition)
                data.aborted_transactions = []
                (unknown_ids if partition is ErrorCode.UNKNOWN_TOPIC_ID else refused).append((key, data))
                if partition is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    missing.append(target)
                continue
            has_known = True
            limit = min(max(0, target.max_bytes), left)
            if self._ownership.owns(context.node.node_id, partition.name):
                data = self._read_partition(
                    partition, target, limit, is_first=size == 0, is_committed=is_committed
                )
            else:
                data = _refused(target.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            if data.error_code == ErrorCode.KAFKA_STORAGE_ERROR and context.api_version < STORAGE_ERROR_SINCE:
                data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            if data.error_code in LEADERS_ARE_TOLD and context.api_version >= IN_FETCH_SINCE:
                data.current_leader = current_leader(partition, self._ownership)
            read = len(data.records or b"")
            size += read
            left = max(0, left - read)
            has_error |= data.error_code != ErrorCode.NONE or data.diverging_epoch is not None
            found.append((key, data))
        return found + unknown_ids + refused, size, has_known and not has_error, missing

    def _read_partition(
        self, partition: Partition, target: FetchTarget, limit: int, *, is_first: bool, is_committed: bool
    ) -> PartitionData:
        log = partition.log
        if log is None:
            return _refused(target.partition, ErrorCode.KAFKA_STORAGE_ERROR)
        error = check_current_leader_epoch(max(UNKNOWN_EPOCH, target.current_leader_epoch), log)
        if error is not ErrorCode.NONE:
            return _refused(target.partition, error)
        high_watermark, last_stable_offset = partition.high_watermark, partition.last_stable_offset
        data = PartitionData(
            partition_index=target.partition,
            error_code=ErrorCode.NONE,
            high_watermark=high_watermark,
            last_stable_offset=last_stable_offset,
            log_start_offset=log.log_start_offset,
            records=b"",
        )
        if target.last_fetched_epoch > UNKNOWN_EPOCH:
            epoch, end_offset = log.leader_epochs.end_offset(target.last_fetched_epoch, log.log_end_offset)
            if epoch == UNKNOWN_EPOCH:
                return _refused(target.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
            if epoch < target.last_fetched_epoch or end_offset < target.fetch_offset:
                data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
                return data
        end = last_stable_offset if is_committed else high_watermark
        try:
            data.records = log.read(
                target.fetch_offset, limit, up_to=end, min_one_batch=is_first, is_cut=True
            )
            if is_committed:
                data.aborted_transactions = _aborted(partition, target.fetch_offset, len(data.records))
        except OffsetOutOfRange:
            return _refused(target.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
        except (StorageError, OSError) as problem:
            if partition.name not in self._reported:
                self._reported.add(partition.name)
                self._failures.append(PartitionFailed(*partition.name, reason_of(problem)))
            return _refused(target.partition, ErrorCode.KAFKA_STORAGE_ERROR)
        return data

    def _await(self, parked: ParkedFetch) -> Generator[None, Any, bool]:
        """Notes what a fetch waits for; whether there is enough already, in batches that one read did not
        reach.
        """
        is_satisfied = False
        is_committed = parked.request.isolation_level == READ_COMMITTED
        for target in list(parked.fetch.targets.values()):
            yield None
            partition = self._partition(target, parked.context)
            if not isinstance(partition, ErrorCode):
                awaited = Awaited(
                    partition, target.fetch_offset, max(0, target.max_bytes), is_committed=is_committed
                )
                parked.awaited[partition.name] = awaited
                if parked.missing_bytes > 1:
                    parked.missing_bytes -= awaited.new_bytes(parked.missing_bytes)
                    is_satisfied = parked.missing_bytes <= 0
        if parked.fetch.is_large and not is_satisfied:
            # Others were let in since the first partition was read.
            is_satisfied = any(awaited.end > awaited.counted_to for awaited in parked.awaited.values())
        return is_satisfied

    # Answering

    def _respond(
        self, fetch: FetchContext, context: Context, found: Found, monotonic_ms: int
    ) -> Generator[None, Any, FetchResponse]:
        yield None
        version = context.api_version
        session_id, error = NO_SESSION, ErrorCode.NONE
        if fetch.session is not None:
            session_id = fetch.session.session_id
            if fetch.session.epoch == next_epoch(fetch.epoch):
                found = news(fetch.targets, found)
            else:  # another request of this session came while this one was parked
                found, error = [], ErrorCode.INVALID_FETCH_SESSION_EPOCH
        elif fetch.creates_session:
            for key, data in found:
                fetch.targets[key].tell(data)
            session_id = self._sessions.create(fetch.targets, version >= TOPIC_IDS_SINCE, monotonic_ms)
        yield None
        responses = yield from _by_topic(fetch, found, version)
        response = FetchResponse(error_code=error, session_id=session_id, responses=responses)
        leaders = [data.current_leader for _, data in found if data.current_leader is not None]
        if leaders:
            response.node_endpoints = endpoints(leaders, self._ownership, context.node)
        return response


def _by_topic(
    fetch: FetchContext, found: Sequence[tuple[TargetKey, PartitionData]], version: int
) -> Generator[None, Any, list[FetchableTopicResponse]]:
    responses: list[FetchableTopicResponse] = []
    last: str | bytes | None = None
    for number, (key, data) in enumerate(found):
        if number % ANSWERED_AT_ONCE == ANSWERED_AT_ONCE - 1:
            yield None
        if key[0] != last:
            last = key[0]
            target = fetch.targets[key]
            by_id = version >= TOPIC_IDS_SINCE
            name = "" if by_id else target.name or ""
            responses.append(FetchableTopicResponse(topic=name, topic_id=target.topic_id, partitions=[]))
        responses[-1].partitions.append(data)
    return responses


def _aborted(partition: Partition, offset: int, size_bytes: int) -> list[AbortedTransaction]:
    """The aborted transactions that what was read may be of, in the order of their markers."""
    if not size_bytes:
        return []
    return [
        AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
        for each in partition.aborted_in_read(offset, size_bytes)
    ]


def _refused(partition: int, error: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=partition,
        error_code=error,
        high_watermark=UNKNOWN_OFFSET,
        records=b"",
    )
