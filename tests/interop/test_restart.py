"""The broker goes away under living members and comes back."""

import signal

import pytest

from tests.interop.driver import CONSUMER_DRIVERS, DRIVERS, Driver
from tests.interop.group import Group, partitions_of, records_of
from tests.interop.requirement import lacking

PARTITIONS = 12
RECORDS = 3

CASES = [(driver, how) for driver in DRIVERS for how in (signal.SIGTERM, signal.SIGKILL)]
CASES += [(driver, signal.SIGKILL) for driver in CONSUMER_DRIVERS]

pytestmark = pytest.mark.interop


@pytest.mark.parametrize(("driver", "how"), CASES, ids=[f"{driver}-{how.name}" for driver, how in CASES])
def test_members_survive_a_restart_of_the_broker(
    mortal_group: Group, topic: str, driver: Driver, how: signal.Signals
) -> None:
    """The same processes continue from the committed offsets, and a new member can join them."""
    group = mortal_group
    if not group.broker.can_restart:
        lacking("GROUPD_TEST_RESTART names no program that restarts this broker")
    group.broker.create_topic(topic, PARTITIONS)
    everything = partitions_of(topic, PARTITIONS)
    one, two = group.join(topic), group.join(topic)
    group.converge([one, two], everything)
    group.broker.produce(topic, PARTITIONS, RECORDS)
    group.consumed([one, two], records_of(topic, PARTITIONS, 0, RECORDS))
    group.commit([one, two], dict.fromkeys(everything, RECORDS))

    group.broker.restart(how)
    group.broker.wait_committed(group.name, dict.fromkeys(everything, RECORDS))
    group.broker.produce(topic, PARTITIONS, RECORDS)
    group.consumed([one, two], records_of(topic, PARTITIONS, RECORDS, 2 * RECORDS))
    group.converge([one, two], everything)
    if not driver.commits_by_itself:
        group.commit_in_the_end([one, two], dict.fromkeys(everything, 2 * RECORDS))
    # A member that must rejoin may get uncommitted records again, but nothing older.
    old = [record for record in one.records() + two.records() if record[2] < RECORDS]
    assert sorted(old) == sorted(records_of(topic, PARTITIONS, 0, RECORDS))

    three = group.join(topic)
    group.converge([one, two, three], everything)
