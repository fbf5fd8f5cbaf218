"""A group rebalances again and again, mostly because of the same member.

Five generations within a minute are not enough: when a deployment restarts its members one by one, or adds some,
each of them brings about one or two. So three of the five have to be the doing of one member, for the same reason
again: it has gone twice, say, and come back in between. It is known by its instance id, or by its client's id and
address where no other member has these. The second half of a cooperative hand-over does not count, nor does a
leader that rejoins because topics are others.

In a consumer group (KIP-848) it is epochs that are counted, by the same rule. Whether others have the same client's
id and address was told with the last target, since every epoch of a large group cannot look at all members.
"""

from collections import Counter, deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final

from coordinator.control.oracles.finding import Finding
from coordinator.control.oracles.oracle import Hear
from coordinator.control.oracles.partitions import COOPERATIVE
from coordinator.control.oracles.violation import OracleName, Severity
from coordinator.control.oracles.watch import Watch
from coordinator.control.oracles.words import who_at
from coordinator.group.consumer.events import EpochBumped, EpochCause, TargetComputed
from coordinator.group.events import Event, GroupDeleted, RebalanceCompleted
from coordinator.group.member_name import MemberName
from coordinator.group.rebalance_facts import RebalanceCause
from coordinator.group.topics_image import TopicsImage
from coordinator.server.log_words import listed

GENERATIONS: Final = 5
WITHIN_MS: Final = 60_000
"""Of the group's time."""
BY_ONE: Final = 3
AGAIN: Final = 2
"""How often it has gone for the same reason. Who stays and rejoins by itself has to do it `BY_ONE` times."""
MOST_GROUPS: Final = 10_000
_OWN_DOING: Final = (RebalanceCause.LEADER_REJOINED, RebalanceCause.METADATA_CHANGED)
_OWN_DOING_IN_EPOCHS: Final = (EpochCause.SUBSCRIPTION_CHANGED, EpochCause.ASSIGNOR_CHANGED)
_NOBODYS_DOING: Final = (EpochCause.TOPICS_CHANGED, EpochCause.REGEX_RESOLVED)
_JOINED: Final = (RebalanceCause.MEMBER_JOINED, EpochCause.MEMBER_JOINED)
_STREAMS: Final = "stream"


@dataclass(frozen=True, slots=True)
class _Generation:
    """When it came, why, and whose doing it was: `key` is None where that does not count."""

    at_ms: int
    cause: RebalanceCause | EpochCause
    actor: MemberName | None
    key: Hashable
    topics: TopicsImage


class Flapping:
    """Hears of each generation."""

    name: Final = OracleName.FLAPPING
    severities: Final = frozenset({Severity.NOTICE})

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._last: dict[str, deque[_Generation]] = {}
        """The last generations of the groups that had one; the latest group last."""
        self._shared: dict[str, frozenset[Hashable]] = {}
        """Of consumer groups: the clients that more than one member has, where there are any."""
        self.hears: dict[type[Event], Hear] = {
            RebalanceCompleted: self._completed,
            EpochBumped: self._bumped,
            TargetComputed: self._targeted,
            GroupDeleted: self._deleted,
        }

    def look(self, group_id: str) -> None:
        """It never asks for one."""

    def _deleted(self, event: GroupDeleted) -> None:
        self._forget(event.group_id)

    def _forget(self, group_id: str) -> None:
        self._last.pop(group_id, None)
        self._shared.pop(group_id, None)

    def _targeted(self, event: TargetComputed) -> None:
        counts = Counter((one.member.client_id, one.member.client_host) for one in event.targets)
        shared = frozenset(client for client, count in counts.items() if count > 1)
        if shared and event.group_id in self._last:
            self._shared[event.group_id] = shared
        else:
            self._shared.pop(event.group_id, None)

    def _bumped(self, event: EpochBumped) -> None:
        if not event.members:
            return
        actor = None if event.cause in _NOBODYS_DOING else event.member
        key = None if actor is None else _key_among(actor, self._shared.get(event.group_id, frozenset()))
        at_ms = self._watch.group_now(event.group_id).monotonic_ms
        self._note(event, _Generation(at_ms, event.cause, actor, key, self._watch.topics))

    def _completed(self, event: RebalanceCompleted) -> None:
        if not event.members:
            return
        last = self._last.get(event.group_id)
        topics, trigger = self._watch.topics, event.trigger
        before = last[-1].topics if last else topics
        key = None if _is_expected(event, topics is before) else _key(event)
        self._note(event, _Generation(event.ended_ms, trigger.cause, trigger.actor, key, topics))

    def _note(self, event: RebalanceCompleted | EpochBumped, generation: _Generation) -> None:
        last = self._last.pop(event.group_id, None) or deque(maxlen=GENERATIONS)
        self._last[event.group_id] = last
        if len(self._last) > MOST_GROUPS:
            self._forget(next(iter(self._last)))
        last.append(generation)
        if len(last) == GENERATIONS and generation.at_ms - last[0].at_ms <= WITHIN_MS:
            counts = Counter(generation.key for generation in last if generation.key is not None)
            for key, count in counts.most_common(1):
                if count >= BY_ONE and _repeats_itself(last, key):
                    self._found(event, last, key, count)

    def _found(
        self, event: RebalanceCompleted | EpochBumped, last: deque[_Generation], key: Hashable, count: int
    ) -> None:
        causes = dict.fromkeys(str(generation.cause) for generation in last if generation.key == key)
        actor = next(generation.actor for generation in reversed(last) if generation.key == key)
        assert actor is not None
        span_s = (last[-1].at_ms - last[0].at_ms) / 1000
        kind = "epochs" if isinstance(event, EpochBumped) else "generations"
        self._watch.found(
            Finding(
                oracle=self.name,
                severity=Severity.NOTICE,
                group_id=event.group_id,
                generation_id=event.generation_id,
                about=key,
                detail=f"{len(last)} {kind} in {span_s:.1f} s, {count} of them by {who_at(actor)} "
                f"({listed(list(causes), len(causes))}).",
                members=[actor],
                subject=key,
            )
        )


def _repeats_itself(last: Iterable[_Generation], key: Hashable) -> bool:
    causes = Counter(generation.cause for generation in last if generation.key == key)
    for cause in _JOINED:
        del causes[cause]
    own_doing = (*_OWN_DOING, *_OWN_DOING_IN_EPOCHS)
    return any(count >= (BY_ONE if cause in own_doing else AGAIN) for cause, count in causes.items())


def _is_expected(event: RebalanceCompleted, topics_are_the_same: bool) -> bool:
    name = event.protocol_name or ""
    is_cooperative = COOPERATIVE in name or name == _STREAMS
    return event.trigger.cause in _OWN_DOING and (is_cooperative or not topics_are_the_same)


def _key(event: RebalanceCompleted) -> Hashable:
    actor = event.trigger.actor
    if actor is None:
        return None
    client = actor.client_id, actor.client_host
    others = [*(one.member for one in event.members), *(one.member for one in event.gone)]
    is_shared = any(
        client == (name.client_id, name.client_host) and name.member_id != actor.member_id for name in others
    )
    return _key_among(actor, frozenset([client]) if is_shared else frozenset())


def _key_among(actor: MemberName, shared: frozenset[Hashable]) -> Hashable:
    """By what it is known when it comes back. In: the clients that more than one member has."""
    if actor.group_instance_id is not None:
        return actor.group_instance_id
    client = actor.client_id, actor.client_host
    return actor.member_id if client in shared else client
