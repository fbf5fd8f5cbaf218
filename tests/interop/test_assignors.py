"""Every assignor that a client brings, eager and cooperative."""

import pytest

from tests.interop.driver import CONSUMER_DRIVERS, DRIVERS, Driver
from tests.interop.group import Group, partitions_of, records_of

PARTITIONS = 12
CASES = [(driver, assignor) for driver in DRIVERS for assignor in driver.assignors]
CASES += [(driver, "range") for driver in CONSUMER_DRIVERS]

pytestmark = pytest.mark.interop


@pytest.mark.parametrize(("driver", "assignor"), CASES, ids=[f"{d}-{a}" for d, a in CASES])
def test_assignor_shares_and_gives_back(group: Group, topic: str, driver: Driver, assignor: str) -> None:
    """Two members share the topic; when one leaves, the other has it all; nothing is delivered twice."""
    group.assignor = assignor
    group.broker.create_topic(topic, PARTITIONS)
    everything = partitions_of(topic, PARTITIONS)
    one = group.join(topic)
    group.converge([one], everything)
    before = len(one.events)
    two = group.join(topic)
    group.converge([one, two], everything)

    given_back = one.given_up(before)
    if assignor == "cooperative-sticky" or driver.group_protocol == "consumer":
        assert given_back == two.owned, "a cooperative member gives back only what another one gets"
    else:
        assert given_back == everything, "an eager member gives back everything"

    group.broker.produce(topic, PARTITIONS, 2)
    group.consumed([one, two], records_of(topic, PARTITIONS, 0, 2))
    if not driver.commits_by_itself:
        # The one that owned everything may not know yet that the last rebalance is over.
        group.commit_in_the_end([one, two], dict.fromkeys(everything, 2))
    two.leave()
    group.converge([one], everything)
    group.broker.produce(topic, PARTITIONS, 1)
    group.consumed([one], records_of(topic, PARTITIONS, 2, 3))
    assert sorted(one.records() + two.records()) == sorted(records_of(topic, PARTITIONS, 0, 3))
    one.leave()


@pytest.mark.parametrize("driver", DRIVERS, ids=str)
def test_group_describes_itself(group: Group, topic: str) -> None:
    """The administrator sees the state and each member's assignment."""
    group.broker.create_topic(topic, PARTITIONS)
    one, two = group.join(topic), group.join(topic)
    group.settle([one, two], partitions_of(topic, PARTITIONS))
    seen = group.broker.describe(group.name)
    assert seen["group_state"] == "Stable"
    assert seen["protocol_type"] == "consumer"
    shown = [
        {
            (t["topic"], number)
            for t in member["member_assignment"]["assigned_partitions"]
            for number in t["partitions"]
        }
        for member in seen["members"]
    ]
    assert sorted(map(sorted, shown)) == sorted(map(sorted, [one.owned, two.owned]))
