"""The coordinator of living members moves between three brokers of one process."""

from collections.abc import Iterator

import pytest

from tests.interop.broker import Broker, eventually
from tests.interop.conftest import command_of
from tests.interop.control_room import ControlRoom
from tests.interop.daemon import Daemon
from tests.interop.driver import DRIVERS, Driver
from tests.interop.group import Group, partitions_of, records_of
from tests.interop.member import Board
from tests.shared_fixtures import shared

MOVES = 4
PARTITIONS = 6
SESSION_MS = 15_000

KEEPS_ITS_GENERATION = ("java", "aiokafka", "franz_go")
"""Clients that do not rebalance on a three-broker Kafka either, however they commit."""

FOLLOWERS = [driver for driver in DRIVERS if driver.name != "kafkajs"]
"""In one or two of six runs, what kafkajs committed outside of its loop went on to the old coordinator, where the
move had met its joining; in one of six on three brokers of Kafka 4.4.0."""

pytestmark = pytest.mark.interop


@shared(Broker.is_alive)
def three_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One process for all the tests of this file."""
    daemon = Daemon(str(tmp_path_factory.mktemp("groupd")), "--brokers", "3")
    try:
        yield Broker(daemon.bootstrap, daemon)
    except BaseException:
        daemon.kill()
        raise
    daemon.stop()


@pytest.mark.parametrize("driver", FOLLOWERS, ids=str)
def test_members_follow_their_coordinator(
    three_brokers: Broker, topic: str, group_name: str, driver: Driver, board: Board
) -> None:
    """They get all records, commit at every coordinator, and none is put out."""
    group = Group(three_brokers, driver, command_of(driver), group_name, board)
    group.session_timeout_ms = SESSION_MS
    three_brokers.create_topic(topic, PARTITIONS)
    everything = partitions_of(topic, PARTITIONS)
    members = [group.join(topic), group.join(topic)]
    group.settle(members, everything)
    room = ControlRoom(three_brokers, group_name)
    generation = room.describe()["generation_id"]
    for number in range(MOVES):
        before = room.ask("GET", "/cluster")
        to = 1 + number % 3
        moved = room.ask("POST", "/cluster/move", {"group": group_name, "to": to})
        if moved["before"] == to:
            to = to % 3 + 1
            moved = room.ask("POST", "/cluster/move", {"group": group_name, "to": to})
        assert moved["owner"] == to
        assert sum(before["moves"].values()) < sum(room.ask("GET", "/cluster")["moves"].values())
        three_brokers.produce(topic, PARTITIONS, 1)
        group.consumed(members, records_of(topic, PARTITIONS, number, number + 1))
        group.commit_in_the_end(members, dict.fromkeys(everything, number + 1))
    eventually("the members to be there", lambda: len(room.describe()["members"]) == len(members))
    if driver.name in KEEPS_ITS_GENERATION:
        assert room.describe()["generation_id"] == generation
