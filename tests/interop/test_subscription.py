"""What changes under a living group: topics that appear, partitions that are added, other subscriptions."""

import pytest

from tests.interop.driver import CONSUMER_DRIVERS, DRIVERS
from tests.interop.group import METADATA_MAX_AGE_MS, Group, partitions_of, records_of

pytestmark = pytest.mark.interop
REGEX = [driver for driver in DRIVERS + CONSUMER_DRIVERS if driver.regex_finds_new_topics]
# kcat takes its topics from its command line; kafkajs fixes them when it starts to run; in kafka-python 3.0 a
# leader can assign before it knows a topic that only a follower asked for, and it does not assign again.
CHANGEABLE = [driver for driver in DRIVERS if driver.name not in ("kcat", "kafkajs", "kafka_python")]


@pytest.mark.parametrize("driver", REGEX, ids=str)
def test_pattern_subscription_takes_up_a_new_topic(group: Group, topic: str) -> None:
    """A topic that matches and is created later is shared like the first."""
    group.metadata_max_age_ms = METADATA_MAX_AGE_MS
    first, second = f"{topic}.a", f"{topic}.b"
    group.broker.create_topic(first, 4)
    members = [group.join(pattern=topic + r"\..*") for _ in range(2)]
    group.converge(members, partitions_of(first, 4))
    group.broker.create_topic(second, 4)
    group.converge(members, partitions_of(first, 4) | partitions_of(second, 4))
    group.broker.produce(second, 4, 1)
    group.consumed(members, records_of(second, 4, 0, 1))


@pytest.mark.parametrize("driver", DRIVERS, ids=str)
def test_added_partitions_are_shared(group: Group, topic: str) -> None:
    """CreatePartitions under a living group leads to a rebalance that hands them out."""
    group.metadata_max_age_ms = METADATA_MAX_AGE_MS
    group.broker.create_topic(topic, 4)
    members = [group.join(topic) for _ in range(2)]
    group.converge(members, partitions_of(topic, 4))
    group.broker.grow_topic(topic, 12)
    group.converge(members, partitions_of(topic, 12))
    group.broker.produce(topic, 12, 1)
    group.consumed(members, records_of(topic, 12, 0, 1))


@pytest.mark.parametrize("driver", CHANGEABLE, ids=str)
def test_member_that_subscribes_to_more_gets_more(group: Group, topic: str) -> None:
    """A change of one member's subscription rebalances the group."""
    group.metadata_max_age_ms = METADATA_MAX_AGE_MS
    first, second = f"{topic}.a", f"{topic}.b"
    group.broker.create_topic(first, 4)
    group.broker.create_topic(second, 4)
    one, two = group.join(first), group.join(first)
    group.converge([one, two], partitions_of(first, 4))
    two.say(f"subscribe {first},{second}")
    group.converge([one, two], partitions_of(first, 4) | partitions_of(second, 4))
    assert {(second, partition) for partition in range(4)} <= two.owned
