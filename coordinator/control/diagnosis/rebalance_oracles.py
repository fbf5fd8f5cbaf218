"""Oracles for rebalances that do not end or that repeat.

`stuck_rebalance`: the coordinator should have ended a rebalance. As in Kafka, each phase (join, sync) ends by
itself. It lasts at most the longest rebalance timeout of the members, and a silent member counts until its
session ends. By default these are 5 minutes and 45 s. While one of these deadlines is ahead, the group is not
stuck. A phase that lasts `oracle.stuck.ms` longer than the last deadline is a violation, which only a defect of
the coordinator can cause. A notice reports a rebalance that has outlasted the deadlines of a join phase and a
sync phase together, although Kafka would still wait: its members restart it, or a static member sends heartbeats
and does not rejoin.

Only time that has passed for both the group and the process counts. An advanced clock does not show how long
members were silent, and a frozen clock never reaches a deadline. The initial delay of an empty group
(group.initial.rebalance.delay.ms) does not count. In a consumer group (KIP-848) the coordinator waits for single
members to revoke partitions, each for its own rebalance timeout.

`flapping`: a group rebalances repeatedly, mostly because of the same member. Five generations (in a consumer
group, epochs) within a minute are not enough, because a rolling deployment causes one or two for each member.
Three of the five must come from one member, and two of these must have the same cause other than joining. Causes
that a member creates by rejoining must occur three times. The member is identified by its instance id, or by its
client id and address if no other member has these. The second half of a cooperative hand-over and a leader that
rejoins because of changed topics do not count. In a consumer group the members that share a client id and address
are those of the last target assignment, because an examination of all members of a large group for every epoch
takes too long.
"""

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from coordinator.control.consumer_protocol_payloads import COOPERATIVE
from coordinator.control.diagnosis.oracle import (
    CHECK_PERIOD_MS,
    EventHandler,
    OracleContext,
    format_member,
    format_member_at,
)
from coordinator.control.diagnosis.violation import OracleFinding, OracleName, Severity
from coordinator.core.message_text import format_count, format_list, format_seconds, printable
from coordinator.group.classic.classic_state_machine import ClassicGroupState
from coordinator.group.event_details import MemberName, RebalanceCause
from coordinator.group.group_event_types import (
    ConsumerMemberFenced,
    ConsumerMemberLeft,
    ConsumerMemberReplaced,
    EpochBumped,
    EpochCause,
    GroupConverted,
    GroupDeleted,
    GroupEvent,
    GroupLoaded,
    GroupStabilized,
    MemberReconciled,
    RebalanceCompleted,
    RebalanceStarted,
    TargetComputed,
)
from coordinator.group.group_view import GroupView, MemberView, RebalanceView
from coordinator.group.topics_image import TopicsImage

_EMPTY: Final = ClassicGroupState.EMPTY.value
_COMPLETING: Final = ClassicGroupState.COMPLETING_REBALANCE.value
_REBALANCING: Final = (ClassicGroupState.PREPARING_REBALANCE.value, _COMPLETING)
_MAX_AWAITED: Final = 5
_PHASES: Final = 2
"""The phases of a rebalance: join and sync."""


@dataclass(frozen=True, slots=True)
class _Instant:
    """A monotonic time in milliseconds, of the group and of the process."""

    group_ms: int
    real_ms: int

    def elapsed_ms(self, now: "_Instant") -> int:
        """Return the time since then that has passed for both the group and the process."""
        return min(now.group_ms - self.group_ms, now.real_ms - self.real_ms)


@dataclass(slots=True)
class _Wait:
    """A wait of the coordinator for a group or for one member. It started at `began`. `overdue_since` is the time
    of the first check after its deadline."""

    began: _Instant
    overdue_since: _Instant | None = None
    is_noticed: bool = False

    def evaluate(
        self, now: _Instant, left_ms: int | None, longest_ms: int, stuck_ms: int
    ) -> tuple[Severity | None, int]:
        """Return the severity of the finding, if any, and the milliseconds until the next evaluation.

        Args:
            now: the current time.
            left_ms: time until the coordinator's deadline; None without one.
            longest_ms: the longest time that the wait should take.
            stuck_ms: `oracle.stuck.ms`.
        """
        if left_ms == 0:
            self.overdue_since = self.overdue_since or now
            if self.overdue_since.elapsed_ms(now) >= stuck_ms:
                return Severity.VIOLATION, 0
            # Check again soon, because the coordinator may be setting a new deadline at this moment.
            return None, min(CHECK_PERIOD_MS, stuck_ms)
        self.overdue_since, next_ms = None, left_ms or stuck_ms
        if self.is_noticed:
            return None, next_ms
        notice_ms = longest_ms + stuck_ms - self.began.elapsed_ms(now)
        if notice_ms <= 0:
            self.is_noticed = True
            return Severity.NOTICE, next_ms
        return None, min(next_ms, notice_ms)


class StuckRebalance:
    """Checks the groups with an open rebalance."""

    name: Final = OracleName.STUCK_REBALANCE
    severities: Final = frozenset({Severity.VIOLATION, Severity.NOTICE})

    def __init__(self, context: OracleContext) -> None:
        self._context = context
        self._open: dict[str, _Wait] = {}
        self._revoking: dict[str, dict[str, _Wait]] = {}
        """The waits for members that have to revoke partitions, by group id and member id."""
        self.handlers: dict[type[GroupEvent], EventHandler] = {
            RebalanceStarted: self._on_rebalance_started,
            GroupStabilized: self._on_group_stabilized,
            RebalanceCompleted: self._on_rebalance_ended,
            GroupLoaded: self._on_rebalance_ended,
            GroupDeleted: self._on_rebalance_ended,
            MemberReconciled: self._on_member_reconciled,
            ConsumerMemberLeft: self._on_member_gone,
            ConsumerMemberFenced: self._on_member_gone,
            ConsumerMemberReplaced: self._on_member_replaced,
            GroupConverted: self._on_rebalance_ended,
        }

    def _on_rebalance_started(self, event: RebalanceStarted) -> None:
        if event.state != _EMPTY:
            self._start_phase(event.group_id)

    def _on_group_stabilized(self, event: GroupStabilized) -> None:
        self._start_phase(event.group_id)

    def _start_phase(self, group_id: str) -> None:
        """Record the begin of a phase, and of the rebalance if it is the first phase. The deadline is read at the
        first check: most phases are over by then, and the view of a large group takes time."""
        opened = self._open.get(group_id)
        if opened is None:
            self._open[group_id] = _Wait(self._now(group_id))
            self._context.schedule_check(self.name, group_id, self._context.config.oracle_stuck_ms)
        else:
            opened.overdue_since = None

    def _now(self, group_id: str) -> _Instant:
        return _Instant(self._context.group_now(group_id).monotonic_ms, self._context.now_ms())

    def _on_rebalance_ended(self, event: GroupEvent) -> None:
        was_revoking = self._revoking.pop(event.group_id, None) is not None
        if self._open.pop(event.group_id, None) is not None or was_revoking:
            self._context.cancel_check(self.name, event.group_id)

    def _on_member_reconciled(self, event: MemberReconciled) -> None:
        assert event.member is not None
        member_id, group_id = event.member.member_id, event.group_id
        if not event.pending:
            self._forget_member(group_id, member_id)
        elif member_id not in self._revoking.get(group_id, ()):
            self._revoking.setdefault(group_id, {})[member_id] = _Wait(self._now(group_id))
            self._context.schedule_check(self.name, group_id, self._context.config.oracle_stuck_ms)

    def _on_member_gone(self, event: ConsumerMemberLeft | ConsumerMemberFenced) -> None:
        assert event.member is not None
        self._forget_member(event.group_id, event.member.member_id)

    def _on_member_replaced(self, event: ConsumerMemberReplaced) -> None:
        self._forget_member(event.group_id, event.old_member_id)

    def _forget_member(self, group_id: str, member_id: str) -> None:
        revoking = self._revoking.get(group_id)
        if revoking is not None and revoking.pop(member_id, None) is not None and not revoking:
            del self._revoking[group_id]
            if group_id not in self._open:
                self._context.cancel_check(self.name, group_id)

    def check_group(self, group_id: str) -> None:
        """Report the group if it or one of its members is past its deadline; schedule another check otherwise."""
        view = self._context.find_group(group_id)
        opened, revoking = self._open.pop(group_id, None), self._revoking.pop(group_id, None)
        if view is None:
            return
        if revoking is not None:
            self._check_members(view, revoking)
        if opened is not None and view.rebalance is not None and view.state in _REBALANCING:
            self._check_rebalance(view, view.rebalance, opened)

    def _check_rebalance(self, view: GroupView, rebalance: RebalanceView, opened: _Wait) -> None:
        now = self._now(view.group_id)
        timeouts_ms = (max(one.session_timeout_ms, one.rebalance_timeout_ms) for one in view.members)
        severity, next_ms = opened.evaluate(
            now,
            rebalance.left_ms,
            _PHASES * max(timeouts_ms, default=0),
            self._context.config.oracle_stuck_ms,
        )
        if severity is not None:
            self._report_rebalance(view, rebalance, now.real_ms - opened.began.real_ms, severity)
        if severity is not Severity.VIOLATION:
            self._open[view.group_id] = opened
            self._context.schedule_check(self.name, view.group_id, next_ms)

    def _check_members(self, view: GroupView, revoking: Mapping[str, _Wait]) -> None:
        now = self._now(view.group_id)
        for member in view.members:
            wait = revoking.get(member.name.member_id)
            if wait is None or member.consumer is None or not member.consumer.pending:
                continue
            severity, next_ms = wait.evaluate(
                now,
                member.consumer.revokes_left_ms,
                member.rebalance_timeout_ms,
                self._context.config.oracle_stuck_ms,
            )
            if severity is not None:
                self._report_member(view, member, now.real_ms - wait.began.real_ms, severity)
            if severity is not Severity.VIOLATION:
                self._revoking.setdefault(view.group_id, {})[member.name.member_id] = wait
                self._context.schedule_check(self.name, view.group_id, next_ms)

    def _report_member(self, view: GroupView, member: MemberView, open_ms: int, severity: Severity) -> None:
        assert member.consumer is not None
        pending = sum(map(len, member.consumer.pending.values()))
        self._context.report_finding(
            OracleFinding(
                oracle=self.name,
                severity=severity,
                group_id=view.group_id,
                generation_id=view.generation_id,
                subject=member.name.member_id,
                identity=(severity, member.name.member_id, member.consumer.member_epoch),
                detail=f"{printable(view.group_id)} is {view.state} in epoch {view.generation_id}, and "
                f"{format_member(member.name)} has not given up "
                f"{format_count(pending, 'partition')} for {format_seconds(open_ms)}.",
                members=[member.name],
            )
        )

    def _report_rebalance(
        self, view: GroupView, rebalance: RebalanceView, open_ms: int, severity: Severity
    ) -> None:
        actor = rebalance.trigger.actor
        by = "" if actor is None else f", by {format_member(actor)}"
        again = f"; begun {rebalance.attempts} times" if rebalance.attempts > 1 else ""
        awaited = [
            f"the {one.request} of {format_member(one.member)}" for one in rebalance.awaited[:_MAX_AWAITED]
        ]
        waits = f" It awaits {format_list(awaited, len(rebalance.awaited))}." if awaited else ""
        names = [one.member for one in rebalance.awaited]
        self._context.report_finding(
            OracleFinding(
                oracle=self.name,
                severity=severity,
                group_id=view.group_id,
                generation_id=view.generation_id,
                identity=(severity, view.generation_id),
                detail=f"{printable(view.group_id)} is {view.state}, and has rebalanced for "
                f"{format_seconds(open_ms)} (cause: {rebalance.trigger.cause}{by}{again}).{waits}",
                members=names if actor is None else [*names, actor],
            )
        )


FLAPPING_GENERATIONS: Final = 5
FLAPPING_WITHIN_MS: Final = 60_000
"""The window in which generations count, in milliseconds of group time."""
MIN_BY_ONE_MEMBER: Final = 3
MIN_REPEATS: Final = 2
"""The minimum number of generations with the same cause, other than joining, among those of the member. Causes
that a member creates by rejoining need `MIN_BY_ONE_MEMBER`."""
MAX_GROUPS: Final = 10_000
_SELF_CAUSED: Final = (RebalanceCause.LEADER_REJOINED, RebalanceCause.METADATA_CHANGED)
_SELF_CAUSED_EPOCHS: Final = (EpochCause.SUBSCRIPTION_CHANGED, EpochCause.ASSIGNOR_CHANGED)
_MEMBERLESS_CAUSES: Final = (EpochCause.TOPICS_CHANGED, EpochCause.REGEX_RESOLVED)
_JOIN_CAUSES: Final = (RebalanceCause.MEMBER_JOINED, EpochCause.MEMBER_JOINED)
_STREAMS: Final = "stream"


@dataclass(frozen=True, slots=True)
class _Generation:
    """A generation with its time, cause and actor. `key` is None if it does not count for flapping."""

    at_ms: int
    cause: RebalanceCause | EpochCause
    actor: MemberName | None
    key: Hashable
    topics: TopicsImage


class Flapping:
    """Counts the recent generations of each group, and reports frequent ones by the same member."""

    name: Final = OracleName.FLAPPING
    severities: Final = frozenset({Severity.NOTICE})

    def __init__(self, context: OracleContext) -> None:
        self._context = context
        self._last: dict[str, deque[_Generation]] = {}
        """The last generations of each group. The group with the latest generation comes last."""
        self._shared: dict[str, frozenset[Hashable]] = {}
        """The clients of each consumer group that several members share. Groups without such clients are left
        out."""
        self.handlers: dict[type[GroupEvent], EventHandler] = {
            RebalanceCompleted: self._on_rebalance_completed,
            EpochBumped: self._on_epoch_bumped,
            TargetComputed: self._on_target_computed,
            GroupDeleted: self._on_group_deleted,
        }

    def check_group(self, group_id: str) -> None:
        """This oracle schedules no check."""

    def _on_group_deleted(self, event: GroupDeleted) -> None:
        self._forget(event.group_id)

    def _forget(self, group_id: str) -> None:
        self._last.pop(group_id, None)
        self._shared.pop(group_id, None)

    def _on_target_computed(self, event: TargetComputed) -> None:
        counts = Counter((one.member.client_id, one.member.client_host) for one in event.targets)
        shared = frozenset(client for client, count in counts.items() if count > 1)
        if shared and event.group_id in self._last:
            self._shared[event.group_id] = shared
        else:
            self._shared.pop(event.group_id, None)

    def _on_epoch_bumped(self, event: EpochBumped) -> None:
        if not event.members:
            return
        actor = None if event.cause in _MEMBERLESS_CAUSES else event.member
        key = None if actor is None else _identify_among(actor, self._shared.get(event.group_id, frozenset()))
        at_ms = self._context.group_now(event.group_id).monotonic_ms
        self._add_generation(event, _Generation(at_ms, event.cause, actor, key, self._context.topics))

    def _on_rebalance_completed(self, event: RebalanceCompleted) -> None:
        if not event.members:
            return
        last = self._last.get(event.group_id)
        topics, trigger = self._context.topics, event.trigger
        before = last[-1].topics if last else topics
        key = None if _is_expected(event, topics is before) else _identify_actor(event)
        self._add_generation(event, _Generation(event.ended_ms, trigger.cause, trigger.actor, key, topics))

    def _add_generation(self, event: RebalanceCompleted | EpochBumped, generation: _Generation) -> None:
        last = self._last.pop(event.group_id, None) or deque(maxlen=FLAPPING_GENERATIONS)
        self._last[event.group_id] = last
        if len(self._last) > MAX_GROUPS:
            self._forget(next(iter(self._last)))
        last.append(generation)
        if len(last) == FLAPPING_GENERATIONS and generation.at_ms - last[0].at_ms <= FLAPPING_WITHIN_MS:
            counts = Counter(generation.key for generation in last if generation.key is not None)
            for key, count in counts.most_common(1):
                if count >= MIN_BY_ONE_MEMBER and _repeats_itself(last, key):
                    self._report(event, last, key, count)

    def _report(
        self, event: RebalanceCompleted | EpochBumped, last: deque[_Generation], key: Hashable, count: int
    ) -> None:
        causes = dict.fromkeys(str(generation.cause) for generation in last if generation.key == key)
        actor = next(generation.actor for generation in reversed(last) if generation.key == key)
        assert actor is not None
        span = format_seconds(last[-1].at_ms - last[0].at_ms)
        kind = "epochs" if isinstance(event, EpochBumped) else "generations"
        self._context.report_finding(
            OracleFinding(
                oracle=self.name,
                severity=Severity.NOTICE,
                group_id=event.group_id,
                generation_id=event.generation_id,
                identity=key,
                detail=f"{len(last)} {kind} in {span}, {count} of them by {format_member_at(actor)} "
                f"({format_list(list(causes), len(causes))}).",
                members=[actor],
                subject=key,
            )
        )


def _repeats_itself(last: Iterable[_Generation], key: Hashable) -> bool:
    causes = Counter(generation.cause for generation in last if generation.key == key)
    for cause in _JOIN_CAUSES:
        del causes[cause]
    own_doing = (*_SELF_CAUSED, *_SELF_CAUSED_EPOCHS)
    return any(
        count >= (MIN_BY_ONE_MEMBER if cause in own_doing else MIN_REPEATS) for cause, count in causes.items()
    )


def _is_expected(event: RebalanceCompleted, topics_are_the_same: bool) -> bool:
    name = event.protocol_name or ""
    is_cooperative = COOPERATIVE in name or name == _STREAMS
    return event.trigger.cause in _SELF_CAUSED and (is_cooperative or not topics_are_the_same)


def _identify_actor(event: RebalanceCompleted) -> Hashable:
    actor = event.trigger.actor
    if actor is None:
        return None
    client = actor.client_id, actor.client_host
    others = [*(one.member for one in event.members), *(one.member for one in event.gone)]
    is_shared = any(
        client == (name.client_id, name.client_host) and name.member_id != actor.member_id for name in others
    )
    return _identify_among(actor, frozenset([client]) if is_shared else frozenset())


def _identify_among(actor: MemberName, shared: frozenset[Hashable]) -> Hashable:
    """Return the identity that a member keeps when it rejoins. `shared` has client ids that several members
    use."""
    if actor.group_instance_id is not None:
        return actor.group_instance_id
    client = actor.client_id, actor.client_host
    return actor.member_id if client in shared else client
