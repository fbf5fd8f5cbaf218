"""Static members (KIP-345): a restart within the session timeout does not affect other members."""

import pytest

from tests.interop.driver import CONSUMER_DRIVERS, DRIVERS, Driver
from tests.interop.group import Group, partitions_of, records_of
from tests.interop.member import Member

PARTITIONS = 12
RESTART_MS = 60_000
"""A member starts again within this time, on a busy machine too."""
STATIC = [driver for driver in DRIVERS if driver.static_membership]
# franz-go 1.22 leaves out its instance id when it says that it will be back, which Kafka refuses.
STATIC_CONSUMERS = [driver for driver in CONSUMER_DRIVERS if driver.name != "franz_go"]

# To stay away asks nothing of the client that does: three independent implementations are enough.
ABSENT = [driver for driver in STATIC if driver.name in ("confluent", "java", "franz_go")]

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("driver", STATIC + STATIC_CONSUMERS, ids=str)
def test_static_member_gets_its_partitions_back_without_a_rebalance(
    group: Group, topic: str, driver: Driver
) -> None:
    """After a restart it has its partitions, and the other member does not notice."""
    group.session_timeout_ms = group.rebalance_timeout_ms = RESTART_MS
    group.broker.create_topic(topic, PARTITIONS)
    everything = partitions_of(topic, PARTITIONS)
    one = group.join(topic, instance_id="one")
    group.converge([one], everything)
    two = group.join(topic, instance_id="two")
    group.converge([one, two], everything)
    _settle(group, [one, two], topic)
    owned = set(two.owned)
    heard = [event for event in one.events if event["event"] in ("assigned", "revoked", "lost")]

    if driver.group_protocol == "consumer":
        # The name of one that did not say that it goes is not given to another while its session lasts.
        two.leave()
    else:
        two.kill()
    again = group.join(topic, instance_id="two")
    group.converge([one, again], everything)
    assert again.owned == owned
    group.broker.produce(topic, PARTITIONS, 1)
    group.consumed([one, again], records_of(topic, PARTITIONS, 1, 2))
    assert [event for event in one.events if event["event"] in ("assigned", "revoked", "lost")] == heard
    assert group.broker.instance_ids(group.name) == {"one", "two"}


def _settle(group: Group, members: list[Member], topic: str) -> None:
    """Wait until every member knows that it is in the current generation, the last one of their joins. Then
    its commits are accepted."""
    group.settle(members, partitions_of(topic, PARTITIONS))
    group.broker.produce(topic, PARTITIONS, 1)
    group.consumed(members, records_of(topic, PARTITIONS, 0, 1))
    if not group.driver.commits_by_itself:
        group.commit_in_the_end(members, dict.fromkeys(partitions_of(topic, PARTITIONS), 1))


@pytest.mark.parametrize("driver", ABSENT, ids=str)
def test_static_member_that_stays_away_is_replaced(group: Group, topic: str) -> None:
    """After the session timeout its partitions go to the others."""
    group.broker.create_topic(topic, PARTITIONS)
    everything = partitions_of(topic, PARTITIONS)
    one, two = group.join(topic, instance_id="one"), group.join(topic, instance_id="two")
    group.converge([one, two], everything)
    two.kill()
    group.converge([one], everything)
