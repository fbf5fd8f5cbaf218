"""Fetch: return records to consumers, at once or when enough have arrived.

A request is answered as a whole or BLOCKED as a whole. The broker answers at once if it finds `min_bytes`, hits an
error, or the request allows or needs no wait. Otherwise the request waits for appends to its partitions, up to
`max_wait_ms`. The delayed response reads the logs anew.

Partitions are read in order, each up to `partition_max_bytes` and together up to `max_bytes`. The first partition
with records returns at least one batch of any size, so that a consumer always makes progress. The last batch may be
truncated; consumers discard it and fetch it again.

A segment without loaded indexes suspends the request. A thread loads them, and then the request reads all its
partitions anew: it holds no records during the wait, and checks topics, rights and leaders again.

`read_committed` consumers read up to the last stable offset. Later records neither satisfy nor wake their requests.
The response lists the aborted transactions in its range, and the consumer filters their records out.

Source: Kafka's `KafkaApis.handleFetchRequest`, `ReplicaManager.readFromLog`, `DelayedFetch`; KIP-98.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from coordinator.cluster.partition_ownership import PartitionOwnership
from coordinator.core.outcome import Context, Now
from coordinator.core.response_status import BLOCKED
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.data_plane import DataPlane, LongAnswer
from coordinator.topics.data_plane_answer import (
    MAX_REPORTED_MISSING,
    Answer,
    PartitionFailed,
    describe_missing_partition,
)
from coordinator.topics.data_plane_config import DataPlaneConfig
from coordinator.topics.fetch_purgatory import AwaitedPartition, DelayedFetch, FetchPurgatory
from coordinator.topics.fetch_session import (
    NO_SESSION,
    PARTITIONS_PER_STEP,
    TOPIC_IDS_VERSION,
    FetchContext,
    FetchSession,
    FetchSessionCache,
    FetchTarget,
    TargetKey,
    filter_changed,
    next_epoch,
)
from coordinator.topics.long_work import (
    ONE_STEP_UNLESS_THREAD,
    LongWork,
    run_thread_steps,
    run_up_to_thread,
)
from coordinator.topics.partition import READ_COMMITTED, ReadablePartition
from coordinator.topics.partition_leadership import (
    FETCH_LEADER_VERSION,
    check_current_leader_epoch,
    find_current_leader,
    find_endpoints,
)
from coordinator.topics.topic import ZERO_ID
from protocol.error_codes import ErrorCode
from protocol.error_response import build_error_entry
from protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from storage.leader_epochs import UNKNOWN_EPOCH, UNKNOWN_OFFSET
from storage.log import PartitionLog
from storage.storage_errors import IndexesNotLoaded, OffsetOutOfRange, StorageError, format_error_reason
from storage.topic_partition import TopicPartition

LARGE_FETCH_BYTES: Final = 1024 * 1024
"""A fetch from many partitions is answered in steps of this many bytes of records. Between steps the records are in
memory and not yet counted against the limit.
"""
STORAGE_ERROR_VERSION: Final = 6
ERRORS_WITH_LEADER: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)

ReadPartitions = list[tuple[TargetKey, PartitionData]]
ReadResult = tuple[ReadPartitions, int, bool, list[FetchTarget]]
"""The data of each partition, the size of all records in bytes, whether the request may wait for more, and the
missing partitions."""
LoadFailures = Mapping[PartitionLog, StorageError | OSError]
NO_FAILURES: Final[LoadFailures] = {}


def answer_fetch(plane: DataPlane, request: FetchRequest, context: Context, now: Now) -> Answer | LongAnswer:
    """Return a response with the present records, or BLOCKED; then a later call completes the request."""
    fetcher = plane.fetcher
    if fetcher is None:
        fetcher = plane.fetcher = Fetcher(
            plane.catalogue,
            plane.config,
            plane.fetch_sessions,
            plane.fetch_purgatory,
            plane.available_fetch_bytes,
            plane.ownership,
        )
    assert isinstance(fetcher, Fetcher)
    if plane.fetch_sessions.is_large(request):
        return partial(fetcher.answer_request, request, context, now.monotonic_ms)
    return run_up_to_thread(
        fetcher.answer_request(request, context, now.monotonic_ms, ONE_STEP_UNLESS_THREAD)
    )


class Fetcher:
    """Answers Fetch requests from the catalogue's partitions."""

    def __init__(
        self,
        catalogue: Catalogue,
        config: DataPlaneConfig,
        sessions: FetchSessionCache,
        purgatory: FetchPurgatory,
        room: Callable[[], int],
        ownership: PartitionOwnership,
    ) -> None:
        """`room` returns how many bytes of records a response may hold now, beyond its first batch."""
        self._ownership = ownership
        self._room = room
        self._catalogue = catalogue
        self._max_bytes = config.fetch_max_bytes
        self._sessions = sessions
        self._purgatory = purgatory
        self._reported: set[TopicPartition] = set()
        self._failures: list[PartitionFailed] = []
        """Failed partitions, each reported once with the next answer."""

    async def answer_request(
        self, request: FetchRequest, context: Context, monotonic_ms: int, work: LongWork
    ) -> Answer:
        """Return the answer, or BLOCKED; then `answer_delayed_fetch` returns it later."""
        version = context.api_version
        interruption_count = self._purgatory.interruption_count
        fetch = await self._sessions.open_context(work, request, version, self._find_topic_name, monotonic_ms)
        if fetch.error is not ErrorCode.NONE:
            return Answer(FetchResponse(error_code=fetch.error, session_id=NO_SESSION, responses=[]))
        try:
            found, size, may_wait, unknown = await self._read_partitions(work, fetch, request, context)
        except IndexesNotLoaded:
            found, size, may_wait, unknown = await self._load_and_read(work, fetch, request, context)
        missing = [
            describe_missing_partition(self._catalogue, target.name or "", target.partition, target.topic_id)
            for target in unknown[:MAX_REPORTED_MISSING]
        ]
        failures, self._failures = self._failures, []
        may_wait = may_wait and request.max_wait_ms > 0 and self._purgatory.has_room(len(fetch.targets))
        if may_wait and size < min(request.min_bytes, self._max_bytes):
            delayed = DelayedFetch(request, context, fetch, monotonic_ms + request.max_wait_ms)
            delayed.missing_bytes = max(1, min(delayed.missing_bytes, self._max_bytes))
            is_satisfied = await self._await_records(work, delayed)
            # While a large fetch was read, a partition may have been deleted or have changed its leader.
            if not is_satisfied and self._purgatory.interruption_count == interruption_count:
                self._purgatory.add_fetch(delayed)
                return Answer(BLOCKED, changes=failures, missing=missing)
        response = await self._build_response(work, fetch, context, found, monotonic_ms)
        return Answer(response, changes=failures, missing=missing)

    async def answer_delayed_fetch(self, delayed: DelayedFetch, monotonic_ms: int, work: LongWork) -> Answer:
        """Return the answer to a fetch that has left the purgatory, with the present records."""
        context = delayed.context
        try:
            found, _, _, _ = await self._read_partitions(work, delayed.fetch, delayed.request, context)
        except IndexesNotLoaded:
            found, _, _, _ = await self._load_and_read(work, delayed.fetch, delayed.request, context)
        response = await self._build_response(work, delayed.fetch, context, found, monotonic_ms)
        return Answer(response)

    def _find_topic_name(self, topic_id: bytes) -> str | None:
        topic = self._catalogue.find_topic_by_id(topic_id)
        return None if topic is None else topic.name

    # Reads

    def _find_partition(self, target: FetchTarget, context: Context) -> ReadablePartition | ErrorCode:
        if target.topic_id != ZERO_ID:
            topic = self._catalogue.find_topic_by_id(target.topic_id)
            if topic is not None:
                target.name = topic.name
            elif target.name is not None and self._catalogue.find_topic(target.name) is not None:
                return ErrorCode.INCONSISTENT_TOPIC_ID
        if target.name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if context.may_read is not None and not context.may_read(target.name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        partition = self._catalogue.find_partition(target.name, target.partition)
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if partition is None else partition

    async def _load_and_read(
        self, work: LongWork, fetch: FetchContext, request: FetchRequest, context: Context
    ) -> ReadResult:
        """Load the indexes of the fetched segments in a thread, and then read all partitions as they are now."""
        failures: dict[PartitionLog, StorageError | OSError] = {}
        while True:
            for target in list(fetch.targets.values()):
                await work.checkpoint()
                partition = self._find_partition(target, context)
                log = None if isinstance(partition, ErrorCode) else partition.log
                if log is not None and log not in failures:
                    try:
                        await run_thread_steps(work, log.load_segments(target.fetch_offset))
                    except (StorageError, OSError) as problem:
                        failures[log] = problem
            try:
                return await self._read_partitions(work, fetch, request, context, failures)
            except IndexesNotLoaded:
                continue  # another log or segment has replaced one that was loaded

    async def _read_partitions(
        self,
        work: LongWork,
        fetch: FetchContext,
        request: FetchRequest,
        context: Context,
        failures: LoadFailures = NO_FAILURES,
    ) -> ReadResult:
        """Read the partitions of a fetch.

        As in Kafka an unknown topic does not end the wait, but a read error does.

        Args:
            failures: the errors that prevented the load of indexes, by log.

        Raises:
            IndexesNotLoaded: a fetched segment needs its indexes first.
        """
        found: ReadPartitions = []
        unknown_ids: ReadPartitions = []
        refused: ReadPartitions = []
        missing: list[FetchTarget] = []
        left = min(max(0, request.max_bytes), self._max_bytes, self._room())
        if fetch.is_large:
            left = min(left, LARGE_FETCH_BYTES)
        size, has_known, has_error = 0, False, False
        is_committed = request.isolation_level == READ_COMMITTED
        for key, target in list(fetch.targets.items()):
            await work.checkpoint()
            partition = self._find_partition(target, context)
            if isinstance(partition, ErrorCode):
                data = build_error_entry(
                    PartitionData, target.partition, context.api_version, error=partition
                )
                (unknown_ids if partition is ErrorCode.UNKNOWN_TOPIC_ID else refused).append((key, data))
                if partition is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    missing.append(target)
                continue
            has_known = True
            limit = min(max(0, target.max_bytes), left)
            if self._ownership.owns(context.node.node_id, partition.name):
                data = self._read_partition(
                    partition, target, limit, failures, is_first=size == 0, is_committed=is_committed
                )
            else:
                data = _build_refused(target.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            if (
                data.error_code == ErrorCode.KAFKA_STORAGE_ERROR
                and context.api_version < STORAGE_ERROR_VERSION
            ):
                data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            if data.error_code in ERRORS_WITH_LEADER and context.api_version >= FETCH_LEADER_VERSION:
                data.current_leader = find_current_leader(partition, self._ownership)
            read = len(data.records or b"")
            size += read
            left = max(0, left - read)
            has_error |= data.error_code != ErrorCode.NONE or data.diverging_epoch is not None
            found.append((key, data))
        return found + unknown_ids + refused, size, has_known and not has_error, missing

    def _read_partition(
        self,
        partition: ReadablePartition,
        target: FetchTarget,
        limit: int,
        failures: LoadFailures,
        *,
        is_first: bool,
        is_committed: bool,
    ) -> PartitionData:
        log = partition.log
        if log is None:
            return _build_refused(target.partition, ErrorCode.KAFKA_STORAGE_ERROR)
        error = check_current_leader_epoch(max(UNKNOWN_EPOCH, target.current_leader_epoch), log)
        if error is not ErrorCode.NONE:
            return _build_refused(target.partition, error)
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
            epoch, end_offset = log.leader_epochs.find_end_offset(
                target.last_fetched_epoch, log.log_end_offset
            )
            if epoch == UNKNOWN_EPOCH:
                return _build_refused(target.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
            if epoch < target.last_fetched_epoch or end_offset < target.fetch_offset:
                data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
                return data
        end = last_stable_offset if is_committed else high_watermark
        try:
            data.records = log.read(
                target.fetch_offset, limit, up_to=end, min_one_batch=is_first, is_cut=True
            )
            if is_committed:
                data.aborted_transactions = _list_aborted(partition, target.fetch_offset, len(data.records))
        except OffsetOutOfRange:
            return _build_refused(target.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
        except IndexesNotLoaded:
            if log not in failures:
                raise
            self._report_failure(partition, failures[log])
            return _build_refused(target.partition, ErrorCode.KAFKA_STORAGE_ERROR)
        except (StorageError, OSError) as problem:
            self._report_failure(partition, problem)
            return _build_refused(target.partition, ErrorCode.KAFKA_STORAGE_ERROR)
        return data

    def _report_failure(self, partition: ReadablePartition, problem: StorageError | OSError) -> None:
        """Report a failed partition with the next answer, once."""
        if partition.name not in self._reported:
            self._reported.add(partition.name)
            self._failures.append(PartitionFailed(*partition.name, format_error_reason(problem)))

    async def _await_records(self, work: LongWork, delayed: DelayedFetch) -> bool:
        """Register the awaited offsets. Return whether enough bytes are available already, in batches beyond one
        read.
        """
        is_satisfied = False
        is_committed = delayed.request.isolation_level == READ_COMMITTED
        for target in list(delayed.fetch.targets.values()):
            await work.checkpoint()
            partition = self._find_partition(target, delayed.context)
            if not isinstance(partition, ErrorCode):
                awaited = AwaitedPartition(
                    partition, target.fetch_offset, max(0, target.max_bytes), is_committed=is_committed
                )
                delayed.awaited[partition.name] = awaited
                if delayed.missing_bytes > 1:
                    delayed.missing_bytes -= awaited.count_new_bytes(delayed.missing_bytes)
                    is_satisfied = delayed.missing_bytes <= 0
        if delayed.fetch.is_large and not is_satisfied:
            # Other requests ran since the first partition was read.
            is_satisfied = any(
                awaited.end_offset > awaited.counted_to for awaited in delayed.awaited.values()
            )
        return is_satisfied

    # Responses

    async def _build_response(
        self,
        work: LongWork,
        fetch: FetchContext,
        context: Context,
        found: ReadPartitions,
        monotonic_ms: int,
    ) -> FetchResponse:
        await work.checkpoint()
        version = context.api_version
        session_id, error = NO_SESSION, ErrorCode.NONE
        if fetch.session is not None:
            session_id = fetch.session.session_id
            changed: ReadPartitions | None = None
            if fetch.session.epoch == next_epoch(fetch.epoch):
                if len(found) <= PARTITIONS_PER_STEP:
                    changed = filter_changed(fetch.targets, found)
                else:
                    changed = await _filter_changed_in_steps(work, fetch.session, found)
            if changed is None:  # another request of this session arrived during the delay
                found, error = [], ErrorCode.INVALID_FETCH_SESSION_EPOCH
            else:
                found = changed
        elif fetch.creates_session:
            for number, (key, data) in enumerate(found, 1):
                fetch.targets[key].update_response_data(data)
                if not number % PARTITIONS_PER_STEP:
                    await work.checkpoint()
            session_id = self._sessions.create_session(
                fetch.targets, version >= TOPIC_IDS_VERSION, monotonic_ms
            )
        responses = await _group_by_topic(work, found, version)
        response = FetchResponse(error_code=error, session_id=session_id, responses=responses)
        leaders = [data.current_leader for _, data in found if data.current_leader is not None]
        if leaders:
            response.node_endpoints = find_endpoints(leaders, self._ownership, context.node)
        return response


async def _filter_changed_in_steps(
    work: LongWork, session: FetchSession, found: ReadPartitions
) -> ReadPartitions | None:
    """Return the partitions of a large incremental response, or None if another request of the session arrives.

    Kafka locks the session instead, so that the other request waits. Source: Kafka's IncrementalFetchContext.
    """
    changed: ReadPartitions = []
    epoch = session.epoch
    for start in range(0, len(found), PARTITIONS_PER_STEP):
        changed += filter_changed(session.targets, found[start : start + PARTITIONS_PER_STEP])
        await work.checkpoint()
        if session.epoch != epoch:
            return None
    return changed


async def _group_by_topic(
    work: LongWork, found: Sequence[tuple[TargetKey, PartitionData]], version: int
) -> list[FetchableTopicResponse]:
    responses: list[FetchableTopicResponse] = []
    last: str | bytes | None = None
    for number, (key, data) in enumerate(found, 1):
        if not number % PARTITIONS_PER_STEP:
            await work.checkpoint()
        if key[0] != last:
            last = topic = key[0]
            if isinstance(topic, bytes):
                responses.append(FetchableTopicResponse(topic="", topic_id=topic, partitions=[]))
            else:
                responses.append(FetchableTopicResponse(topic=topic, topic_id=ZERO_ID, partitions=[]))
        responses[-1].partitions.append(data)
    return responses


def _list_aborted(partition: ReadablePartition, offset: int, size_bytes: int) -> list[AbortedTransaction]:
    """Return the aborted transactions that may overlap the returned records, in order of their markers."""
    if not size_bytes:
        return []
    return [
        AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
        for each in partition.aborted_in_read(offset, size_bytes)
    ]


def _build_refused(partition: int, error: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=partition,
        error_code=error,
        high_watermark=UNKNOWN_OFFSET,
        records=b"",
    )
