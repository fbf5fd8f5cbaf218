"""The bus passes each event once to every subscriber, in the order of the ranks."""

from itertools import permutations
from typing import Any, NoReturn

import pytest

from coordinator.broker.broker_metrics import BrokerMetrics
from coordinator.broker.group_event_log import EventRank, GroupEventBus
from coordinator.core.daemon_log import LogLineLimit
from coordinator.core.interceptors import RankedList
from coordinator.core.outcome import Now
from coordinator.group.group_event_types import GroupDeleted, GroupEvent, OffsetsCommitted
from tests.runtime.bench import Bench
from tests.runtime.test_observers import join
from tests.storage.faulty_files import FaultyFiles

RANKS = (EventRank.REMOVALS, EventRank.LEDGER, EventRank.ORACLES, EventRank.METRICS)
NOW = Now(1_000, 1_700_000_000_000)
EVENT = GroupDeleted("g", 3, "request")


class Subscriber:
    """Notes each event that it gets."""

    def __init__(self, name: object, log: list[Any]) -> None:
        self._name = name
        self._log = log

    def on_event(self, partition: int, event: GroupEvent, number: int, now: Now) -> None:
        self._log.append((self._name, partition, event, number, now))


def create_bus() -> GroupEventBus:
    return GroupEventBus(BrokerMetrics(), LogLineLimit())


def check_order(ranks: tuple[EventRank, ...]) -> None:
    """Subscribe in the order of `ranks`, and check the order of the calls."""
    bus, log = create_bus(), list[Any]()
    for rank in ranks:
        bus.subscribe(rank, Subscriber(rank, log).on_event)
    bus.publish(0, EVENT, 5, NOW)
    assert log == [(rank, 0, EVENT, 5, NOW) for rank in sorted(ranks)]


@pytest.mark.parametrize(
    "ranks", list(permutations(RANKS)), ids=lambda ranks: "-".join(rank.name for rank in ranks)
)
def test_the_order_of_subscription_has_no_effect(ranks: tuple[EventRank, ...]) -> None:
    check_order(ranks)


def test_a_bus_that_ignores_ranks_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def add(self: RankedList[Any], rank: int, on_event: Any) -> None:
        self._entries.append((rank, on_event))

    monkeypatch.setattr(RankedList, "add", add)
    with pytest.raises(AssertionError):
        check_order(RANKS[::-1])


def test_subscribers_of_one_rank_are_called_in_the_order_of_their_subscription() -> None:
    bus, log = create_bus(), list[Any]()
    for name in "ab":
        bus.subscribe(EventRank.COMMANDS, Subscriber(name, log).on_event)
    bus.publish(0, EVENT, 0, NOW)
    assert [name for name, *_ in log] == ["a", "b"]


def test_a_subscriber_that_leaves_during_an_event_gets_no_later_one() -> None:
    bus, log = create_bus(), list[Any]()
    second = Subscriber("second", log)

    def leave(*_: object) -> None:
        bus.unsubscribe(second.on_event)
        bus.unsubscribe(leave)

    bus.subscribe(EventRank.CLOCK, leave)
    bus.subscribe(EventRank.FAULTS, second.on_event)
    bus.publish(0, EVENT, 0, NOW)
    bus.publish(0, EVENT, 1, NOW)
    assert [number for _, _, _, number, _ in log] == [0]
    assert bus.subscribers == ()
    with pytest.raises(ValueError, match="on_event"):
        bus.unsubscribe(second.on_event)


def test_the_failure_of_a_subscriber_does_not_affect_later_ones(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object) -> NoReturn:
        raise KeyError("a defect")

    bus, log = create_bus(), list[Any]()
    bus.subscribe(EventRank.CLOCK, fail)
    bus.subscribe(EventRank.FAULTS, Subscriber("later", log).on_event)
    bus.publish(0, EVENT, 0, NOW)
    assert [name for name, *_ in log] == ["later"]
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_events_have_the_time_of_their_group() -> None:
    bus, log = create_bus(), list[Any]()
    bus.subscribe(EventRank.LEDGER, Subscriber("ledger", log).on_event)
    bus.use_group_time(lambda group_id, now: Now(now.monotonic_ms + len(group_id), now.wall_ms))
    bus.publish(0, EVENT, 0, NOW)
    bus.use_group_time(None)
    bus.publish(0, EVENT, 1, NOW)
    assert [now.monotonic_ms - NOW.monotonic_ms for *_, now in log] == [1, 0]


async def test_only_subscribers_to_commits_get_commits_with_the_numbers_of_the_engine() -> None:
    bench, bus = Bench(FaultyFiles()), create_bus()
    events, commits = list[Any](), list[Any]()
    bus.subscribe(EventRank.LEDGER, Subscriber("ledger", events).on_event)
    on_commit = Subscriber("waits", commits).on_event
    bus.subscribe_to_commits(on_commit)
    bench.engine.observers.append(bus.observe)
    await bench.take_all()
    bench.put(bench.groups, "g", join(""))
    partition = bench.groups.find_partition("g")
    commit = OffsetsCommitted("g", "", 1)
    bus.observe(partition, [commit], 700, NOW)
    bus.unsubscribe_from_commits(on_commit)
    bus.observe(partition, [commit], 701, NOW)
    assert [(event, number) for _, _, event, number, _ in commits] == [(commit, 700)]
    in_bench = [(number, event) for number, name, event in bench.events if name == str(partition.name)]
    assert [(number, event) for _, _, event, number, _ in events] == in_bench
    await bench.close()
