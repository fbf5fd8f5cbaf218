"""A group changes its protocol while it lives: its members are replaced, to consumer and back."""

from dataclasses import replace

import pytest

from tests.interop.driver import DRIVERS, Driver
from tests.interop.group import Group, partitions_of, records_of
from tests.interop.member import Member

PARTITIONS = 12
SIZE = 6
ASSIGNORS = {"confluent": "range", "java": "cooperative-sticky"}
"""Assignors of the classic members: one revokes everything in a rebalance, the other only moved partitions."""
AT_ONCE = {"confluent": 1, "java": 2}
"""How many are replaced at a time: a Java machine takes its time to start."""
CASES = [
    replace(driver, assignors=(ASSIGNORS[driver.name],)) for driver in DRIVERS if driver.name in ASSIGNORS
]

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("driver", CASES, ids=str)
def test_six_members_are_rolled_to_consumer_and_back(group: Group, topic: str, driver: Driver) -> None:
    """While records come all along: none is lost, and none comes again once that was committed."""
    group.session_timeout_ms = 15_000
    group.broker.create_topic(topic, PARTITIONS)
    everything = partitions_of(topic, PARTITIONS)
    members = [group.join(topic) for _ in range(SIZE)]
    at_once, delivered = AT_ONCE[driver.name], list[int]()

    def take_a_step() -> None:
        """Each partition gets a record while the group still rebalances, and in the end that is committed."""
        end = len(delivered) + 1
        group.broker.produce(topic, PARTITIONS, 1)
        group.converge(members, everything)
        group.consumed(group.board.members, records_of(topic, PARTITIONS, 0, end))
        group.commit_in_the_end(members, dict.fromkeys(everything, end))
        delivered.append(_delivered(group.board.members, end))

    def roll(protocol: str, assignor: str) -> list[str]:
        """The types that the group has after each step."""
        group.group_protocol, group.assignor = protocol, assignor
        types = []
        for _ in range(0, SIZE, at_once):
            members.extend([group.join(topic) for _ in range(at_once)])
            for _ in range(at_once):
                members.pop(0).leave()
            take_a_step()
            types.append(group.broker.listed(group.name)[0])
        return types

    take_a_step()
    assert group.broker.listed(group.name)[0] == "classic"
    assert set(roll("consumer", "uniform")) == {"consumer"}
    *first, last = roll("classic", driver.assignors[0])
    assert (set(first), last) == ({"consumer"}, "classic")
    assert delivered == [_delivered(group.board.members, end) for end in range(1, len(delivered) + 1)]


def _delivered(members: list[Member], end: int) -> int:
    """How often any member was delivered a record below an offset."""
    return sum(offset < end for member in members for _, _, offset in member.records())
