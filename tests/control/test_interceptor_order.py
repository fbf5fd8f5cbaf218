"""Clock, faults, recorder and oracles intercept the calls of a machine in every order.

A run makes the same calls, and differs only in the order of the interceptors. Laws:

- The order of registration has no effect; only the ranks count.
- In every order of the ranks the answers, records, deadlines, events and reported commits are equal.
- The recorder records the calls that it passes on: in group time behind the clock, in process time before it, and a
  refused call only before the fault that refuses it.
- A recording behind the clock is replayed with the same outcomes.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import permutations
from typing import Any, Final

import pytest

from coordinator.control.clock.clocked_shard import ClockedShard
from coordinator.control.clock.group_time import GroupTime, GroupTimeTable
from coordinator.control.diagnosis import commit_observer
from coordinator.control.diagnosis.commit_observer import CommitObserver, StoredCommit
from coordinator.control.recording.group_recording import GroupRecording
from coordinator.control.recording.recorded_shard import RecordedShard
from coordinator.control.replay.recording_file import RecordingFile, read_recording
from coordinator.control.replay.replay_comparison import compare_recording
from coordinator.core.interceptors import InterceptorChain, InterceptorRank
from coordinator.core.outcome import Context, Now, Outcome
from coordinator.group.group_requests import EndTransaction, GroupTimerKey, GroupTimerKind, Request
from coordinator.group.group_shard import GroupShard, ShardDecorator
from protocol.error_codes import ErrorCode
from protocol.messages.heartbeat import HeartbeatResponse
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.harness import heartbeat_request, join_request, sync_request
from tests.control.replay.recorder import lines_of
from tests.group.new_shard import new_shard

GROUP: Final = "billing"
OTHER: Final = "audit"
START: Final = Now(1_000_000, 1_700_000_000_000)
AHEAD_MS: Final = 3_600_000
CONNECTION: Final = 7
NAMES: Final = ("clock", "faults", "recorder", "oracles")
IN_ORDER: Final[Mapping[str, int]] = {
    "clock": InterceptorRank.CLOCK,
    "faults": InterceptorRank.FAULTS,
    "recorder": InterceptorRank.RECORDER,
    "oracles": InterceptorRank.ORACLES,
}
ORDERS: Final = list(permutations(NAMES))
REFUSED: Final = OffsetCommitResponse(topics=[])
"""The answer of the fault."""


class RefusingShard(ShardDecorator):
    """A fault: it answers some requests itself."""

    __slots__ = ("_waiters",)

    def __init__(self, inner: GroupShard, waiters: frozenset[int]) -> None:
        super().__init__(inner)
        self._waiters = waiters

    def handle(self, request: Request, context: Context, now: Now) -> Outcome:
        if context.waiter in self._waiters:
            return Outcome(replies=[(context.waiter, REFUSED)])
        return self.inner.handle(request, context, now)


@dataclass
class Seen:
    """The effects of a run outside of its interceptors."""

    answers: list[tuple[int, object]] = field(default_factory=list)
    records: list[object] = field(default_factory=list)
    deadlines: list[tuple[Any, int | None]] = field(default_factory=list)
    events: list[object] = field(default_factory=list)
    commits: list[StoredCommit] = field(default_factory=list)


class Run:
    """The calls of two groups of one shard, behind four interceptors."""

    def __init__(
        self,
        ranks: Mapping[str, int],
        registered: Sequence[str] = NAMES,
        refused: frozenset[int] = frozenset(),
    ) -> None:
        self.seen = Seen()
        self._now = START
        self._waiter = 0
        self._shard = self._machine = new_shard()
        times = GroupTimeTable()
        times.by_group[GROUP] = GroupTime(Now(START.monotonic_ms + AHEAD_MS, START.wall_ms + AHEAD_MS), START)
        self._recording = GroupRecording(GROUP, self._shard, times.group_now(GROUP, START), 1 << 20)
        interceptors: dict[str, Callable[[GroupShard], GroupShard]] = {
            "clock": partial(ClockedShard, times=times),
            "faults": partial(RefusingShard, waiters=refused),
            "recorder": partial(RecordedShard, recording=self._recording),
            "oracles": CommitObserver(self.seen.commits.append).intercept,
        }
        self._chain: InterceptorChain[GroupShard] = InterceptorChain(self._compose)
        for name in registered:
            self._chain.add(ranks[name], interceptors[name])

    def _compose(self) -> None:
        self._machine = self._chain.compose(self._shard)

    def play(self) -> "Run":
        """Make all calls."""
        self._take(self._machine.on_loaded(self._now))
        self._ask(join_request(GROUP))
        self._fire(GroupTimerKey(GroupTimerKind.JOIN, GROUP), 3_000)
        joined = next(one for _, one in self.seen.answers if isinstance(one, JoinGroupResponse))
        member_id, generation_id = joined.member_id, joined.generation_id
        assert joined.error_code == ErrorCode.NONE
        self._ask(sync_request(GROUP, member_id, generation_id, {member_id: b"all"}))
        for _ in range(3):
            self._beat(heartbeat_request(GROUP, member_id, generation_id))
        for offset in (5, 9, 7):
            self._ask(commit(GROUP, offset, member_id, generation_id))
            self._ask(commit(OTHER, offset))
        self._ask(commit(GROUP, 100, "stranger", generation_id))
        for is_committed in (True, False):
            self._ask(pending_commit(member_id, generation_id))
            self._ask(EndTransaction(5, 2, 1, is_committed))
        self._fire(GroupTimerKey(GroupTimerKind.HEARTBEAT, GROUP, member_id), 60_000)
        self._fire(GroupTimerKey(GroupTimerKind.EXPIRE_OFFSETS), 8 * 24 * 3_600_000)
        self.seen.answers += self._machine.unload()
        return self

    @property
    def recorded(self) -> RecordingFile:
        """The recording, as it is read from its file."""
        return read_recording(lines_of(self._recording))

    def _context(self) -> Context:
        self._waiter += 1
        return Context(
            self._waiter, 3, "client", "/127.0.0.1", f"{self._waiter:036d}", connection_id=CONNECTION
        )

    def _ask(self, request: Any) -> None:
        self._pass(100)
        self._take(self._machine.handle(request, self._context(), self._now))

    def _beat(self, request: Any) -> None:
        self._pass(100)
        context = self._context()
        response = self._machine.try_heartbeat(request, context, self._now.monotonic_ms)
        assert response is not None, "a heartbeat of a Stable group takes the fast path"
        self.seen.answers.append((context.waiter, response))

    def _fire(self, key: GroupTimerKey, after_ms: int) -> None:
        self._pass(after_ms)
        self._take(self._machine.fire_timer(key, self._now))

    def _pass(self, ms: int) -> None:
        self._now = Now(self._now.monotonic_ms + ms, self._now.wall_ms + ms)

    def _take(self, outcome: Outcome) -> None:
        self.seen.answers += outcome.replies
        self.seen.records += outcome.records
        self.seen.deadlines += outcome.timers.items()
        self.seen.events += outcome.events


def commit(group: str, offset: int, member_id: str = "", generation_id: int = -1) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
    return OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=generation_id, member_id=member_id, topics=[topic]
    )


def pending_commit(member_id: str, generation_id: int) -> TxnOffsetCommitRequest:
    partition = TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=20, committed_metadata=None
    )
    topic = TxnOffsetCommitRequestTopic(name="orders", partitions=[partition])
    return TxnOffsetCommitRequest(
        transactional_id="t",
        group_id=GROUP,
        producer_id=5,
        producer_epoch=2,
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        topics=[topic],
    )


def ranks_of(order: Sequence[str]) -> dict[str, int]:
    return {name: rank for rank, name in enumerate(order)}


def times_of(recorded: RecordingFile) -> list[int]:
    """Return the wall times of the requests in a recording."""
    return [line.fields["wall_ms"] for line in recorded.lines if line.kind == "request"]


def inputs_of(recorded: RecordingFile) -> list[Any]:
    """Return the requests of a recording, without their times."""
    return [line.fields["body"] for line in recorded.lines if line.kind == "request"]


def check_order(order: Sequence[str], refused: frozenset[int] = frozenset()) -> None:
    """Check all laws for one order of the ranks."""
    expected = Run(IN_ORDER, refused=refused).play()
    run = Run(ranks_of(order), refused=refused).play()
    assert run.seen == expected.seen
    recorded, reference = run.recorded, expected.recorded
    is_clocked = order.index("clock") < order.index("recorder")
    is_before_fault = order.index("recorder") < order.index("faults")
    assert len(inputs_of(recorded)) == len(inputs_of(reference)) + (len(refused) if is_before_fault else 0)
    first_ms = times_of(recorded)[0] - START.wall_ms
    assert (first_ms >= AHEAD_MS) is is_clocked
    if is_clocked and not (refused and is_before_fault):
        assert recorded.lines == reference.lines
        assert compare_recording(recorded).different is None


COMMITS: Final = frozenset({6, 8})
"""The waiters of the first two commits of the recorded group."""


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
@pytest.mark.parametrize("refused", [frozenset(), COMMITS], ids=["pass", "refuse"])
def test_the_order_of_ranks_changes_only_what_the_recorder_sees(
    order: Sequence[str], refused: frozenset[int]
) -> None:
    check_order(order, refused)


@pytest.mark.parametrize("registered", ORDERS, ids="-".join)
def test_the_order_of_registration_has_no_effect(registered: Sequence[str]) -> None:
    expected, run = Run(IN_ORDER).play(), Run(IN_ORDER, registered).play()
    assert run.seen == expected.seen
    assert run.recorded.lines == expected.recorded.lines


def test_a_run_reaches_every_interceptor() -> None:
    """Otherwise the laws hold for nothing."""
    plain, refusing = Run(IN_ORDER).play(), Run(IN_ORDER, refused=COMMITS).play()
    group_commits = [(one.offset, one.before) for one in plain.seen.commits if one.group_id == GROUP]
    assert group_commits == [(5, None), (9, 5), (7, 9), (20, 7)]
    assert [one.offset for one in refusing.seen.commits if one.group_id == GROUP] == [7, 20]
    assert [one for _, one in refusing.seen.answers].count(REFUSED) == len(COMMITS)
    assert HeartbeatResponse(error_code=ErrorCode.NONE) in [one for _, one in plain.seen.answers]
    assert {line.kind for line in plain.recorded.lines} == {"load", "request", "fire", "beat", "unload"}
    assert times_of(plain.recorded)[0] >= START.wall_ms + AHEAD_MS
    deadlines = [at for key, at in plain.seen.deadlines if key.group_id == GROUP and at is not None]
    assert deadlines
    assert max(deadlines) < START.monotonic_ms + AHEAD_MS, "deadlines are in the time of the process"


def test_interceptors_of_one_rank_keep_their_order_and_leave_at_any_time() -> None:
    calls: list[str] = []
    composed = 0

    def count() -> None:
        nonlocal composed
        composed += 1

    def name(letter: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
        def intercept(call: Callable[[], None]) -> Callable[[], None]:
            def intercepted() -> None:
                calls.append(letter)
                call()

            return intercepted

        return intercept

    chain: InterceptorChain[Callable[[], None]] = InterceptorChain(count)
    named = {letter: name(letter) for letter in "abcd"}
    for letter, rank in (("c", 2), ("a", 1), ("d", 2), ("b", 1)):
        chain.add(rank, named[letter])
    chain.compose(lambda: None)()
    assert calls == ["a", "b", "c", "d"]
    calls.clear()
    leaving = list("abcd")
    random.Random(1).shuffle(leaving)
    for number, letter in enumerate(leaving, 1):
        chain.remove(named[letter])
        chain.compose(lambda: None)()
        assert calls == [one for one in "abcd" if one not in leaving[:number]]
        calls.clear()
    assert not chain
    assert composed == 8
    plain = calls.clear
    assert chain.compose(plain) == plain
    with pytest.raises(ValueError, match="is not in list"):
        chain.remove(named["a"])


# Faults in the interceptors themselves, each of which the laws find


def keep_deadlines(self: ClockedShard, outcome: Outcome, now: Now) -> Outcome:
    """A clock that returns deadlines in group time."""
    return outcome


def drop_heartbeat(self: GroupRecording, *arguments: object) -> None:
    """A recorder without heartbeats."""


def report_requested(records: Any) -> list[Any]:
    """An oracle that reports other offsets than the stored ones."""
    return [((record.key.group, record.key.topic, record.key.partition), 0) for record in records]


def refuse_twice(self: RefusingShard, request: Request, context: Context, now: Now) -> Outcome:
    """A fault that answers, and lets the call through as well."""
    outcome = self.inner.handle(request, context, now)
    if context.waiter in self._waiters:
        outcome.replies = [*outcome.replies, (context.waiter, REFUSED)]
    return outcome


def compose_reversed(self: InterceptorChain[Any], call: Any) -> Any:
    """A chain with the highest rank nearest to the caller."""
    for _, intercept in self._entries:
        call = intercept(call)
    return call


def add_unordered(self: InterceptorChain[Any], rank: int, interceptor: Any) -> None:
    """A chain in the order of registration."""
    self._entries.append((rank, interceptor))
    self._on_changed()


def check_all() -> None:
    test_a_run_reaches_every_interceptor()
    test_the_order_of_registration_has_no_effect(("oracles", "recorder", "faults", "clock"))
    check_order(("oracles", "recorder", "faults", "clock"), COMMITS)
    check_order(("clock", "recorder", "faults", "oracles"))


@pytest.mark.parametrize(
    ("target", "name", "planted"),
    [
        (ClockedShard, "_mapped", keep_deadlines),
        (GroupRecording, "add_heartbeat", drop_heartbeat),
        (commit_observer, "_iterate_offsets", report_requested),
        (RefusingShard, "handle", refuse_twice),
        (InterceptorChain, "compose", compose_reversed),
        (InterceptorChain, "add", add_unordered),
    ],
    ids=["clock", "recorder", "oracles", "faults", "composition", "order"],
)
def test_a_planted_fault_breaks_a_law(
    monkeypatch: pytest.MonkeyPatch, target: Any, name: str, planted: Any
) -> None:
    check_all()
    monkeypatch.setattr(target, name, planted)
    with pytest.raises(AssertionError):
        check_all()
