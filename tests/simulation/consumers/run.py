"""One run: a number of steps with faults, then a quiet phase, then the expected state of the groups."""

from collections.abc import Callable
from typing import Final
from unittest.mock import patch

from coordinator.group.consumer import target_assignment
from coordinator.group.group_shard import GroupShard
from coordinator.group.group_types import GroupType
from coordinator.group.group_view import GroupView
from protocol.records.group_record_schemas import ConsumerGroupTargetAssignmentMetadataKey
from tests.group.config import consumer_group_config, group_config
from tests.simulation.checks import Violation, demand
from tests.simulation.consumers.checks import ConsumerChecks
from tests.simulation.consumers.faults import ConsumerFaults
from tests.simulation.consumers.member import ClassicMember, ConsumerMember, Member
from tests.simulation.consumers.shell import ConsumerShell
from tests.simulation.consumers.topics import Topics
from tests.simulation.faults import GROUPS
from tests.simulation.network import Weather
from tests.simulation.run import Failed
from tests.simulation.visitors import Administrator, SimpleConsumer
from tests.simulation.world import World

POLICIES: Final = ("bidirectional", "bidirectional", "bidirectional", "upgrade", "downgrade", "disabled")
SESSION_MS: Final = 6_000
SETTLES_MS: Final = 60_000
"""The time in which a group settles after the last fault: a session timeout, ten seconds between resolutions of
expressions, the interval between targets, and up to two rebalances."""
STAYS_MS: Final = 12_000
"""The time in which a settled group must not change. It includes another resolution of expressions."""


class ConsumerSimulation:
    """One run with consumer groups: its world, shell, members, faults and checks."""

    def __init__(
        self,
        seed: int,
        shard: Callable[..., GroupShard] = GroupShard,
        shell: type[ConsumerShell] = ConsumerShell,
        show: Callable[[str], None] | None = None,
    ) -> None:
        self.seed = seed
        self.world = World(seed, show)
        random = self.world.random
        config = group_config(
            group_min_session_timeout_ms=1_000,
            group_initial_rebalance_delay_ms=random.choice([0, 500]),
            offsets_retention_minutes=random.choice([1, 10_080]),
            offsets_retention_check_interval_ms=random.choice([5_000, 600_000]),
        )
        consumer_config = consumer_group_config(
            group_consumer_session_timeout_ms=SESSION_MS,
            group_consumer_min_session_timeout_ms=SESSION_MS,
            group_consumer_heartbeat_interval_ms=1_500,
            group_consumer_min_heartbeat_interval_ms=1_500,
            group_consumer_assignment_interval_ms=random.choice([0, 1_000, 3_000]),
            group_consumer_min_assignment_interval_ms=0,
            group_consumer_max_size=random.choice([3, 100, 100]),
            group_consumer_migration_policy=random.choice(POLICIES),
        )
        self.inline_max = random.choice([0, 20, target_assignment.INLINE_MAX])
        self.checks = ConsumerChecks(config)
        self.topics = Topics(self.world)
        self.shell = shell(self.world, config, shard, self.checks, consumer_config, self.topics)
        self.weather = Weather()
        self.faults = ConsumerFaults(self.world, self.shell, self.weather, self.topics, self._grown)
        self.simple = SimpleConsumer(self.world, self.shell, self.weather, "simple")
        self.admin = Administrator(self.world, self.shell, self.weather, "admin")
        self.admin.groups = GROUPS
        self.simple.act()
        self.admin.act()

    def run(self, steps: int) -> None:
        """Play the whole run. Raises Failed with seed and step if it violates an invariant."""
        try:
            with patch.object(target_assignment, "INLINE_MAX", self.inline_max):
                while self.world.steps < steps:
                    self.world.step()
                self._become_quiet()
        except AssertionError as error:
            trace = "\n".join(self.world.trace)
            kind = "violation" if isinstance(error, Violation) else "assertion"
            where = f"seed {self.seed}, step {self.world.steps}"
            raise Failed(f"{trace}\n{where}: {kind}: {error}") from error

    def _grown(self, member: Member) -> None:
        self.checks.grown(member, self.faults.alive(), self.shell.shard)

    def _become_quiet(self) -> None:
        """End all faults, and check that every group settles and then stays unchanged."""
        self.faults.stop()
        self.admin.alive = self.simple.alive = False
        end_ms = self.world.now_ms + SETTLES_MS
        epochs, since_ms = self._epochs(), self.world.now_ms
        while self.world.now_ms < since_ms + STAYS_MS:
            problem = self._unsettled()
            demand(self.world.now_ms < end_ms, problem or f"epochs go on changing: {epochs}")
            self._pass(1_000)
            later = self._epochs()
            if problem or any(later.get(group_id, epoch) != epoch for group_id, epoch in epochs.items()):
                epochs, since_ms = later, self.world.now_ms
        for client in self.faults.alive():
            client.fetch()
        self._pass(1_000)
        self.checks.quiet(self.shell.disk)

    def _pass(self, span_ms: int) -> None:
        end = self.world.now_ms + span_ms
        while self.world.step(until_ms=end):
            pass
        self.world.now_ms = end

    def _epochs(self) -> dict[str, int]:
        views = {group_id: self._view(group_id) for group_id in GROUPS}
        return {group_id: view.generation_id for group_id, view in views.items() if view is not None}

    def _view(self, group_id: str) -> GroupView | None:
        return None if self.shell.shard is None else self.shell.shard.view_group(group_id, self.shell.now())

    def _has_target(self, group_id: str) -> bool:
        """Return whether the group computed a target after its conversion to a consumer group.

        A group that was converted in the middle of a rebalance keeps the members' partitions. They may be
        incomplete until the next reason for a new target, as in Kafka.
        """
        assert self.shell.shard is not None
        durable = self.shell.shard.snapshot_durable().get(group_id)
        return durable is not None and any(
            isinstance(fact.key, ConsumerGroupTargetAssignmentMetadataKey)
            and fact.value.assignment_timestamp > 0
            for fact in durable.consumer
        )

    def _unsettled(self) -> str:
        """Return why a group has not settled, "" if all groups have settled."""
        if self.shell.shard is None:
            return "the partition is not loaded"
        for group_id in GROUPS:
            view = self._view(group_id)
            members = [one for one in self.faults.alive() if one.settings.group_id == group_id]
            problem = _unsettled(view, members, self.topics)
            speak = {type(member) for member in members}
            if not problem and ConsumerMember in speak and self._has_target(group_id):
                problem = _unassigned(view, members, self.topics)
            if problem:
                return f"{group_id} is {'gone' if view is None else view.state}: {problem}"
            told = self.checks.told_epoch(group_id)
            if view is not None and view.generation_id < told:
                return f"{group_id}: epoch {view.generation_id}, but members were told {told}"
        return ""


def _unsettled(view: GroupView | None, members: list[Member], topics: Topics) -> str:
    if view is None or not members:
        return (
            ""
            if not members and (view is None or view.state in ("Empty", "Dead"))
            else "who runs is no member"
        )
    known = {member.name.member_id for member in view.members}
    running = {member.member_id for member in members}
    is_classic = view.type is GroupType.CLASSIC
    if known == running and not is_classic and all(isinstance(member, ClassicMember) for member in members):
        # Members of the classic protocol alone compute no target; the next one that joins does, as in Kafka.
        return ""
    if view.state != "Stable" or known != running:
        return f"{sorted(known)} are members, {sorted(running)} run"
    if is_classic:
        return "" if all(member.stable for member in members) else "a member has no assignment"
    if view.generation_id != view.assignment_epoch:
        return f"the target is of epoch {view.assignment_epoch}, not of {view.generation_id}"
    has: dict[str, frozenset[tuple[bytes, int]]] = {}
    for one in view.members:
        assert one.consumer is not None
        if one.consumer.assigned != one.consumer.target or one.consumer.pending:
            return f"{one.name.member_id} is not at its target"
        has[one.name.member_id] = frozenset(
            (topics.image.by_name[name].topic_id, number)
            for name, numbers in one.consumer.assigned.items()
            for number in numbers
        )
    for member in members:
        reborn = {
            topics.image.by_name[name].topic_id for name in topics.reborn if name in topics.image.by_name
        }
        hidden = reborn if isinstance(member, ClassicMember) else set()
        seen = {place for place in has[member.member_id] if place[0] not in hidden}
        if member.owns != seen:
            return f"{member.name} has {sorted(member.owns)}, and is to have {sorted(seen)}"
    return ""


def _unassigned(view: GroupView | None, members: list[Member], topics: Topics) -> str:
    """Check that every subscribed partition is assigned to exactly one member."""
    read = set[str]().union(*(_subscription(member, topics) for member in members))
    held = [
        (topics.image.by_name[name].topic_id, number)
        for one in (view.members if view is not None else ())
        if one.consumer is not None
        for name, numbers in one.consumer.assigned.items()
        for number in numbers
    ]
    owed = [
        (topic.topic_id, number)
        for name, topic in topics.image.by_name.items()
        if name in read
        for number in range(topic.partitions)
    ]
    return "" if sorted(held) == sorted(owed) else f"{sorted(held)} are assigned, not {sorted(owed)}"


def _subscription(member: Member, topics: Topics) -> set[str]:
    regex = member.settings.regex
    if isinstance(member, ClassicMember) or regex is None:
        return set(member.settings.topics)
    prefix = regex.removesuffix(".*").removesuffix(".+")
    return {name for name in topics.image.by_name if name.startswith(prefix)}
