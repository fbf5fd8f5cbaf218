import asyncio
from collections.abc import Callable, Hashable

from coordinator.core import clock
from coordinator.runtime.timers import GroupClock, ProcessClock, Timers
from tests.runtime.held_clock import HeldClock


class Fired:
    """Gathers keys as their timers fire."""

    def __init__(self) -> None:
        self.keys: list[Hashable] = []
        self._wanted: dict[int, asyncio.Event] = {}

    def __call__(self, key: Hashable) -> None:
        self.keys.append(key)
        if len(self.keys) in self._wanted:
            self._wanted[len(self.keys)].set()

    async def wait(self, count: int) -> None:
        event = self._wanted.setdefault(count, asyncio.Event())
        if len(self.keys) < count:
            await asyncio.wait_for(event.wait(), 60)


def timers_of(fire: Callable[[Hashable], None], group_clock: GroupClock | None = None) -> Timers:
    return Timers(asyncio.get_running_loop(), group_clock or ProcessClock(clock.Arrival()), fire)


async def test_timers_fire_in_the_order_of_their_deadlines() -> None:
    fired = Fired()
    timers = timers_of(fired)
    now_ms = clock.monotonic_ms()
    timers.set("third", now_ms + 30)
    timers.set("first", now_ms - 10)
    timers.set("second", now_ms + 10)
    await fired.wait(3)
    assert fired.keys == ["first", "second", "third"]
    assert len(timers) == 0


async def test_setting_a_timer_again_replaces_its_deadline() -> None:
    fired = Fired()
    timers = timers_of(fired)
    now_ms = clock.monotonic_ms()
    timers.set("moved", now_ms)
    timers.set("moved", now_ms + 20)
    timers.set("other", now_ms + 5)
    await fired.wait(2)
    assert fired.keys == ["other", "moved"]


async def test_a_cancelled_timer_does_not_fire() -> None:
    fired = Fired()
    timers = timers_of(fired)
    now_ms = clock.monotonic_ms()
    for key in ("kept", "dropped", ("both", 1), ("both", 2)):
        timers.set(key, now_ms + 1)
    timers.cancel("dropped")
    timers.cancel("never set")
    timers.cancel_where(lambda key: isinstance(key, tuple))
    timers.set("last", now_ms + 5)
    await fired.wait(2)
    assert fired.keys == ["kept", "last"]


async def test_a_timer_may_arm_itself_again() -> None:
    rounds: list[int] = []
    done = asyncio.Event()

    def fire(key: Hashable) -> None:
        rounds.append(1)
        if len(rounds) == 3:
            done.set()
        else:
            timers.set(key, clock.monotonic_ms())

    timers = timers_of(fire)
    timers.set("again", clock.monotonic_ms())
    await asyncio.wait_for(done.wait(), 60)
    assert len(rounds) == 3


async def test_stale_deadlines_do_not_pile_up() -> None:
    fired = Fired()
    timers = timers_of(fired)
    now_ms = clock.monotonic_ms()
    for _ in range(200):
        for member in range(50):
            timers.set(member, now_ms + 1_000_000)
    for member in range(50):
        timers.set(member, now_ms)
    await fired.wait(50)
    assert sorted(map(str, fired.keys)) == sorted(map(str, range(50)))


async def test_closing_disarms_everything() -> None:
    fired = Fired()
    timers = timers_of(fired)
    timers.set("never", clock.monotonic_ms())
    timers.close()
    others = Fired()
    timers_of(others).set("other", clock.monotonic_ms() + 10)
    await others.wait(1)
    assert fired.keys == []


async def test_a_held_clock_fires_nothing_and_one_that_is_moved_fires_what_is_due() -> None:
    fired, held = Fired(), HeldClock()
    timers, others = timers_of(fired, held), Fired()
    running = timers_of(others)
    start_ms = held.now().monotonic_ms
    timers.set("armed while it ran", start_ms + 20)
    held.hold()
    timers.set("armed while it was held", start_ms + 10)
    timers.set("later", start_ms + 60_000)
    running.set("the process's clock", clock.monotonic_ms() + 100)
    await others.wait(1)
    assert fired.keys == []
    held.advance(1000)
    await fired.wait(2)
    assert fired.keys == ["armed while it was held", "armed while it ran"]
    timers.set("already there", start_ms)
    await fired.wait(3)
    held.let_go()
    held.advance(60_000)
    await fired.wait(4)
    assert fired.keys[2:] == ["already there", "later"]


async def test_a_clock_that_is_let_go_leaves_timers_the_time_they_had() -> None:
    fired, held = Fired(), HeldClock()
    timers = timers_of(fired, held)
    held.hold()
    timers.set("soon", held.now().monotonic_ms + 30)
    await asyncio.sleep(0)
    before_ms = clock.monotonic_ms()
    held.let_go()
    await fired.wait(1)
    assert clock.monotonic_ms() - before_ms >= 29


async def test_timers_that_were_closed_let_the_clock_go() -> None:
    fired, held = Fired(), HeldClock()
    timers = timers_of(fired, held)
    timers.close()
    timers.close()
    assert held.on_moved == []
