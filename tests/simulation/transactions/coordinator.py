"""The partition of `__transaction_state`: the real machine, a log and timers around it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from coordinator.core.outcome import Context, EncodedFact, Fact, Message, Now, Outcome, Work, WorkDone
from coordinator.transactions.transaction_records import TransactionRecordCodec
from coordinator.transactions.transaction_requests import TransactionConfig, TransactionTimerKey, WriteMarkers
from coordinator.transactions.transaction_shard import TransactionShard
from tests.simulation.disk import AppendFailed
from tests.simulation.shell import WALL_START_MS, NotCoordinator
from tests.simulation.transactions.checks import Checks
from tests.simulation.transactions.log import Log
from tests.simulation.world import World

MakeShard: TypeAlias = Callable[[TransactionConfig, int], TransactionShard]
Then: TypeAlias = Callable[[Any], None]
_CODEC = TransactionRecordCodec()
FIRST_PRODUCER_ID = 1000


class Coordinator:
    """One partition with its load epochs. `send_markers` sends the markers that the machine requests."""

    def __init__(
        self,
        world: World,
        config: TransactionConfig,
        make: MakeShard,
        checks: Checks,
        send_markers: Callable[[str, WriteMarkers], None],
    ) -> None:
        self.world = world
        self.log: Log[list[EncodedFact]] = Log(world, lambda: self.reload("a sync failed"))
        self.shard: TransactionShard | None = None
        self.draws_fail = 0.0
        self._config = config
        self._make = make
        self._checks = checks
        self._send_markers = send_markers
        self._epoch = 0
        self._life = 0
        self._waiter = 0
        self._asked: dict[int, Then] = {}
        self._timers: dict[TransactionTimerKey, int] = {}
        self._next_producer_id = FIRST_PRODUCER_ID

    def now(self) -> Now:
        """Return the time by the process's clocks."""
        return Now(self.world.now_ms, WALL_START_MS + self.world.now_ms)

    # Life

    def load(self) -> None:
        """Read the log into a new machine, with a new epoch."""
        self._epoch += 1
        self.shard = self._make(self._config, self._epoch)
        for entry in self.log.entries:
            for fact in entry:
                self.shard.replay(decoded(fact))
        self._checks.coordinator_loaded(self.shard, self.log.end)
        self.world.say("coordinator", f"loaded {self.log.end} entries, epoch {self._epoch}")
        self._follow(self.shard.on_loaded(self.now()))

    def stop(self) -> None:
        """End the process."""
        self._life += 1
        self.shard = None
        self._asked.clear()
        self._timers.clear()

    def reload(self, why: str) -> None:
        """Unload the partition, fail all blocked requests, and load it again later."""
        if self.shard is None:
            return
        self.world.say("coordinator", f"reload: {why}")
        self.shard.unload()
        asked = list(self._asked.values())
        self.stop()
        self.log.forget(is_crash=True)
        for then in asked:
            then(NotCoordinator())
        life = self._life
        self.world.after(self.world.random.randint(1, 1_000), lambda: self._load_again(life))

    def _load_again(self, life: int) -> None:
        if life == self._life:
            self.load()

    # Requests

    def ask(self, request: Any, version: int, then: Then) -> None:
        """Pass a request to the machine; `then` gets the response, or NotCoordinator."""
        if self.shard is None:
            then(NotCoordinator())
            return
        self._waiter += 1
        self._asked[self._waiter] = then
        context = Context(self._waiter, version, "producer", "/127.0.0.1")
        self._follow(self.shard.handle(request, context, self.now()))

    def receive_message(self, _: str, message: Any) -> None:
        """Pass the results of markers to the machine."""
        if self.shard is not None:
            self._follow(self.shard.handle(message, Context(0, 0, "", ""), self.now()))

    def release(self, outcome: Outcome) -> None:
        """Send responses and markers once the records that they depend on are durable."""
        life = self._life

        def durable(is_there: bool) -> None:
            if is_there and life == self._life:
                self.answer(outcome)
                self.deliver(outcome.messages)

        self.log.when_durable(durable)

    def answer(self, outcome: Outcome) -> None:
        """Send the responses of an outcome."""
        for waiter, response in outcome.replies:
            self._checks.answered(response)
            self._asked.pop(waiter)(response)

    def deliver(self, messages: Sequence[Message]) -> None:
        """Pass the markers of an outcome to their sender."""
        for message in messages:
            assert isinstance(message.request, WriteMarkers)
            self._send_markers(message.key, message.request)

    def _follow(self, outcome: Outcome) -> None:
        assert self.shard is not None
        for event in outcome.events:
            self.world.say("coordinator", str(event))
        self.shard.check_invariants()
        if outcome.records:
            try:
                self.log.append([_CODEC.encode(record) for record in outcome.records])
            except AppendFailed:
                self.reload("an append failed")
                return
            self._checks.coordinator_wrote(outcome.records, self.shard)
        for key, deadline in outcome.timers.items():
            self._timers.pop(key, None)
            if deadline is not None:
                self._timers[key] = deadline
                self.world.after(deadline - self.world.now_ms, partial(self._wake, self._life, key))
        for work in outcome.work:
            self._draw(work)
        self.release(outcome)

    def _draw(self, work: Work) -> None:
        life = self._life
        self._next_producer_id += 1
        producer_id = self._next_producer_id
        fails = self.world.chance(self.draws_fail)

        def done() -> None:
            if life == self._life and self.shard is not None:
                result = WorkDone(work, None, "no space") if fails else WorkDone(work, producer_id)
                self._follow(self.shard.handle(result, Context(0, 0, "", ""), self.now()))

        self.world.after(self.world.random.randint(0, 50), done)

    def _wake(self, life: int, key: TransactionTimerKey) -> None:
        if (
            life == self._life
            and self.shard is not None
            and self._timers.get(key, 2**63) <= self.world.now_ms
        ):
            del self._timers[key]
            self._follow(self.shard.fire_timer(key, self.now()))


def decoded(fact: EncodedFact) -> Fact:
    """Decode a record."""
    if fact.value is None:
        key = _CODEC.decode(fact.key, b"\xff\xff").key
        return Fact(key, None)
    return _CODEC.decode(fact.key, fact.value)
