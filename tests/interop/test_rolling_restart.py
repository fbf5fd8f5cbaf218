"""What a deployment does to a group: members are added, restarted one after another, and taken away."""

import pytest

from tests.interop.driver import DRIVERS
from tests.interop.group import Group, partitions_of, records_of
from tests.interop.member import Member

PARTITIONS = 12
RESTART_MS = 60_000
"""A member starts again within this time, on a busy machine too."""
SIZE = 3
CASES = [
    (driver, assignor)
    for driver in DRIVERS
    for assignor in driver.assignors
    if (driver.name, assignor)
    in {("confluent", "range"), ("confluent", "cooperative-sticky"), ("aiokafka", "roundrobin")}
]
STATIC = [
    driver for driver in DRIVERS if driver.name in ("confluent", "aiokafka") and driver.static_membership
]

pytestmark = pytest.mark.interop


@pytest.mark.parametrize(("driver", "assignor"), CASES, ids=[f"{d}-{a}" for d, a in CASES])
def test_members_join_restart_and_leave_one_by_one(group: Group, topic: str, assignor: str) -> None:
    """Every partition has an owner after each step."""
    group.assignor = assignor
    group.broker.create_topic(topic, PARTITIONS)
    everything = partitions_of(topic, PARTITIONS)
    members: list[Member] = []
    for _ in range(SIZE):
        members.append(group.join(topic))
        group.converge(members, everything)
    group.broker.produce(topic, PARTITIONS, 1)
    group.consumed(members, records_of(topic, PARTITIONS, 0, 1))
    for _ in range(SIZE):
        members.pop(0).leave()
        group.converge(members, everything)
        members.append(group.join(topic))
        group.converge(members, everything)
    while len(members) > 1:
        members.pop().leave()
        group.converge(members, everything)


@pytest.mark.parametrize("driver", STATIC, ids=str)
def test_static_members_restart_one_by_one(group: Group, topic: str) -> None:
    """Each member returns within its session, with its partitions."""
    group.session_timeout_ms = group.rebalance_timeout_ms = RESTART_MS
    group.broker.create_topic(topic, PARTITIONS)
    everything = partitions_of(topic, PARTITIONS)
    members: list[Member] = []
    for number in range(SIZE):
        members.append(group.join(topic, instance_id=f"static-{number}"))
        group.converge(members, everything)
    for number in range(SIZE):
        owned = set(members[0].owned)
        members.pop(0).kill()
        members.append(group.join(topic, instance_id=f"static-{number}"))
        group.converge(members, everything)
        assert members[-1].owned == owned
