"""Fetch sessions: a consumer lists its partitions once and then sends only changes.

A request with epoch 0 lists all partitions (a *full* fetch) and can open a session. *Incremental* fetches carry the
session id and the next epoch; they list new, changed and forgotten partitions. Their response contains only
partitions with records, an error, or a changed high watermark or log start offset. Epoch -1 closes the session. The
number of sessions is limited. A new session can evict a stale one, or an old and smaller one.

As in Kafka a session keeps unknown partitions, because they may be created later. Unlike Kafka the broker also
limits the partitions of all sessions together; beyond that limit a consumer gets no session and fetches in full.

Source: KIP-227, Kafka's `FetchSession`.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from coordinator.topics.long_work import LongWork
from coordinator.topics.topic import ZERO_ID
from protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from protocol.messages.fetch import FetchPartition, FetchRequest, PartitionData

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
FULL_EPOCHS: Final = (INITIAL_EPOCH, FINAL_EPOCH)
MAX_EPOCH: Final = 2**31 - 1
EVICTION_MS: Final = 120_000
TOPIC_IDS_VERSION: Final = 13

LARGE_FETCH: Final = 4_000
"""Reading this many partitions takes about 50 ms if they have few new records."""
PARTITIONS_PER_STEP: Final = 500
"""The number of partitions of a session or of a response that are handled in one step."""
COUNTED_TOPICS: Final = LARGE_FETCH + 1
"""The number of topics that are counted to find out whether a request is large."""

TargetKey = tuple[str | bytes, int]


def next_epoch(epoch: int) -> int:
    """Return the epoch of the next request."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == MAX_EPOCH else epoch + 1


class FetchTarget:
    """A fetched partition and the values that its session last sent to the consumer."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "high_watermark",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "name",
        "partition",
        "topic_id",
    )

    def __init__(self, name: str | None, topic_id: bytes, wanted: "FetchPartition") -> None:
        """`name` is None while the topic id is unknown."""
        self.name = name
        self.topic_id = topic_id
        self.partition = wanted.partition
        self.high_watermark = -1
        self.log_start_offset = -1
        self.update(wanted)

    def update(self, wanted: "FetchPartition") -> None:
        """Apply the values of the newest request for this partition."""
        self.current_leader_epoch = wanted.current_leader_epoch
        self.fetch_offset = wanted.fetch_offset
        self.last_fetched_epoch = wanted.last_fetched_epoch
        self.max_bytes = wanted.partition_max_bytes

    def copy_position(self, other: "FetchTarget") -> None:
        """Copy the position of another target for the same partition."""
        self.current_leader_epoch = other.current_leader_epoch
        self.fetch_offset = other.fetch_offset
        self.last_fetched_epoch = other.last_fetched_epoch
        self.max_bytes = other.max_bytes

    def update_response_data(self, data: "PartitionData") -> bool:
        """Return whether an incremental response must include `data`, and record it as sent."""
        is_new = (
            bool(data.records)
            or data.error_code != ErrorCode.NONE
            or data.diverging_epoch is not None
            or self.high_watermark != data.high_watermark
            or self.log_start_offset != data.log_start_offset
        )
        # After an error the next response must include all values.
        self.high_watermark = -1 if data.error_code != ErrorCode.NONE else data.high_watermark
        self.log_start_offset = data.log_start_offset
        return is_new


class FetchSession:
    """The partitions of one consumer on this broker, in the order in which responses serve them."""

    __slots__ = (
        "created_ms",
        "epoch",
        "is_removed",
        "last_used_ms",
        "session_id",
        "size_when_used",
        "targets",
        "uses_topic_ids",
    )

    def __init__(
        self, session_id: int, targets: dict[TargetKey, FetchTarget], uses_topic_ids: bool, now_ms: int
    ) -> None:
        self.session_id = session_id
        self.targets = targets
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.size_when_used = len(targets)
        self.epoch = next_epoch(INITIAL_EPOCH)
        """The expected epoch of the next request."""
        self.is_removed = False
        """Whether the cache no longer has the session."""


class FetchContext:
    """The partitions of one fetch request and the rules for its response."""

    __slots__ = ("creates_session", "epoch", "error", "session", "targets")

    def __init__(
        self,
        targets: dict[TargetKey, FetchTarget],
        *,
        creates_session: bool = False,
        session: FetchSession | None = None,
        epoch: int = FINAL_EPOCH,
        error: ErrorCode = ErrorCode.NONE,
    ) -> None:
        self.targets = targets
        self.creates_session = creates_session
        self.session = session
        """The session that an incremental fetch continues."""
        self.epoch = epoch
        self.error = error

    @property
    def is_large(self) -> bool:
        """Return whether the fetch is so large that other requests must run in between."""
        return len(self.targets) > LARGE_FETCH


class FetchSessionCache:
    """All fetch sessions of this broker. Times are monotonic milliseconds."""

    def __init__(self, slots: int, max_partitions: int, random_id: Callable[[], int]) -> None:
        """Create an empty cache.

        Args:
            slots: the maximum number of sessions.
            max_partitions: the maximum number of partitions in all sessions together.
            random_id: returns a random session id from 1 to 2^31 - 1.
        """
        self._slots = slots
        self._max_partitions = max_partitions
        self._partitions = 0
        self._random_id = random_id
        self._sessions: dict[int, FetchSession] = {}
        """The least recently used session comes first."""

    def __len__(self) -> int:
        return len(self._sessions)

    def is_large(self, request: "FetchRequest") -> bool:
        """Return whether the request is so large that other requests must run in between."""
        session = self._sessions.get(request.session_id)
        # A further topic makes no difference. A topic without partitions costs as much as a partition.
        named = sum([len(topic.partitions) or 1 for topic in request.topics[:COUNTED_TOPICS]])
        if request.forgotten_topics_data:
            named += sum(
                [len(topic.partitions) or 1 for topic in request.forgotten_topics_data[:COUNTED_TOPICS]]
            )
        return named + (0 if session is None else len(session.targets)) > LARGE_FETCH

    async def open_context(
        self,
        work: LongWork,
        request: "FetchRequest",
        version: int,
        find_topic_name: Callable[[bytes], str | None],
        now_ms: int,
    ) -> FetchContext:
        """Return the context of a request. `find_topic_name` finds a topic's name by its id."""
        named = await _read_named_targets(work, request, version, find_topic_name)
        epoch = request.session_epoch
        if epoch in FULL_EPOCHS:
            ended = self._sessions.get(request.session_id)
            if ended is not None:
                self._remove_session(ended)
            return FetchContext(named, creates_session=epoch == INITIAL_EPOCH, epoch=epoch)
        session = self._sessions.get(request.session_id)
        if session is None:
            return FetchContext({}, error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return FetchContext({}, error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != (version >= TOPIC_IDS_VERSION):
            return FetchContext({}, error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = next_epoch(epoch)
        if named or request.forgotten_topics_data:
            error = await self._update_session(work, session, named, request, version)
            if error is not ErrorCode.NONE:
                return FetchContext({}, error=error)
        if not session.targets or self._partitions > self._max_partitions:
            # The partitions of the request itself are served without a session.
            self._remove_session(session)
            return FetchContext(named)
        self._touch(session, now_ms)
        return FetchContext(session.targets, session=session, epoch=epoch)

    def create_session(self, targets: dict[TargetKey, FetchTarget], uses_topic_ids: bool, now_ms: int) -> int:
        """Create a session for a full fetch and return its id, or NO_SESSION if the cache is full."""
        if not self._has_room(len(targets), now_ms):
            return NO_SESSION
        if len(self._sessions) >= self._slots and not self._evict(len(targets), now_ms):
            return NO_SESSION
        session_id = self._random_id()
        while session_id in self._sessions:
            session_id = self._random_id()
        self._sessions[session_id] = FetchSession(session_id, targets, uses_topic_ids, now_ms)
        self._partitions += len(targets)
        return session_id

    async def _update_session(
        self,
        work: LongWork,
        session: FetchSession,
        named: dict[TargetKey, FetchTarget],
        request: "FetchRequest",
        version: int,
    ) -> ErrorCode:
        """Add and update the partitions that a request lists, and remove the forgotten ones.

        Return an error if another request has removed or used the session meanwhile.
        """
        targets, epoch = session.targets, session.epoch
        for number, (key, target) in enumerate(named.items(), 1):
            known = targets.get(key)
            if known is None:
                targets[key] = target
                self._partitions += 1
            else:
                known.copy_position(target)
            if not number % PARTITIONS_PER_STEP:
                await work.checkpoint()
                if (error := _check_session(session, epoch)) is not ErrorCode.NONE:
                    return error
        for topic in request.forgotten_topics_data:
            topic_key = topic.topic_id if version >= TOPIC_IDS_VERSION else topic.topic
            for partition in topic.partitions:
                if targets.pop((topic_key, partition), None) is not None:
                    self._partitions -= 1
                await work.checkpoint()
                if (error := _check_session(session, epoch)) is not ErrorCode.NONE:
                    return error
        return ErrorCode.NONE

    def _remove_session(self, session: FetchSession) -> None:
        del self._sessions[session.session_id]
        self._partitions -= len(session.targets)
        session.is_removed = True

    def _has_room(self, size: int, now_ms: int) -> bool:
        """Return whether the cache can take `size` more partitions. Only stale sessions are evicted for them;
        otherwise one large session would evict many small active ones.
        """
        if size > self._max_partitions:
            return False
        while self._partitions + size > self._max_partitions:
            stalest = self._stalest(now_ms)
            if stalest is None:
                return False
            self._remove_session(stalest)
        return True

    def _stalest(self, now_ms: int) -> FetchSession | None:
        """Return the least recently used session if it is stale."""
        stalest = next(iter(self._sessions.values()), None)
        if stalest is None or now_ms - stalest.last_used_ms <= EVICTION_MS:
            return None
        return stalest

    def _touch(self, session: FetchSession, now_ms: int) -> None:
        del self._sessions[session.session_id]
        self._sessions[session.session_id] = session
        session.last_used_ms = now_ms
        session.size_when_used = len(session.targets)

    def _evict(self, size: int, now_ms: int) -> bool:
        """Make room for a session of `size` partitions; return False if no session may be evicted for it."""
        stalest = self._stalest(now_ms)
        if stalest is not None:
            self._remove_session(stalest)
            return True
        old = [s for s in self._sessions.values() if s.last_used_ms - s.created_ms > EVICTION_MS]
        smallest = min(old, key=lambda s: (s.size_when_used, s.session_id), default=None)
        if smallest is None or size <= smallest.size_when_used:
            return False
        self._remove_session(smallest)
        return True


def _check_session(session: FetchSession, epoch: int) -> ErrorCode:
    """Return an error if another request has removed the session, or has used it after the one with this epoch."""
    if session.is_removed:
        return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    return ErrorCode.NONE if session.epoch == epoch else ErrorCode.INVALID_FETCH_SESSION_EPOCH


async def _read_named_targets(
    work: LongWork, request: "FetchRequest", version: int, find_topic_name: Callable[[bytes], str | None]
) -> dict[TargetKey, FetchTarget]:
    """Return the partitions that a request lists; the last of duplicates counts."""
    targets: dict[TargetKey, FetchTarget] = {}
    for topic in request.topics:
        by_id = version >= TOPIC_IDS_VERSION
        name = find_topic_name(topic.topic_id) if by_id else topic.topic
        topic_id = topic.topic_id if by_id else ZERO_ID
        topic_key: str | bytes = topic_id if by_id else topic.topic
        for wanted in topic.partitions:
            known = targets.get((topic_key, wanted.partition))
            if known is None:
                targets[topic_key, wanted.partition] = FetchTarget(name, topic_id, wanted)
            else:
                known.update(wanted)
            await work.checkpoint()
    return targets


def filter_changed(
    targets: dict[TargetKey, FetchTarget], found: Iterable[tuple[TargetKey, "PartitionData"]]
) -> list[tuple[TargetKey, "PartitionData"]]:
    """Return the partitions of an incremental response. Partitions with records move to the end of the session, so
    that each gets its turn.
    """
    changed = []
    for key, data in found:
        target = targets.get(key)
        if target is None or not target.update_response_data(data):
            continue
        changed.append((key, data))
        if data.records:
            targets[key] = targets.pop(key)
    return changed
