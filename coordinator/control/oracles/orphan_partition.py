"""A group is Stable, and a partition that its members subscribe to is nobody's.

Not everything without an owner is one. A cooperative assignor gives what moves to nobody at first, until its old
owner has given it up and rejoins: for that the owner has its rebalance timeout. A leader assigns what its
metadata knows, and that may be minutes old: a topic that was made or has grown while the group had members counts
when those must know of it, and so do the topics of a group that was there before this process. Where a member's
subscription or assignment cannot be read, nothing is known.

An assignor other than Kafka's may leave partitions out: then it is a notice. It is also a notice where the topic
was created or grew after the group's first generation, or where the group is older than this process: a client
may keep its metadata for longer than the default.
"""

from collections.abc import Collection, Iterator
from typing import Final

from coordinator.control.oracles.finding import Finding
from coordinator.control.oracles.oracle import Hear
from coordinator.control.oracles.partitions import (
    KAFKA_ASSIGNORS,
    Place,
    held,
    in_order,
    names_of,
    owned,
    subscribed,
)
from coordinator.control.oracles.topic_ages import METADATA_MAX_AGE_MS, TopicAges
from coordinator.control.oracles.violation import OracleName, Severity
from coordinator.control.oracles.watch import Watch
from coordinator.control.oracles.words import who
from coordinator.group.consumer.events import MemberReconciled
from coordinator.group.events import (
    Event,
    GroupDeleted,
    GroupEmptied,
    GroupLoaded,
    RebalanceCompleted,
    RebalanceStarted,
)
from coordinator.group.group_type import GroupType
from coordinator.group.state import ClassicGroupState
from coordinator.group.view import GroupView, MemberView
from coordinator.net.peer import printable
from protocol.consumer_protocol import PROTOCOL_TYPE, ConsumerProtocolSubscription

MOST_GROUPS: Final = 10_000
"""The number of groups of which the first generation is remembered."""
_STABLE: Final = ClassicGroupState.STABLE.value
_EMPTY: Final = ClassicGroupState.EMPTY.value


class OrphanPartition:
    """Looks at a group some time after it became Stable, unless it has gone on by then."""

    name: Final = OracleName.ORPHAN_PARTITION
    severities: Final = frozenset({Severity.VIOLATION, Severity.NOTICE})

    def __init__(self, watch: Watch, ages: TopicAges) -> None:
        self._watch = watch
        self._ages = ages
        self._stable_ms: dict[str, int] = {}
        """Since when the groups that are to be looked at are Stable; monotonic, the process's time."""
        self._first_ms: dict[str, int] = {}
        """When groups began their first generation, if this process saw it; the newest last."""
        self.hears: dict[type[Event], Hear] = {
            RebalanceStarted: self._started,
            RebalanceCompleted: self._completed,
            GroupLoaded: self._loaded,
            MemberReconciled: self._reconciled,
            GroupEmptied: self._ended,
            GroupDeleted: self._deleted,
        }

    def _started(self, event: RebalanceStarted) -> None:
        self._ended(event)
        if event.state == _EMPTY and event.generation_id == 0:
            self._first_ms.pop(event.group_id, None)
            self._first_ms[event.group_id] = self._watch.now_ms()
            if len(self._first_ms) > MOST_GROUPS:
                del self._first_ms[next(iter(self._first_ms))]

    def _completed(self, event: RebalanceCompleted) -> None:
        if event.members and event.protocol_type == PROTOCOL_TYPE:
            self._begin(event.group_id)

    def _reconciled(self, event: MemberReconciled) -> None:
        self._begin(event.group_id)

    def _loaded(self, event: GroupLoaded) -> None:
        if event.state == _STABLE and event.members:
            self._begin(event.group_id)

    def _begin(self, group_id: str) -> None:
        self._stable_ms[group_id] = self._watch.now_ms()
        self._watch.look_in(self.name, group_id, self._watch.config.oracle_orphan_ms)

    def _ended(self, event: Event) -> None:
        if self._stable_ms.pop(event.group_id, None) is not None:
            self._watch.look_no_more(self.name, event.group_id)

    def _deleted(self, event: GroupDeleted) -> None:
        self._ended(event)
        self._first_ms.pop(event.group_id, None)

    def look(self, group_id: str) -> None:
        """Whether a partition has no owner by now."""
        view = self._watch.view(group_id)
        if view is None or view.state != _STABLE or view.protocol_type != PROTOCOL_TYPE:
            self._stable_ms.pop(group_id, None)
        else:
            self._watch.judge(self._judge(view))

    def _judge(self, view: GroupView) -> Iterator[None]:
        stable_ms = self._stable_ms.get(view.group_id)
        by_name = self._watch.topics.by_name
        topics: set[str] = set()
        taken: set[Place] = set()
        claims: list[tuple[MemberView, ConsumerProtocolSubscription]] = []
        for member in view.members:
            said = subscribed(member.metadata) if member.consumer is None else None
            wanted = _wanted(member, said)
            has = held(member)
            if wanted is None or has is None:
                self._stable_ms.pop(view.group_id, None)
                return
            topics.update(topic for topic in wanted if topic in by_name)
            taken.update(
                place for place in has if place[0] in by_name and place[1] < by_name[place[0]].partitions
            )
            if said is not None and said.owned_partitions:
                claims.append((member, said))
            yield
        orphans = [
            (topic, number)
            for topic in topics
            for number in range(by_name[topic].partitions)
            if (topic, number) not in taken
        ]
        if stable_ms is None or stable_ms != self._stable_ms.get(view.group_id):
            return
        if not orphans:
            del self._stable_ms[view.group_id]
            return
        handed_over = {place: member for member, said in claims for place in owned(said)}
        due_ms = {
            place: max(
                stable_ms + self._watch.config.oracle_orphan_ms,
                self._known_ms(view, place[0]),
                stable_ms + handed_over[place].rebalance_timeout_ms if place in handed_over else 0,
            )
            for place in orphans
        }
        now_ms = self._watch.now_ms()
        late = in_order(place for place in orphans if due_ms[place] <= now_ms)
        if late:
            del self._stable_ms[view.group_id]
            sure = [place for place in late if self._must_be_assigned(view, place[0])]
            self._found(view, sure or late, now_ms - stable_ms, is_sure=bool(sure))
        else:
            self._watch.look_in(self.name, view.group_id, min(due_ms.values()) - now_ms)

    def _known_ms(self, view: GroupView, topic: str) -> int:
        """When a group knows of all partitions of a topic, at the latest: a consumer group does with its next
        heartbeat, which comes within a session, others when their members do."""
        since_ms = self._ages.since_ms(topic)
        if view.type is GroupType.CONSUMER:
            session_ms = max((member.session_timeout_ms for member in view.members), default=0)
            return since_ms + session_ms + self._watch.config.oracle_orphan_ms
        return 0 if self._is_younger_than(view, since_ms) else since_ms + METADATA_MAX_AGE_MS

    def _is_younger_than(self, view: GroupView, since_ms: int) -> bool:
        first_ms = self._first_ms.get(view.group_id)
        return first_ms is not None and first_ms >= since_ms

    def _must_be_assigned(self, view: GroupView, topic: str) -> bool:
        """Whether the assignor promises to assign all partitions of a topic, and certainly knows all of them: the
        members of a group that is younger than the topic's last change have fetched its metadata since."""
        if view.type is GroupType.CONSUMER:
            return True
        return view.protocol_name in KAFKA_ASSIGNORS and self._is_younger_than(
            view, self._ages.since_ms(topic)
        )

    def _found(self, view: GroupView, late: list[Place], stable_for_ms: int, *, is_sure: bool) -> None:
        leader = next(
            (member.name for member in view.members if member.name.member_id == view.leader_id), None
        )
        said = (
            f"Nobody has {names_of(late)}, to which members subscribe: the group is Stable since "
            f"{stable_for_ms / 1000:.1f} s in generation {view.generation_id}"
        )
        by = "" if leader is None else f", assigned by {who(leader)} ({printable(view.protocol_name or '')})"
        self._watch.found(
            Finding(
                oracle=self.name,
                severity=Severity.VIOLATION if is_sure else Severity.NOTICE,
                group_id=view.group_id,
                generation_id=view.generation_id,
                about=view.generation_id,
                detail=f"{said}{by}.",
                members=() if leader is None else (leader,),
                places=late,
            )
        )


def _wanted(member: MemberView, said: ConsumerProtocolSubscription | None) -> Collection[str] | None:
    """The topics that a member subscribes to; None where that cannot be read."""
    if member.consumer is not None:
        return member.consumer.topics
    return None if said is None else said.topics
