"""Faults and client restarts at random times."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tests.simulation.client import MIDDLE, NEW, OLD, Client, Settings
from tests.simulation.network import Weather
from tests.simulation.shell import Shell
from tests.simulation.world import World

GROUPS: Final = ("g", "h")
MOST_CLIENTS: Final = 7


class Faults:
    """Starts and ends clients, and breaks the network, the disk and the clock, until it is stopped."""

    def __init__(self, world: World, shell: Shell, weather: Weather) -> None:
        self.world = world
        self.shell = shell
        self.weather = weather
        self.clients: list[Client] = []
        self._born = 0
        self._stopped = False
        self.last_loss_ms = 0
        self._rate_ms = world.random.choice([300, 1_000, 4_000])
        self._menu: list[Callable[[], None]] = world.random.sample(self._all(), k=world.random.randint(4, 10))
        for _ in range(world.random.randint(1, 4)):
            self.world.after(world.random.randint(0, 500), self._start_member)
        self.world.after(self._rate_ms, self._act)

    def stop(self) -> None:
        """End all faults."""
        self._stopped = True
        self.last_loss_ms = self.world.now_ms
        self.weather.breaks = self.weather.repeats = 0.0
        self.weather.delay_ms = (0, 5)
        self.shell.sync_ms = (0, 5)
        self.shell.disk.fail_appends = self.shell.disk.fail_syncs = 0
        self.shell.paused_until_ms = 0
        self.world.say("faults", "end here")

    def alive(self) -> list[Client]:
        """The clients that are running."""
        return [client for client in self.clients if client.alive]

    # --- the menu

    def _all(self) -> list[Callable[[], None]]:
        return [
            self.shell.crash,
            lambda: self.shell.reload("the partition moves"),
            lambda: self.shell.pause(self.world.random.choice([50, 1_000, 8_000, 20_000])),
            self._set_clock_forward,
            self._fail_append,
            self._fail_sync,
            self._slow_disk,
            self._bad_network,
            self._start_member,
            self._start_member,
            self._kill,
            self._close,
            self._restart_static,
            self._restart_static,
            self._start_again_too_early,
            self._change_subscription,
        ]

    def _act(self) -> None:
        if self._stopped:
            return
        self.world.random.choice(self._menu)()
        if not self.alive():
            self._start_member()
        self.world.after(self.world.random.randint(1, 2 * self._rate_ms), self._act)

    def _set_clock_forward(self) -> None:
        span_ms = self.world.random.choice([1_000, 60_000, 3_600_000])
        self.world.say("faults", f"the clock is set forward by {span_ms} ms")
        self.shell.wall_offset_ms += span_ms

    def _fail_append(self) -> None:
        self.shell.disk.fail_appends += 1

    def _fail_sync(self) -> None:
        self.shell.disk.fail_syncs += 1

    def _slow_disk(self) -> None:
        self.shell.sync_ms = self.world.random.choice([(0, 5), (50, 200), (500, 4_000)])

    def _bad_network(self) -> None:
        chosen = self.world.random.choice(
            [(0.0, 0.0, 10), (0.02, 0.02, 100), (0.0, 0.1, 500), (0.1, 0.05, 3_000)]
        )
        self.weather.breaks, self.weather.repeats, slowest = chosen
        self.weather.delay_ms = (0, slowest)

    # --- clients

    def _start_member(self) -> None:
        if len(self.alive()) >= MOST_CLIENTS:
            return
        random = self.world.random
        versions = random.choice([OLD, MIDDLE, NEW, NEW])
        static = versions is not OLD and random.random() < 0.6
        self._born += 1
        self._start(
            Settings(
                group_id=random.choice(GROUPS),
                versions=versions,
                group_instance_id=f"i{self._born}" if static else None,
                topics=random.choice([["orders"], ["orders", "payments"]]),
                protocols=random.choice([("range", "roundrobin"), ("roundrobin", "range")]),
                session_timeout_ms=random.choice([2_000, 6_000]),
                rebalance_timeout_ms=random.choice([3_000, 8_000]),
            )
        )

    def _start(self, settings: Settings) -> None:
        self._born += 1
        name = f"c{self._born}"
        self.world.say(name, f"starts in {settings.group_id} {settings.group_instance_id or ''}")
        self.clients.append(self._client(name, settings))

    def _client(self, name: str, settings: Settings) -> Client:
        return Client(self.world, self.shell, self.weather, name, settings, self._ended)

    def _ended(self, client: Client) -> None:
        """Restart a client that gave up after a delay, as a supervisor does.

        In the quiet phase it stays down: a member without room in its group would retry for ever.
        """
        self.last_loss_ms = self.world.now_ms
        settings = replace(client.settings)
        self.world.after(1_000, lambda: self._restart(settings))

    def _restart(self, settings: Settings) -> None:
        instances = {client.settings.group_instance_id for client in self.alive()} - {None}
        if not self._stopped and settings.group_instance_id not in instances:
            self._start(settings)

    def _kill(self) -> None:
        if self.alive():
            self.world.random.choice(self.alive()).vanish()

    def _close(self) -> None:
        if self.alive():
            self.world.random.choice(self.alive()).leave()

    def _restart_static(self) -> None:
        if self._static():
            client = self.world.random.choice(self._static())
            client.vanish()
            settings = replace(client.settings)
            self.world.after(self.world.random.randint(0, 8_000), lambda: self._restart(settings))

    def _start_again_too_early(self) -> None:
        """Start a second process with the instance id of a running one, which gets fenced."""
        if self._static() and len(self.alive()) < MOST_CLIENTS:
            self._start(replace(self.world.random.choice(self._static()).settings))

    def _static(self) -> list[Client]:
        return [client for client in self.alive() if client.settings.group_instance_id is not None]

    def _change_subscription(self) -> None:
        """Change the subscription of a dynamic member.

        Static members are excluded. When one restarts with another subscription before the group learns of it,
        it gets its old assignment without a rebalance, as in Kafka.
        """
        dynamic = [client for client in self.alive() if client.settings.group_instance_id is None]
        if dynamic:
            topics = self.world.random.choice([["orders"], ["payments"], ["orders", "payments"]])
            self.world.random.choice(dynamic).subscribe(topics)
