"""A group rebalances again and again, mostly because of the same member.

Five generations within a minute are not enough: when a deployment restarts its members one by one, or adds some,
each of them brings about one or two. So three of the five have to be the doing of one member, for the same reason
again: it has gone twice, say, and come back in between. It is known by its instance id, or by its client's id and
address where no other member has these. The second half of a cooperative hand-over does not count, nor does a
leader that rejoins because topics are others.
"""

from collections import Counter, deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final

from coordinator.control.oracles.double_owner import COOPERATIVE
from coordinator.control.oracles.finding import Finding
from coordinator.control.oracles.oracle import Hear
from coordinator.control.oracles.violation import Level, OracleName
from coordinator.control.oracles.watch import Watch
from coordinator.control.oracles.words import who_at
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
_STREAMS: Final = "stream"


@dataclass(frozen=True, slots=True)
class _Generation:
    """When it came, why, and whose doing it was: `key` is None where that does not count."""

    at_ms: int
    cause: RebalanceCause
    actor: MemberName | None
    key: Hashable
    topics: TopicsImage


class Flapping:
    """Hears of each generation."""

    name: Final = OracleName.FLAPPING

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._last: dict[str, deque[_Generation]] = {}
        """The last generations of the groups that had one; the latest group last."""
        self.hears: dict[type[Event], Hear] = {
            RebalanceCompleted: self._completed,
            GroupDeleted: self._deleted,
        }

    def look(self, group_id: str) -> None:
        """It never asks for one."""

    def _deleted(self, event: GroupDeleted) -> None:
        self._last.pop(event.group_id, None)

    def _completed(self, event: RebalanceCompleted) -> None:
        if not event.members:
            return
        last = self._last.pop(event.group_id, None) or deque(maxlen=GENERATIONS)
        self._last[event.group_id] = last
        if len(self._last) > MOST_GROUPS:
            del self._last[next(iter(self._last))]
        topics, trigger = self._watch.topics, event.trigger
        before = last[-1].topics if last else topics
        key = None if _is_expected(event, topics is before) else _key(event)
        last.append(_Generation(event.ended_ms, trigger.cause, trigger.actor, key, topics))
        if len(last) == GENERATIONS and event.ended_ms - last[0].at_ms <= WITHIN_MS:
            counts = Counter(generation.key for generation in last if generation.key is not None)
            for key, count in counts.most_common(1):
                if count >= BY_ONE and _repeats_itself(last, key):
                    self._found(event, last, key, count)

    def _found(self, event: RebalanceCompleted, last: deque[_Generation], key: Hashable, count: int) -> None:
        causes = dict.fromkeys(str(generation.cause) for generation in last if generation.key == key)
        actor = next(generation.actor for generation in reversed(last) if generation.key == key)
        assert actor is not None
        span_s = (event.ended_ms - last[0].at_ms) / 1000
        self._watch.found(
            Finding(
                oracle=self.name,
                level=Level.WARNING,
                group_id=event.group_id,
                generation_id=event.generation_id,
                about=key,
                detail=f"{len(last)} generations in {span_s:.1f} s, {count} of them by {who_at(actor)} "
                f"({listed(list(causes), len(causes))}).",
                members=[actor],
            )
        )


def _repeats_itself(last: Iterable[_Generation], key: Hashable) -> bool:
    causes = Counter(generation.cause for generation in last if generation.key == key)
    del causes[RebalanceCause.MEMBER_JOINED]
    return any(count >= (BY_ONE if cause in _OWN_DOING else AGAIN) for cause, count in causes.items())


def _is_expected(event: RebalanceCompleted, topics_are_the_same: bool) -> bool:
    name = event.protocol_name or ""
    is_cooperative = COOPERATIVE in name or name == _STREAMS
    return event.trigger.cause in _OWN_DOING and (is_cooperative or not topics_are_the_same)


def _key(event: RebalanceCompleted) -> Hashable:
    actor = event.trigger.actor
    if actor is None:
        return None
    if actor.group_instance_id is not None:
        return actor.group_instance_id
    client = actor.client_id, actor.client_host
    others = [*(one.member for one in event.members), *(one.member for one in event.gone)]
    is_shared = any(
        client == (name.client_id, name.client_host) and name.member_id != actor.member_id for name in others
    )
    return actor.member_id if is_shared else client
