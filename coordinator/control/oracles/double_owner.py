"""One partition is two members': by one assignment, or because it was given to one while another one, who has it
and goes on reading it, learns only now that it has to give it up.

Kafka's cooperative assignor has to prevent the latter (KIP-429): a member that is to lose a partition gives it up
and rejoins before another member gets it. What a member says that it owns counts as it does for them (KIP-792):
claims of an older generation, and of two members at once, count for nothing.

Only Kafka's own assignors, and those of the coordinator (KIP-848), promise one owner for each partition. An
assignor of another name may list a partition twice on purpose: Faust lists standby replicas in the assignment.
That is a notice.
"""

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from itertools import islice
from typing import Final

from coordinator.control.oracles.finding import Finding
from coordinator.control.oracles.oracle import Hear
from coordinator.control.oracles.partitions import (
    COOPERATIVE,
    KAFKA_ASSIGNORS,
    Place,
    assigned,
    held,
    in_order,
    names_of,
    owned,
    subscribed,
)
from coordinator.control.oracles.violation import OracleName, Severity
from coordinator.control.oracles.watch import SAMPLE_MS, Watch
from coordinator.control.oracles.words import who
from coordinator.group.consumer.events import MemberReconciled
from coordinator.group.events import Event, RebalanceCompleted
from coordinator.group.group_type import GroupType
from coordinator.group.member_name import MemberName
from coordinator.group.rebalance_facts import Assigned
from coordinator.group.view import GroupView
from coordinator.net.peer import printable
from protocol.consumer_protocol import PROTOCOL_TYPE

_MOST_PARTITIONS: Final = 200_000
"""Of one generation: no more are looked at, since their names need not be those of any that there are."""
_MOST_PAIRS: Final = 10
"""Of members that have the same: an assignor that gives everything to everybody need not be told of in full."""

_Owners = dict[Place, MemberName]
_Doubles = dict[tuple[MemberName, MemberName], list[Place]]


class DoubleOwner:
    """Hears of each generation that is assigned."""

    name: Final = OracleName.DOUBLE_OWNER
    severities: Final = frozenset({Severity.VIOLATION, Severity.NOTICE})

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.hears: dict[type[Event], Hear] = {
            RebalanceCompleted: self._completed,
            MemberReconciled: self._reconciled,
        }

    def _reconciled(self, event: MemberReconciled) -> None:
        self._watch.look_in(self.name, event.group_id, SAMPLE_MS)

    def look(self, group_id: str) -> None:
        """Whether two members of a consumer group have the same, by what the group itself says: there nobody gets
        what another one has not given up."""
        view = self._watch.view(group_id)
        if view is not None and view.type is GroupType.CONSUMER:
            self._watch.judge(self._judge_members(view))

    def _judge_members(self, view: GroupView) -> Iterator[None]:
        owners: _Owners = {}
        twice: _Doubles = {}
        for member in view.members:
            for place in held(member) or ():
                other = owners.setdefault(place, member.name)
                if other is not member.name:
                    twice.setdefault((other, member.name), []).append(place)
            if len(owners) > _MOST_PARTITIONS:
                return
            yield
        for (one, other), places in islice(twice.items(), _MOST_PAIRS):
            places = in_order(places)
            self._watch.found(
                Finding(
                    oracle=self.name,
                    severity=Severity.VIOLATION,
                    group_id=view.group_id,
                    generation_id=view.generation_id,
                    about=(view.generation_id, one.member_id, other.member_id),
                    detail=f"{names_of(places)} is {who(one)}'s and {who(other)}'s in epoch {view.generation_id}.",
                    members=(one, other),
                    places=places,
                )
            )

    def _completed(self, event: RebalanceCompleted) -> None:
        if event.members and event.protocol_type == PROTOCOL_TYPE:
            self._watch.judge(self._judge(event))

    def _judge(self, event: RebalanceCompleted) -> Iterator[None]:
        owners: _Owners = {}
        twice: _Doubles = {}
        for member in event.members:
            for place in assigned(member.assignment) or ():
                other = owners.setdefault(place, member.member)
                if other is not member.member:
                    twice.setdefault((other, member.member), []).append(place)
            if len(owners) > _MOST_PARTITIONS:
                return
            yield
        if event.protocol_name not in KAFKA_ASSIGNORS:
            if twice:
                self._notice(event, twice)
            return
        for (one, other), places in islice(twice.items(), _MOST_PAIRS):
            places = in_order(places)
            said = (
                f"{names_of(places)} is assigned to {who(one)} and to {who(other)} in generation "
                f"{event.generation_id}"
            )
            self._found(event, (one, other), places, said)
        if COOPERATIVE in (event.protocol_name or ""):
            yield from self._judge_hand_over(event, owners)

    def _judge_hand_over(self, event: RebalanceCompleted, owners: _Owners) -> Iterator[None]:
        taken: _Doubles = {}
        for member, claimed in (yield from _claims(event.members)):
            had = set(assigned(member.before or b"") or ())
            for place in claimed:
                owner = owners.get(place)
                if place in had and owner is not None and owner is not member.member:
                    taken.setdefault((owner, member.member), []).append(place)
        for (owner, before), places in islice(taken.items(), _MOST_PAIRS):
            places = in_order(places)
            said = (
                f"{names_of(places)} is assigned to {who(owner)} in generation {event.generation_id}, while "
                f"{who(before)} owns it and was not told to give it up before"
            )
            self._found(event, (owner, before), places, said)

    def _notice(self, event: RebalanceCompleted, twice: _Doubles) -> None:
        """Report the shared partitions of an assignor that may share them on purpose."""
        places = in_order({place for shared in twice.values() for place in shared})
        one, other = next(iter(twice))
        assignor = printable(event.protocol_name or "")
        self._watch.found(
            Finding(
                oracle=self.name,
                severity=Severity.NOTICE,
                group_id=event.group_id,
                generation_id=event.generation_id,
                about=event.protocol_name,
                detail=f"The assignor {assignor} assigned {names_of(places)} to more than one member in generation "
                f"{event.generation_id}, for example to {who(one)} and {who(other)}. "
                f"Some assignors do so on purpose, such as for standby replicas.",
                members=(one, other),
                places=places,
            )
        )

    def _found(
        self, event: RebalanceCompleted, members: Sequence[MemberName], places: list[Place], said: str
    ) -> None:
        self._watch.found(
            Finding(
                oracle=self.name,
                severity=Severity.VIOLATION,
                group_id=event.group_id,
                generation_id=event.generation_id,
                about=(event.generation_id, *(name.member_id for name in members)),
                detail=f"{said} (assignor {event.protocol_name}).",
                members=members,
                places=places,
            )
        )


def _claims(members: Sequence[Assigned]) -> Generator[None, None, list[tuple[Assigned, list[Place]]]]:
    """What members own by their own words, as far as that counts: pairs of a member and its partitions."""
    claims = []
    for member in members:
        said = subscribed(member.metadata)
        if said is not None:
            claims.append((member, said))
        yield
    newest = max([-1, *(said.generation_id for _, said in claims)])
    counting = [(member, owned(said)) for member, said in claims if said.generation_id == newest]
    times = Counter(place for _, places in counting for place in places)
    return [(member, [place for place in places if times[place] == 1]) for member, places in counting]
