"""A rebalance does not come to an end.

It counts in the group's time, as far as that much has passed in reality, too: a clock that is moved on says nothing
of what members have had the time to do. A group whose clock stands still is stuck after twice as long in reality.
While an empty group waits for its first members (group.initial.rebalance.delay.ms) nothing is counted.

In a consumer group nobody waits for all: there it is a member that was told to give partitions up and does not say
that it did. Time counts from when it was told.
"""

from dataclasses import dataclass
from typing import Final

from coordinator.control.oracles.finding import Finding
from coordinator.control.oracles.oracle import Hear
from coordinator.control.oracles.violation import Level, OracleName
from coordinator.control.oracles.watch import Watch
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
from coordinator.group.view import GroupView, MemberView
from coordinator.net.peer import printable
from coordinator.server.log_words import listed, seconds

REAL_FACTOR: Final = 2
_EMPTY: Final = ClassicGroupState.EMPTY.value
_COMPLETING: Final = ClassicGroupState.COMPLETING_REBALANCE.value
_REBALANCING: Final = (ClassicGroupState.PREPARING_REBALANCE.value, _COMPLETING)
_MOST_AWAITED: Final = 5


@dataclass(frozen=True, slots=True)
class _Open:
    """Since when a rebalance, or a revocation, counts: monotonic, in the group's time and in the process's."""

    group_ms: int
    real_ms: int


class StuckRebalance:
    """Looks at the groups whose rebalance is open."""

    name: Final = OracleName.STUCK_REBALANCE

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._open: dict[str, _Open] = {}
        self._revoking: dict[str, dict[str, _Open]] = {}
        """By group and member id: who has yet to give partitions up."""
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
        if group_id not in self._open:
            self._open[group_id] = self._now(group_id)
            self._watch.look_in(self.name, group_id, self._watch.config.oracle_stuck_ms)

    def _now(self, group_id: str) -> _Open:
        return _Open(self._watch.group_now(group_id).monotonic_ms, self._watch.now_ms())

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
            self._revoking.setdefault(group_id, {})[member_id] = self._now(group_id)
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

    def _left_ms(self, group_id: str, opened: _Open) -> int:
        """How long it may go on."""
        longest_ms, now = self._watch.config.oracle_stuck_ms, self._now(group_id)
        open_ms, real_ms = now.group_ms - opened.group_ms, now.real_ms - opened.real_ms
        return min(longest_ms - min(open_ms, real_ms), REAL_FACTOR * longest_ms - real_ms)

    def look(self, group_id: str) -> None:
        """Whether it is open for too long by now."""
        if group_id in self._revoking:
            self._look_at_members(group_id)
        opened = self._open.get(group_id)
        if opened is None:
            return
        real_ms = self._watch.now_ms() - opened.real_ms
        left_ms = self._left_ms(group_id, opened)
        if left_ms > 0:
            self._watch.look_in(self.name, group_id, left_ms)
            return
        view = self._watch.view(group_id)
        del self._open[group_id]
        if view is not None and view.state in _REBALANCING:
            self._found(view, real_ms)

    def _look_at_members(self, group_id: str) -> None:
        revoking = self._revoking[group_id]
        left_ms = {member_id: self._left_ms(group_id, opened) for member_id, opened in revoking.items()}
        view = self._watch.view(group_id)
        members = {} if view is None else {member.name.member_id: member for member in view.members}
        for member_id in [member_id for member_id, left in left_ms.items() if left <= 0]:
            opened, member = revoking.pop(member_id), members.get(member_id)
            if view is not None and member is not None and member.consumer and member.consumer.pending:
                self._found_revoking(view, member, self._watch.now_ms() - opened.real_ms)
        later = [left for left in left_ms.values() if left > 0]
        if later:
            self._watch.look_in(self.name, group_id, min(later))
        else:
            del self._revoking[group_id]

    def _found_revoking(self, view: GroupView, member: MemberView, open_ms: int) -> None:
        assert member.consumer is not None
        pending = sum(map(len, member.consumer.pending.values()))
        self._watch.found(
            Finding(
                oracle=self.name,
                level=Level.ERROR,
                group_id=view.group_id,
                generation_id=view.generation_id,
                about=(member.name.member_id, member.consumer.member_epoch),
                detail=f"{printable(view.group_id)} is {view.state} in epoch {view.generation_id}, and "
                f"{who(member.name)} has not given up {pending} partition{'' if pending == 1 else 's'} for "
                f"{seconds(open_ms)}.",
                members=[member.name],
            )
        )

    def _found(self, view: GroupView, open_ms: int) -> None:
        rebalance = view.rebalance
        assert rebalance is not None, view.group_id
        actor = rebalance.trigger.actor
        by = "" if actor is None else f", by {who(actor)}"
        again = f"; begun {rebalance.attempts} times" if rebalance.attempts > 1 else ""
        awaited = [f"the {one.request} of {who(one.member)}" for one in rebalance.awaited[:_MOST_AWAITED]]
        waits = f" It awaits {listed(awaited, len(rebalance.awaited))}." if awaited else ""
        names = [one.member for one in rebalance.awaited]
        self._watch.found(
            Finding(
                oracle=self.name,
                level=Level.ERROR,
                group_id=view.group_id,
                generation_id=view.generation_id,
                about=view.generation_id,
                detail=f"{printable(view.group_id)} is {view.state}, and has rebalanced for {seconds(open_ms)} "
                f"(cause: {rebalance.trigger.cause}{by}{again}).{waits}",
                members=names if actor is None else [*names, actor],
            )
        )
