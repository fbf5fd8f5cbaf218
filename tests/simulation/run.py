"""One run: a number of steps with faults, then a quiet phase, then the final checks."""

from collections.abc import Callable
from typing import Any, Final

from coordinator.group.group_shard import GroupShard
from protocol.consumer_protocol import decode_assignment
from protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from tests.group.config import group_config
from tests.simulation.checks import Checks, Violation, demand
from tests.simulation.client import PARTITIONS, REQUEST_TIMEOUT_MS, Client
from tests.simulation.faults import GROUPS, Faults
from tests.simulation.network import Weather
from tests.simulation.shell import Shell
from tests.simulation.visitors import Administrator, SimpleConsumer
from tests.simulation.world import World

LONGEST_SESSION_MS: Final = 6_000
LONGEST_REBALANCE_MS: Final = 8_000
SLACK_MS: Final = 3_000


class Failed(Exception):
    """A run violated an invariant; the message has the seed and the last lines of the run."""


class Simulation:
    """One run: its world, shell, clients, faults and checks."""

    def __init__(
        self,
        seed: int,
        shard: Callable[..., GroupShard] = GroupShard,
        shell: Callable[..., Any] = Shell,
        show: Callable[[str], None] | None = None,
        faults: Callable[..., Faults] = Faults,
    ) -> None:
        """Prepare a run with factories for the shell, or its substitute, and for its faults."""
        self.seed = seed
        self.world = World(seed, show)
        random = self.world.random
        self.config = group_config(
            group_min_session_timeout_ms=1_000,
            group_initial_rebalance_delay_ms=random.choice([0, 500, 3_000]),
            group_max_size=random.choice([3, 100, 100]),
            offsets_retention_minutes=random.choice([1, 10_080]),
            offsets_retention_check_interval_ms=random.choice([5_000, 600_000]),
        )
        self.checks = Checks(self.config)
        self.shell = shell(self.world, self.config, shard, self.checks)
        self.weather = Weather()
        self.faults = faults(self.world, self.shell, self.weather)
        self.simple = SimpleConsumer(self.world, self.shell, self.weather, "simple")
        self.admin = Administrator(self.world, self.shell, self.weather, "admin")
        self.admin.groups = GROUPS
        self.simple.act()
        self.admin.act()
        self._seen: list[DescribedGroup] = []

    def run(self, steps: int) -> None:
        """Play the whole run. Raises Failed with seed and step if it violates an invariant."""
        try:
            while self.world.steps < steps:
                self.world.step()
            self._become_quiet()
        except AssertionError as error:
            trace = "\n".join(self.world.trace)
            kind = "violation" if isinstance(error, Violation) else "assertion"
            where = f"seed {self.seed}, step {self.world.steps}"
            raise Failed(f"{trace}\n{where}: {kind}: {error}") from error

    def _become_quiet(self) -> None:
        """Stop all faults and wait until every group is stable and no request is pending."""
        self.faults.stop()
        self.admin.alive = False
        # The bound counts from the last loss of a client. A rebalance in progress ends within its timeout. The lost
        # member expires within a session timeout (the session of a silent static member restarts with the
        # generation). The rebalance after that ends within its timeout.
        bound_ms = LONGEST_SESSION_MS + 2 * LONGEST_REBALANCE_MS + SLACK_MS
        while self.world.now_ms < self.faults.last_loss_ms + bound_ms:
            self._pass(self.faults.last_loss_ms + bound_ms - self.world.now_ms)
        self.simple.alive = False
        for client in self.faults.alive():
            client.fetch()
        self._describe()
        if not self._seen:  # the administrator asked a former coordinator
            self._describe()
        demand(len(self._seen) == len(GROUPS), "the administrator gets no answer")
        for group in self._seen:
            members = [client for client in self.faults.alive() if client.settings.group_id == group.group_id]
            check_settled(group, members)
        self.checks.quiet(self.shell.disk)

    def _pass(self, span_ms: int) -> None:
        end = self.world.now_ms + span_ms
        while self.world.step(until_ms=end):
            pass
        self.world.now_ms = end

    def _describe(self) -> None:
        def look(response: object) -> None:
            if isinstance(response, DescribeGroupsResponse):
                self._seen = response.groups

        self.admin.call(DescribeGroupsRequest(groups=list(GROUPS)), 5, look, REQUEST_TIMEOUT_MS)
        self._pass(REQUEST_TIMEOUT_MS // 3)


def check_settled(group: DescribedGroup, clients: list[Client]) -> None:
    """Check that a group is Stable with exactly the running clients, and that exactly one of them has each
    partition.
    """
    if not clients:
        demand(
            group.group_state in ("Empty", "Dead"), f"{group.group_id}: {group.group_state}, nobody is left"
        )
        return
    where = f"{group.group_id} is {group.group_state}"
    demand(group.group_state == "Stable", f"{where} with {[client.name for client in clients]}")
    known = {member.member_id for member in group.members}
    running = {client.member_id for client in clients}
    demand(known == running, f"{where}: {sorted(known)} are members, {sorted(running)} run")
    dealt = [
        (topic.topic, number)
        for member in group.members
        if member.member_assignment
        for topic in decode_assignment(member.member_assignment).assigned_partitions
        for number in topic.partitions
    ]
    topics = {topic for client in clients for topic in client.settings.topics}
    owed = sorted((topic, number) for topic in topics for number in range(PARTITIONS[topic]))
    demand(sorted(dealt) == owed, f"{where}: {sorted(dealt)} are assigned, not {owed}")
