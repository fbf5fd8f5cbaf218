"""Faults of consumer groups and actions on their members."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from tests.simulation.client import MIDDLE, NEW, Client, Settings
from tests.simulation.consumers.member import (
    ClassicMember,
    ConsumerMember,
    CooperativeMember,
    Member,
    MemberSettings,
)
from tests.simulation.consumers.shell import ConsumerShell
from tests.simulation.consumers.topics import Topics
from tests.simulation.faults import GROUPS, MOST_CLIENTS, Faults
from tests.simulation.network import Weather
from tests.simulation.world import World

REGEXES: Final = ("orders.*", "pay.+", ".*")
REBALANCE_MS: Final = (3_000, 8_000)


class ConsumerFaults(Faults):
    """The faults of every simulation, changes of topics, failures of background work, and members that revoke late
    or return with the other protocol.
    """

    clients: list[Any]
    shell: ConsumerShell

    def __init__(
        self,
        world: World,
        shell: ConsumerShell,
        weather: Weather,
        topics: Topics,
        grown: Callable[[Member], None],
    ) -> None:
        self.topics = topics
        self._grown = grown
        self._is_quiet = False
        self._classic_share = world.random.choice([0.0, 0.4, 0.4, 0.7, 1.0])
        super().__init__(world, shell, weather)
        self._menu += [self._convert, self._convert, self.topics.make_or_grow]

    def stop(self) -> None:
        super().stop()
        self.shell.work_ms, self.shell.work_fails = (0, 50), 0.0
        self._is_quiet = True
        for client in self.alive():
            client.settings.lag_ms = 0
            client.agree()

    def alive(self) -> list[Any]:
        return super().alive()

    def _all(self) -> list[Callable[[], None]]:
        return [
            *super()._all(),
            self.topics.make_or_grow,
            self.topics.delete,
            self._lag,
            self._slow_work,
            self._convert,
            self._convert,
        ]

    def _lag(self) -> None:
        """Make a member revoke partitions slowly, possibly too late."""
        if self.alive():
            self.world.random.choice(self.alive()).settings.lag_ms = self.world.random.choice(
                [500, 2_500, 9_000]
            )

    def _slow_work(self) -> None:
        self.shell.work_ms = self.world.random.choice([(0, 50), (100, 1_000), (500, 3_000)])
        self.shell.work_fails = self.world.random.choice([0.0, 0.3])

    def _start_member(self) -> None:
        if len(self.alive()) >= MOST_CLIENTS:
            return
        random = self.world.random
        self._born += 1
        speaks_classic = random.random() < self._classic_share
        self._start(
            MemberSettings(
                group_id=random.choice(GROUPS),
                versions=random.choice([MIDDLE, NEW, NEW]),
                group_instance_id=f"i{self._born}" if random.random() < 0.4 else None,
                topics=random.choice([["orders"], ["orders", "payments"], ["orders", "orders-late"]]),
                protocols=random.choice([("range", "roundrobin"), ("roundrobin", "range")]),
                session_timeout_ms=random.choice([2_000, 6_000]),
                rebalance_timeout_ms=random.choice(REBALANCE_MS),
                speaks_classic=speaks_classic,
                is_cooperative=random.random() < 0.5,
                regex=random.choice(REGEXES) if random.random() < 0.25 else None,
                assignor=random.choice([None, None, "range", "uniform"]),
                lag_ms=random.choice([0, 0, 100, 1_000]),
            )
        )

    def _client(self, name: str, settings: Settings) -> Client:
        assert isinstance(settings, MemberSettings)
        kind: type[Member] = ConsumerMember
        if settings.speaks_classic:
            kind = CooperativeMember if settings.is_cooperative else ClassicMember
        member = kind(
            self.world, self.shell, self.weather, name, settings, self._ended, self.topics, self._grown
        )
        if self._is_quiet:
            member.agree()
        return member

    def _convert(self) -> None:
        """Close a member, and start it again with the other protocol."""
        if self.alive():
            client = self.world.random.choice(self.alive())
            client.leave()
            settings = replace(client.settings, speaks_classic=not client.settings.speaks_classic)
            self.world.after(self.world.random.randint(0, 1_000), lambda: self._restart(settings))
