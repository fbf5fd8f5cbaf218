"""One run: a period with faults, then a quiet phase, then the final checks."""

from collections.abc import Callable
from typing import Final

from coordinator.transactions.transaction_records import TransactionRecordCodec, build_fact
from coordinator.transactions.transaction_state_machine import EMPTY, STATUSES
from protocol.records.transaction_state import TransactionLogValue
from tests.group.config import group_config
from tests.simulation.checks import Violation, demand
from tests.simulation.network import Weather
from tests.simulation.run import Failed
from tests.simulation.transactions.checks import Checks
from tests.simulation.transactions.groups import Groups
from tests.simulation.transactions.partition import Partition
from tests.simulation.transactions.producer import Producer
from tests.simulation.transactions.readers import Readers
from tests.simulation.transactions.server import NAMES, Parts, Server
from tests.simulation.world import World
from tests.transactions.config import transaction_config

IDS: Final = ("t", "u", "v")
LONGEST_TRANSACTION_MS: Final = 10_000
SETTLING_MS: Final = 3 * LONGEST_TRANSACTION_MS
NEARLY_USED_UP: Final = 32_760


class Simulation:
    """One run with transactions: its world, server, producers, readers, faults and checks."""

    def __init__(
        self, seed: int, parts: Parts | None = None, show: Callable[[str], None] | None = None
    ) -> None:
        self.seed = seed
        self.world = World(seed, show)
        self.checks = Checks()
        self.weather = Weather()
        self.plain_weather = Weather()
        """Weather without repeated requests: at level 1 a repeated request may end the next transaction, too.

        Level 2 prevents this.
        """
        config = transaction_config(
            transaction_abort_timed_out_transaction_cleanup_interval_ms=1_000,
            transaction_version=self.world.random.choice([1, 2, 2]),
        )
        parts = Parts() if parts is None else parts
        self.server = Server(self.world, config, group_config(), parts, self.checks)
        self._level = config.transaction_version
        self._producers: list[Producer] = []
        self._is_stopped = False
        self._born = 0
        self._rate_ms = self.world.random.choice([200, 600, 2_000])
        self._menu = self.world.random.sample(self._all(), k=self.world.random.randint(4, 9))
        if self.world.chance(0.5):
            self._use_up_epochs()
        self.readers = Readers(self.world, self.server, self.checks)
        for transactional_id in IDS[: self.world.random.randint(1, len(IDS))]:
            self._start(transactional_id)
        self.world.after(self._rate_ms, self._act)

    def _use_up_epochs(self) -> None:
        """Prepare a transactional id that has used nearly all epochs of its producer id."""
        value = TransactionLogValue(
            producer_id=1,
            producer_epoch=NEARLY_USED_UP,
            transaction_timeout_ms=LONGEST_TRANSACTION_MS,
            transaction_status=STATUSES[EMPTY],
            transaction_partitions=None,
            transaction_last_update_timestamp_ms=0,
            transaction_start_timestamp_ms=-1,
        )
        coordinator = self.server.coordinator
        coordinator.log.append([TransactionRecordCodec().encode(build_fact(IDS[0], value))])
        coordinator.log.forget(is_crash=True)
        self.checks.coordinator_began({IDS[0]: value})
        coordinator.stop()
        coordinator.load()

    def run(self, steps: int) -> None:
        """Play the whole run. Raises Failed with seed and step if it violates an invariant."""
        try:
            while self.world.steps < steps:
                self.world.step()
            self._become_quiet()
        except AssertionError as error:
            trace = "\n".join(self.world.trace)
            kind = "violation" if isinstance(error, Violation) else "assertion"
            raise Failed(f"{trace}\nseed {self.seed}, step {self.world.steps}: {kind}: {error}") from error

    def _become_quiet(self) -> None:
        """Stop all faults, end open transactions and read everything."""
        self._is_stopped = True
        self.world.say("faults", "end here")
        self._set_weather(0.0, 0.0, 5)
        self.server.marker_ms = (0, 5)
        self.server.coordinator.draws_fail = 0.0
        for log in self.server.logs:
            log.refuses, log.fail_syncs, log.sync_ms = False, 0, (0, 5)
        for producer in self._producers:
            producer.is_closing = True
        end_ms = self.world.now_ms + SETTLING_MS
        while self.world.step(until_ms=end_ms):
            pass
        offsets = self.readers.read(stable=True)
        running = [producer.name for producer in self._producers if producer.alive]
        demand(not running, f"{running} do not come to an end")
        for name, partition in self.server.partitions.items():
            check_all_stable(name, partition)
        check_all_stable(self.server.groups.name, self.server.groups)
        demand(len(offsets) == 1, "offsets are not answered")
        for topic in offsets[0].topics:
            for place in topic.partitions:
                demand(not place.error_code, f"{topic.name}-{place.partition_index}: {place.error_code}")
        self.checks.quiet()

    # Producers

    def _start(self, transactional_id: str) -> None:
        if self._is_stopped:
            return
        self._born += 1
        level = 2 if self._level == 2 and self.world.chance(0.7) else 1
        name = f"p{self._born}"
        self.world.say(name, f"starts as {transactional_id}, level {level}")
        self._producers.append(
            Producer(
                self.world,
                self.server,
                self.weather if level == 2 else self.plain_weather,
                name,
                transactional_id,
                level,
                NAMES,
                self.checks,
                self._ended,
            )
        )

    def _ended(self, producer: Producer) -> None:
        delay_ms = self.world.random.randint(0, 1_000)
        self.world.after(delay_ms, lambda: self._start_unless_there(producer.transactional_id))

    def _start_unless_there(self, transactional_id: str) -> None:
        if transactional_id not in {one.transactional_id for one in self._alive()}:
            self._start(transactional_id)

    def _alive(self) -> list[Producer]:
        return [producer for producer in self._producers if producer.alive]

    # Faults

    def _all(self) -> list[Callable[[], None]]:
        return [
            self.server.crash,
            self.server.crash,
            lambda: self.server.coordinator.reload("the partition moves"),
            self._refuse,
            self._refuse,
            self._fail_sync,
            self._slow_disk,
            self._slow_markers,
            self._bad_network,
            self._kill,
            self._fence,
            self._fence,
            self._no_producer_ids,
        ]

    def _act(self) -> None:
        if self._is_stopped:
            return
        self.world.random.choice(self._menu)()
        self.world.after(self.world.random.randint(1, 2 * self._rate_ms), self._act)

    def _refuse(self) -> None:
        log = self.world.random.choice(self.server.logs)
        log.refuses = True

        def relent() -> None:
            log.refuses = False

        self.world.after(self.world.random.choice([50, 500, 5_000]), relent)

    def _fail_sync(self) -> None:
        self.world.random.choice(self.server.logs).fail_syncs = 1

    def _slow_disk(self) -> None:
        log = self.world.random.choice(self.server.logs)
        log.sync_ms = self.world.random.choice([(0, 5), (20, 200), (200, 2_000)])

    def _slow_markers(self) -> None:
        self.server.marker_ms = self.world.random.choice([(0, 5), (0, 100), (200, 2_000)])

    def _bad_network(self) -> None:
        choices = [(0.0, 0.0, 10), (0.02, 0.1, 100), (0.0, 0.2, 500), (0.1, 0.05, 500)]
        self._set_weather(*self.world.random.choice(choices))

    def _set_weather(self, breaks: float, repeats: float, slowest_ms: int) -> None:
        for weather in (self.weather, self.plain_weather):
            weather.breaks, weather.delay_ms = breaks, (0, slowest_ms)
        self.weather.repeats = repeats

    def _kill(self) -> None:
        if self._alive():
            producer = self.world.random.choice(self._alive())
            producer.vanish()
            self._ended(producer)

    def _fence(self) -> None:
        """Start a second producer with the transactional id of a running one, which gets fenced."""
        if 0 < len(self._alive()) < 2 * len(IDS):
            self._start(self.world.random.choice(self._alive()).transactional_id)

    def _no_producer_ids(self) -> None:
        self.server.coordinator.draws_fail = self.world.random.choice([0.0, 0.5])


def check_all_stable(name: tuple[str, int], partition: Partition | Groups) -> None:
    """Check that a partition has no open transaction."""
    stable, end = partition.last_stable_offset, partition.log.end
    demand(stable == end, f"{name}: {stable} of {end} stay stable for ever")
