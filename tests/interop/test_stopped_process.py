"""A member that stands still for longer than its session timeout, as on a machine that was paused."""

import pytest

from tests.interop.driver import DRIVERS
from tests.interop.group import Group, partitions_of, records_of
from tests.interop.member import Member, Partition

PARTITIONS = 12
EACH = 3

# What a client makes of UNKNOWN_MEMBER_ID is its own: three independent implementations are enough.
STOPPED = [driver for driver in DRIVERS if driver.name in ("confluent", "aiokafka", "java")]

pytestmark = pytest.mark.interop


@pytest.mark.violates("zombie_commit")
@pytest.mark.parametrize("driver", STOPPED, ids=str)
def test_a_stopped_member_loses_its_partitions_and_rejoins(group: Group, topic: str) -> None:
    """The other member gets its partitions. After its return, no old commit overwrites newer ones."""
    group.broker.create_topic(topic, PARTITIONS)
    everything = partitions_of(topic, PARTITIONS)
    one, two = group.join(topic), group.join(topic)
    group.converge([one, two], everything)
    group.broker.produce(topic, PARTITIONS, EACH)
    group.consumed([one, two], records_of(topic, PARTITIONS, 0, EACH))
    group.commit_in_the_end([one, two], dict.fromkeys(everything, EACH))
    group.broker.produce(topic, PARTITIONS, EACH)
    group.consumed([one, two], records_of(topic, PARTITIONS, EACH, 2 * EACH))
    taken = set(two.owned)

    two.stop()
    group.converge([one], everything)
    uncommitted = records_of(topic, PARTITIONS, EACH, 2 * EACH)
    group.consumed([one], {record for record in uncommitted if record[:2] in taken})
    group.broker.produce(topic, PARTITIONS, EACH)
    group.consumed([one], records_of(topic, PARTITIONS, 2 * EACH, 3 * EACH))
    group.commit([one], dict.fromkeys(everything, 3 * EACH))

    heard = len(two.events)
    two.say("commit")  # sent before it runs, so that it commits in its old generation
    two.resume()
    group.board.wait(f"{two.name} to lose its partitions", lambda: taken <= _taken_from(two, heard))
    group.converge([one, two], everything)
    assert group.broker.committed(group.name) == dict.fromkeys(everything, 3 * EACH), group.board.report()

    group.broker.produce(topic, PARTITIONS, EACH)
    group.consumed([one, two], records_of(topic, PARTITIONS, 3 * EACH, 4 * EACH))
    group.commit_in_the_end([one, two], dict.fromkeys(everything, 4 * EACH))


def _taken_from(member: Member, since: int) -> set[Partition]:
    """Return the partitions that the client reported as revoked or lost, in its events from number `since` on."""
    revocations = [event for event in member.events[since:] if event["event"] in ("revoked", "lost")]
    return {(topic, partition) for event in revocations for topic, partition in event["partitions"]}
