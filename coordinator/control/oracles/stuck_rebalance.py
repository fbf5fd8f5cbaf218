"""A rebalance that goes on although the coordinator should have ended it.

The coordinator ends each phase of a rebalance by itself, as Kafka does: a phase (join, sync) lasts for the longest
rebalance timeout of the members at most, and a silent member counts until its session ends. By default these are
5 minutes and 45 s. While one of these deadlines is ahead, the group is not stuck. A phase that goes on for
`oracle.stuck.ms` after the last deadline is a violation, which only a defect of the coordinator can cause.

A notice says that a rebalance lasts longer than the deadlines of a join phase and a sync phase together, and that
Kafka would still wait: its members make it begin again, or a static member sends heartbeats and does not rejoin.

Time is the group's, as far as it has passed in reality, too: a clock that is moved on says nothing of the members,
and a clock that stands still keeps every deadline away. While an empty group waits for its first members
(group.initial.rebalance.delay.ms) no time is counted.

In a consumer group (KIP-848) the coordinator waits for single members, which have to give up partitions. Each has
its rebalance timeout for that.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from coordinator.control.oracles.finding import Finding
from coordinator.control.oracles.oracle import Hear
from coordinator.control.oracles.violation import OracleName, Severity
from coordinator.control.oracles.watch import SAMPLE_MS, Watch
from coordinator.control.oracles.words import who
from coordinator.group.consumer.events import (
    ConsumerMemberFenced,
    ConsumerMemberLeft,
    ConsumerMemberReplaced,
    GroupConverted,
    MemberReconciled,
)
from coordinator.group.events import (
    Event,
    GroupDeleted,
    GroupLoaded,
    GroupStabilized,
    RebalanceCompleted,
    RebalanceStarted,
)
from coordinator.group.state import ClassicGroupState
from coordinator.group.view import GroupView, MemberView, RebalanceView
from coordinator.net.peer import printable
from coordinator.server.log_words import listed, seconds

_EMPTY: Final = ClassicGroupState.EMPTY.value
_COMPLETING: Final = ClassicGroupState.COMPLETING_REBALANCE.value
_REBALANCING: Final = (ClassicGroupState.PREPARING_REBALANCE.value, _COMPLETING)
_MOST_AWAITED: Final = 5
_PHASES: Final = 2
"""Join and sync."""


@dataclass(frozen=True, slots=True)
class _Instant:
    """A monotonic time: the group's, and the process's."""

    group_ms: int
    real_ms: int

    def elapsed_ms(self, now: "_Instant") -> int:
        """Return the time since then that has passed for both the group and the process."""
        return min(now.group_ms - self.group_ms, now.real_ms - self.real_ms)


@dataclass(slots=True)
class _Wait:
    """The coordinator waits for a group, or for one member, since `began`. `overdue_since` is the first look after
    its deadline."""

    began: _Instant
    overdue_since: _Instant | None = None
    is_noticed: bool = False

    def evaluate(
        self, now: _Instant, left_ms: int | None, longest_ms: int, stuck_ms: int
    ) -> tuple[Severity | None, int]:
        """Return the severity of the finding, if there is one, and the milliseconds until the next look.

        In: the time until the coordinator's deadline, None if it has none; the longest time that the wait should
        take; `oracle.stuck.ms`.
        """
        if left_ms == 0:
            self.overdue_since = self.overdue_since or now
            if self.overdue_since.elapsed_ms(now) >= stuck_ms:
                return Severity.VIOLATION, 0
            # Look again soon, to see a deadline that is set again at this very moment.
            return None, min(SAMPLE_MS, stuck_ms)
        self.overdue_since, next_ms = None, left_ms or stuck_ms
        if self.is_noticed:
            return None, next_ms
        notice_ms = longest_ms + stuck_ms - self.began.elapsed_ms(now)
        if notice_ms <= 0:
            self.is_noticed = True
            return Severity.NOTICE, next_ms
        return None, min(next_ms, notice_ms)


class StuckRebalance:
    """Looks at the groups whose rebalance is open."""

    name: Final = OracleName.STUCK_REBALANCE
    severities: Final = frozenset({Severity.VIOLATION, Severity.NOTICE})

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._open: dict[str, _Wait] = {}
        self._revoking: dict[str, dict[str, _Wait]] = {}
        """By group and member id: members that have to give up partitions and still have them."""
        self.hears: dict[type[Event], Hear] = {
            RebalanceStarted: self._started,
            GroupStabilized: self._joined,
            RebalanceCompleted: self._ended,
            GroupLoaded: self._ended,
            GroupDeleted: self._ended,
            MemberReconciled: self._reconciled,
            ConsumerMemberLeft: self._gone,
            ConsumerMemberFenced: self._gone,
            ConsumerMemberReplaced: self._replaced,
            GroupConverted: self._ended,
        }

    def _started(self, event: RebalanceStarted) -> None:
        if event.state != _EMPTY:
            self._begin(event.group_id)

    def _joined(self, event: GroupStabilized) -> None:
        self._begin(event.group_id)

    def _begin(self, group_id: str) -> None:
        """A phase begins, maybe with it the rebalance. Its deadline is read at the first look: most phases are over
        by then, and the view of a large group takes time."""
        opened = self._open.get(group_id)
        if opened is None:
            self._open[group_id] = _Wait(self._now(group_id))
            self._watch.look_in(self.name, group_id, self._watch.config.oracle_stuck_ms)
        else:
            opened.overdue_since = None

    def _now(self, group_id: str) -> _Instant:
        return _Instant(self._watch.group_now(group_id).monotonic_ms, self._watch.now_ms())

    def _ended(self, event: Event) -> None:
        was_revoking = self._revoking.pop(event.group_id, None) is not None
        if self._open.pop(event.group_id, None) is not None or was_revoking:
            self._watch.look_no_more(self.name, event.group_id)

    def _reconciled(self, event: MemberReconciled) -> None:
        assert event.member is not None
        member_id, group_id = event.member.member_id, event.group_id
        if not event.pending:
            self._forget(group_id, member_id)
        elif member_id not in self._revoking.get(group_id, ()):
            self._revoking.setdefault(group_id, {})[member_id] = _Wait(self._now(group_id))
            self._watch.look_in(self.name, group_id, self._watch.config.oracle_stuck_ms)

    def _gone(self, event: ConsumerMemberLeft | ConsumerMemberFenced) -> None:
        assert event.member is not None
        self._forget(event.group_id, event.member.member_id)

    def _replaced(self, event: ConsumerMemberReplaced) -> None:
        self._forget(event.group_id, event.old_member_id)

    def _forget(self, group_id: str, member_id: str) -> None:
        revoking = self._revoking.get(group_id)
        if revoking is not None and revoking.pop(member_id, None) is not None and not revoking:
            del self._revoking[group_id]
            if group_id not in self._open:
                self._watch.look_no_more(self.name, group_id)

    def look(self, group_id: str) -> None:
        """Report the group if it, or one of its members, is past its deadline; look again if not."""
        view = self._watch.view(group_id)
        opened, revoking = self._open.pop(group_id, None), self._revoking.pop(group_id, None)
        if view is None:
            return
        if revoking is not None:
            self._look_at_members(view, revoking)
        if opened is not None and view.rebalance is not None and view.state in _REBALANCING:
            self._look_at_rebalance(view, view.rebalance, opened)

    def _look_at_rebalance(self, view: GroupView, rebalance: RebalanceView, opened: _Wait) -> None:
        now = self._now(view.group_id)
        timeouts_ms = (max(one.session_timeout_ms, one.rebalance_timeout_ms) for one in view.members)
        severity, next_ms = opened.evaluate(
            now,
            rebalance.left_ms,
            _PHASES * max(timeouts_ms, default=0),
            self._watch.config.oracle_stuck_ms,
        )
        if severity is not None:
            self._found(view, rebalance, now.real_ms - opened.began.real_ms, severity)
        if severity is not Severity.VIOLATION:
            self._open[view.group_id] = opened
            self._watch.look_in(self.name, view.group_id, next_ms)

    def _look_at_members(self, view: GroupView, revoking: Mapping[str, _Wait]) -> None:
        now = self._now(view.group_id)
        for member in view.members:
            wait = revoking.get(member.name.member_id)
            if wait is None or member.consumer is None or not member.consumer.pending:
                continue
            severity, next_ms = wait.evaluate(
                now,
                member.consumer.revokes_left_ms,
                member.rebalance_timeout_ms,
                self._watch.config.oracle_stuck_ms,
            )
            if severity is not None:
                self._found_revoking(view, member, now.real_ms - wait.began.real_ms, severity)
            if severity is not Severity.VIOLATION:
                self._revoking.setdefault(view.group_id, {})[member.name.member_id] = wait
                self._watch.look_in(self.name, view.group_id, next_ms)

    def _found_revoking(self, view: GroupView, member: MemberView, open_ms: int, severity: Severity) -> None:
        assert member.consumer is not None
        pending = sum(map(len, member.consumer.pending.values()))
        self._watch.found(
            Finding(
                oracle=self.name,
                severity=severity,
                group_id=view.group_id,
                generation_id=view.generation_id,
                subject=member.name.member_id,
                about=(severity, member.name.member_id, member.consumer.member_epoch),
                detail=f"{printable(view.group_id)} is {view.state} in epoch {view.generation_id}, and "
                f"{who(member.name)} has not given up {pending} partition{'' if pending == 1 else 's'} for "
                f"{seconds(open_ms)}.",
                members=[member.name],
            )
        )

    def _found(self, view: GroupView, rebalance: RebalanceView, open_ms: int, severity: Severity) -> None:
        actor = rebalance.trigger.actor
        by = "" if actor is None else f", by {who(actor)}"
        again = f"; begun {rebalance.attempts} times" if rebalance.attempts > 1 else ""
        awaited = [f"the {one.request} of {who(one.member)}" for one in rebalance.awaited[:_MOST_AWAITED]]
        waits = f" It awaits {listed(awaited, len(rebalance.awaited))}." if awaited else ""
        names = [one.member for one in rebalance.awaited]
        self._watch.found(
            Finding(
                oracle=self.name,
                severity=severity,
                group_id=view.group_id,
                generation_id=view.generation_id,
                about=(severity, view.generation_id),
                detail=f"{printable(view.group_id)} is {view.state}, and has rebalanced for {seconds(open_ms)} "
                f"(cause: {rebalance.trigger.cause}{by}{again}).{waits}",
                members=names if actor is None else [*names, actor],
            )
        )
