"""Oracles for assignments: partitions with two owners, partitions without an owner, and assignments to
unknown members.

`double_owner`: a partition has two owners, by one assignment, or because it was assigned to a member while
its previous owner still reads it. Kafka's cooperative assignor prevents the latter (KIP-429): a member gives
a partition up and rejoins before another member gets it. Owned partitions count as they do for Kafka's
assignors (KIP-792): claims of an older generation, and equal claims of two members, are ignored. Only Kafka's
own assignors and those of the coordinator (KIP-848) promise one owner. An assignor with another name may list
a partition twice on purpose, as Faust lists standby replicas; that is a notice.

`orphan_partition`: a group is Stable and a subscribed partition has no owner. A cooperative assignor leaves a
moving partition unassigned at first, so its old owner has the rebalance timeout to give it up. A leader may
have metadata that is minutes old. A new or grown topic therefore counts only when the members must know of
it, and so do the topics of a group that is older than this process. An unreadable subscription or assignment
proves nothing. The finding is a notice for an assignor that is not Kafka's, for a topic that was created or
grew after the group's first generation, and for a group that is older than this process.

`assignment_of_nobody`: a leader assigns partitions to ids that are not members. It works on an old list, and
the partitions are lost.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import islice
from typing import Final

from coordinator.control.consumer_protocol_payloads import (
    COOPERATIVE,
    KAFKA_ASSIGNORS,
    PartitionKey,
    decode_partition_keys,
    decode_subscription_or_none,
    format_partitions,
    list_member_partitions,
    list_owned_partitions,
    sort_partitions,
)
from coordinator.control.diagnosis.oracle import CHECK_PERIOD_MS, EventHandler, OracleContext, format_member
from coordinator.control.diagnosis.violation import OracleFinding, OracleName, Severity
from coordinator.core.message_text import format_list, format_seconds, printable
from coordinator.core.time_budget import Budget
from coordinator.group.classic.classic_state_machine import ClassicGroupState
from coordinator.group.event_details import MemberAssignment, MemberName
from coordinator.group.group_event_types import (
    AssignmentReceived,
    GroupDeleted,
    GroupEmptied,
    GroupEvent,
    GroupLoaded,
    MemberReconciled,
    RebalanceCompleted,
    RebalanceStarted,
)
from coordinator.group.group_types import GroupType
from coordinator.group.group_view import GroupView, MemberView
from coordinator.group.member_text import shorten_member_id
from coordinator.topics.data_plane_answer import PartitionsAdded, TopicChange, TopicCreated, TopicDeleted
from protocol.consumer_protocol import PROTOCOL_TYPE, ConsumerProtocolSubscription

METADATA_MAX_AGE_MS: Final = 300_000
"""The default maximum age of a consumer's metadata in every client (metadata.max.age.ms)."""


class TopicAges:
    """The times at which topics were created or got their last partitions, in monotonic milliseconds of the
    process."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._started_ms = now_ms()
        self._changed: dict[str, int] = {}
        """The time of the last creation or growth in the life of this process, by topic."""

    def on_topics_changed(self, changes: Sequence[TopicChange]) -> None:
        """Record the times of changes that have just happened."""
        for change in changes:
            if isinstance(change, TopicCreated | PartitionsAdded):
                self._changed[change.name] = self._now_ms()
            elif isinstance(change, TopicDeleted):
                self._changed.pop(change.name, None)

    def find_since_ms(self, topic: str) -> int:
        """Return when a topic got its current partitions, or when the process started for an unchanged topic."""
        return self._changed.get(topic, self._started_ms)


_MAX_PARTITIONS: Final = 200_000
"""The maximum number of partitions per generation. An assignment can name partitions that do not exist."""
_MAX_PAIRS: Final = 10
"""The maximum number of reported pairs of members. An assignor can give every partition to every member."""

_Owners = dict[PartitionKey, MemberName]
_Doubles = dict[tuple[MemberName, MemberName], list[PartitionKey]]


class DoubleOwner:
    """Checks each new assignment for partitions with two owners."""

    name: Final = OracleName.DOUBLE_OWNER
    severities: Final = frozenset({Severity.VIOLATION, Severity.NOTICE})

    def __init__(self, context: OracleContext) -> None:
        self._context = context
        self.handlers: dict[type[GroupEvent], EventHandler] = {
            RebalanceCompleted: self._on_rebalance_completed,
            MemberReconciled: self._on_member_reconciled,
        }

    def _on_member_reconciled(self, event: MemberReconciled) -> None:
        self._context.schedule_check(self.name, event.group_id, CHECK_PERIOD_MS)

    def check_group(self, group_id: str) -> None:
        """Check a consumer group for partitions that one member has yet to revoke and another member already
        has."""
        view = self._context.find_group(group_id)
        if view is not None and view.type is GroupType.CONSUMER:
            self._context.run_long_check(partial(self._check_members, view))

    async def _check_members(self, view: GroupView, budget: Budget) -> None:
        owners: _Owners = {}
        twice: _Doubles = {}
        for member in view.members:
            for place in list_member_partitions(member) or ():
                other = owners.setdefault(place, member.name)
                if other is not member.name:
                    twice.setdefault((other, member.name), []).append(place)
            if len(owners) > _MAX_PARTITIONS:
                return
            await budget.checkpoint()
        for (one, other), places in islice(twice.items(), _MAX_PAIRS):
            places = sort_partitions(places)
            self._context.report_finding(
                OracleFinding(
                    oracle=self.name,
                    severity=Severity.VIOLATION,
                    group_id=view.group_id,
                    generation_id=view.generation_id,
                    identity=(view.generation_id, one.member_id, other.member_id),
                    detail=f"{format_partitions(places)} is {format_member(one)}'s and "
                    f"{format_member(other)}'s in epoch {view.generation_id}.",
                    members=(one, other),
                    partitions=places,
                )
            )

    def _on_rebalance_completed(self, event: RebalanceCompleted) -> None:
        if event.members and event.protocol_type == PROTOCOL_TYPE:
            self._context.run_long_check(partial(self._check_assignment, event))

    async def _check_assignment(self, event: RebalanceCompleted, budget: Budget) -> None:
        owners: _Owners = {}
        twice: _Doubles = {}
        for member in event.members:
            for place in decode_partition_keys(member.assignment) or ():
                other = owners.setdefault(place, member.member)
                if other is not member.member:
                    twice.setdefault((other, member.member), []).append(place)
            if len(owners) > _MAX_PARTITIONS:
                return
            await budget.checkpoint()
        if event.protocol_name not in KAFKA_ASSIGNORS:
            if twice:
                self._report_notice(event, twice)
            return
        for (one, other), places in islice(twice.items(), _MAX_PAIRS):
            places = sort_partitions(places)
            description = (
                f"{format_partitions(places)} is assigned to {format_member(one)} and to "
                f"{format_member(other)} in generation {event.generation_id}"
            )
            self._report_violation(event, (one, other), places, description)
        if COOPERATIVE in (event.protocol_name or ""):
            await self._check_hand_over(event, owners, budget)

    async def _check_hand_over(self, event: RebalanceCompleted, owners: _Owners, budget: Budget) -> None:
        taken: _Doubles = {}
        for member, claimed in await _read_claims(event.members, budget):
            had = set(decode_partition_keys(member.before or b"") or ())
            for place in claimed:
                owner = owners.get(place)
                if place in had and owner is not None and owner is not member.member:
                    taken.setdefault((owner, member.member), []).append(place)
        for (owner, before), places in islice(taken.items(), _MAX_PAIRS):
            places = sort_partitions(places)
            description = (
                f"{format_partitions(places)} is assigned to {format_member(owner)} in generation "
                f"{event.generation_id}, while {format_member(before)} owns it and was not asked to revoke it "
                f"before"
            )
            self._report_violation(event, (owner, before), places, description)

    def _report_notice(self, event: RebalanceCompleted, twice: _Doubles) -> None:
        """Report the shared partitions of an assignor that may share them on purpose."""
        places = sort_partitions({place for shared in twice.values() for place in shared})
        one, other = next(iter(twice))
        assignor = printable(event.protocol_name or "")
        self._context.report_finding(
            OracleFinding(
                oracle=self.name,
                severity=Severity.NOTICE,
                group_id=event.group_id,
                generation_id=event.generation_id,
                identity=event.protocol_name,
                detail=f"The assignor {assignor} assigned {format_partitions(places)} to more than one member "
                f"in generation {event.generation_id}, for example to {format_member(one)} and "
                f"{format_member(other)}. Some assignors do so on purpose, such as for standby replicas.",
                members=(one, other),
                partitions=places,
            )
        )

    def _report_violation(
        self,
        event: RebalanceCompleted,
        members: Sequence[MemberName],
        places: list[PartitionKey],
        description: str,
    ) -> None:
        self._context.report_finding(
            OracleFinding(
                oracle=self.name,
                severity=Severity.VIOLATION,
                group_id=event.group_id,
                generation_id=event.generation_id,
                identity=(event.generation_id, *(name.member_id for name in members)),
                detail=f"{description} (assignor {event.protocol_name}).",
                members=members,
                partitions=places,
            )
        )


async def _read_claims(
    members: Sequence[MemberAssignment], budget: Budget
) -> list[tuple[MemberAssignment, list[PartitionKey]]]:
    """Return the claims to owned partitions that count (KIP-792), each with the partitions of its member."""
    claims = []
    for member in members:
        subscription = decode_subscription_or_none(member.metadata)
        if subscription is not None:
            claims.append((member, subscription))
        await budget.checkpoint()
    newest = max([-1, *(subscription.generation_id for _, subscription in claims)])
    counting = [
        (member, list_owned_partitions(subscription))
        for member, subscription in claims
        if subscription.generation_id == newest
    ]
    times = Counter(place for _, places in counting for place in places)
    return [(member, [place for place in places if times[place] == 1]) for member, places in counting]


MAX_GROUPS: Final = 10_000
"""The maximum number of groups for which the oracle remembers the first generation."""
_STABLE: Final = ClassicGroupState.STABLE.value
_EMPTY: Final = ClassicGroupState.EMPTY.value


class OrphanPartition:
    """Checks a group some time after it became Stable, unless it has left that state by then."""

    name: Final = OracleName.ORPHAN_PARTITION
    severities: Final = frozenset({Severity.VIOLATION, Severity.NOTICE})

    def __init__(self, context: OracleContext, topic_ages: TopicAges) -> None:
        self._context = context
        self._topic_ages = topic_ages
        self._stable_ms: dict[str, int] = {}
        """The time at which each group to check became Stable, in monotonic milliseconds of the process."""
        self._first_ms: dict[str, int] = {}
        """The time at which a group began its first generation, if this process saw it. The newest group comes
        last."""
        self.handlers: dict[type[GroupEvent], EventHandler] = {
            RebalanceStarted: self._on_rebalance_started,
            RebalanceCompleted: self._on_rebalance_completed,
            GroupLoaded: self._on_group_loaded,
            MemberReconciled: self._on_member_reconciled,
            GroupEmptied: self._on_stable_ended,
            GroupDeleted: self._on_group_deleted,
        }

    def _on_rebalance_started(self, event: RebalanceStarted) -> None:
        self._on_stable_ended(event)
        if event.state == _EMPTY and event.generation_id == 0:
            self._first_ms.pop(event.group_id, None)
            self._first_ms[event.group_id] = self._context.now_ms()
            if len(self._first_ms) > MAX_GROUPS:
                del self._first_ms[next(iter(self._first_ms))]

    def _on_rebalance_completed(self, event: RebalanceCompleted) -> None:
        if event.members and event.protocol_type == PROTOCOL_TYPE:
            self._start_watching(event.group_id)

    def _on_member_reconciled(self, event: MemberReconciled) -> None:
        self._start_watching(event.group_id)

    def _on_group_loaded(self, event: GroupLoaded) -> None:
        if event.state == _STABLE and event.members:
            self._start_watching(event.group_id)

    def _start_watching(self, group_id: str) -> None:
        self._stable_ms[group_id] = self._context.now_ms()
        self._context.schedule_check(self.name, group_id, self._context.config.oracle_orphan_ms)

    def _on_stable_ended(self, event: GroupEvent) -> None:
        if self._stable_ms.pop(event.group_id, None) is not None:
            self._context.cancel_check(self.name, event.group_id)

    def _on_group_deleted(self, event: GroupDeleted) -> None:
        self._on_stable_ended(event)
        self._first_ms.pop(event.group_id, None)

    def check_group(self, group_id: str) -> None:
        """Start a check for partitions without an owner, if the group is still Stable."""
        view = self._context.find_group(group_id)
        if view is None or view.state != _STABLE or view.protocol_type != PROTOCOL_TYPE:
            self._stable_ms.pop(group_id, None)
        else:
            stable_ms = self._stable_ms.get(group_id)
            if stable_ms is not None:
                self._context.run_long_check(partial(self._check_owners, view, stable_ms))

    async def _check_owners(self, view: GroupView, stable_ms: int, budget: Budget) -> None:
        """Check the owners in `view`. A change of the group's `stable_ms` by another rebalance ends the check."""
        by_name = self._context.topics.by_name
        topics: set[str] = set()
        taken: set[PartitionKey] = set()
        claims: list[tuple[MemberView, ConsumerProtocolSubscription]] = []
        for member in view.members:
            subscription = decode_subscription_or_none(member.metadata) if member.consumer is None else None
            wanted = _read_subscribed_topics(member, subscription)
            has = list_member_partitions(member)
            if wanted is None or has is None:
                if self._stable_ms.get(view.group_id) == stable_ms:
                    del self._stable_ms[view.group_id]
                return
            topics.update(topic for topic in wanted if topic in by_name)
            taken.update(
                place for place in has if place[0] in by_name and place[1] < by_name[place[0]].partitions
            )
            if subscription is not None and subscription.owned_partitions:
                claims.append((member, subscription))
            await budget.checkpoint()
        orphans = [
            (topic, number)
            for topic in topics
            for number in range(by_name[topic].partitions)
            if (topic, number) not in taken
        ]
        if stable_ms != self._stable_ms.get(view.group_id):
            return
        if not orphans:
            del self._stable_ms[view.group_id]
            return
        handed_over = {
            place: member for member, subscription in claims for place in list_owned_partitions(subscription)
        }
        due_ms = {
            place: max(
                stable_ms + self._context.config.oracle_orphan_ms,
                self._find_known_ms(view, place[0]),
                stable_ms + handed_over[place].rebalance_timeout_ms if place in handed_over else 0,
            )
            for place in orphans
        }
        now_ms = self._context.now_ms()
        late = sort_partitions(place for place in orphans if due_ms[place] <= now_ms)
        if late:
            del self._stable_ms[view.group_id]
            sure = [place for place in late if self._must_be_assigned(view, place[0])]
            self._report(view, sure or late, now_ms - stable_ms, is_sure=bool(sure))
        else:
            self._context.schedule_check(self.name, view.group_id, min(due_ms.values()) - now_ms)

    def _find_known_ms(self, view: GroupView, topic: str) -> int:
        """Return the time by which a group must know all partitions of a topic. A consumer group learns of them
        with a heartbeat within the session timeout, a classic group when its members refresh their metadata."""
        since_ms = self._topic_ages.find_since_ms(topic)
        if view.type is GroupType.CONSUMER:
            session_ms = max((member.session_timeout_ms for member in view.members), default=0)
            return since_ms + session_ms + self._context.config.oracle_orphan_ms
        return 0 if self._is_younger_than(view, since_ms) else since_ms + METADATA_MAX_AGE_MS

    def _is_younger_than(self, view: GroupView, since_ms: int) -> bool:
        first_ms = self._first_ms.get(view.group_id)
        return first_ms is not None and first_ms >= since_ms

    def _must_be_assigned(self, view: GroupView, topic: str) -> bool:
        """Return whether the assignor must assign all partitions of a topic. A classic assignor must do so if the
        group is younger than the last change of the topic: its members have then fetched the metadata since."""
        if view.type is GroupType.CONSUMER:
            return True
        return view.protocol_name in KAFKA_ASSIGNORS and self._is_younger_than(
            view, self._topic_ages.find_since_ms(topic)
        )

    def _report(
        self, view: GroupView, late: list[PartitionKey], stable_for_ms: int, *, is_sure: bool
    ) -> None:
        leader = next(
            (member.name for member in view.members if member.name.member_id == view.leader_id), None
        )
        description = (
            f"No member owns {format_partitions(late)}, to which members subscribe: the group is Stable since "
            f"{format_seconds(stable_for_ms)} in generation {view.generation_id}"
        )
        by = (
            ""
            if leader is None
            else f", assigned by {format_member(leader)} ({printable(view.protocol_name or '')})"
        )
        self._context.report_finding(
            OracleFinding(
                oracle=self.name,
                severity=Severity.VIOLATION if is_sure else Severity.NOTICE,
                group_id=view.group_id,
                generation_id=view.generation_id,
                identity=view.generation_id,
                detail=f"{description}{by}.",
                members=() if leader is None else (leader,),
                partitions=late,
            )
        )


def _read_subscribed_topics(
    member: MemberView, subscription: ConsumerProtocolSubscription | None
) -> Collection[str] | None:
    """Return the topics that a member subscribes to, or None if they cannot be read."""
    if member.consumer is not None:
        return member.consumer.topics
    return None if subscription is None else subscription.topics


_MAX_NAMED: Final = 5


class AssignmentToUnknownMember:
    """Checks each assignment that a leader sends for ids that are not members."""

    name: Final = OracleName.ASSIGNMENT_OF_NOBODY
    severities: Final = frozenset({Severity.NOTICE})

    def __init__(self, context: OracleContext) -> None:
        self._context = context
        self.handlers: dict[type[GroupEvent], EventHandler] = {
            AssignmentReceived: self._on_assignment_received
        }

    def check_group(self, group_id: str) -> None:
        """This oracle schedules no check."""

    def _on_assignment_received(self, event: AssignmentReceived) -> None:
        if not event.strangers:
            return
        view = self._context.find_group(event.group_id)
        if view is None or view.protocol_type != PROTOCOL_TYPE:
            return
        ids = [printable(shorten_member_id(member_id)) for member_id in event.strangers[:_MAX_NAMED]]
        self._context.report_finding(
            OracleFinding(
                oracle=self.name,
                severity=Severity.NOTICE,
                group_id=event.group_id,
                generation_id=event.generation_id,
                identity=event.generation_id,
                detail=f"{format_member(event.member)}, the leader, assigns partitions to "
                f"{format_list(ids, len(event.strangers))} in generation {event.generation_id}, which are not "
                f"members.",
                members=[event.member],
                subject=event.member.member_id,
            )
        )
