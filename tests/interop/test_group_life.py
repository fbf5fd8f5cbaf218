"""A group from its first member to its last: form, consume, commit, die, leave, join, resume."""

import pytest

from tests.interop.driver import CONSUMER_DRIVERS, DRIVERS, Driver
from tests.interop.group import Group, partitions_of, records_of

PARTITIONS = 12
RECORDS = 5

pytestmark = [
    pytest.mark.interop,
    pytest.mark.parametrize("driver", DRIVERS + CONSUMER_DRIVERS, ids=str),
]


def test_group_of_three_through_a_crash_a_leave_and_a_join(group: Group, topic: str, driver: Driver) -> None:
    """In every change of members, the partitions are shared and each record is delivered once. In consumer
    groups no member revokes a partition that it keeps."""
    group.broker.create_topic(topic, PARTITIONS)
    everything = partitions_of(topic, PARTITIONS)
    one, two, three = (group.join(topic) for _ in range(3))
    group.settle([one, two, three], everything)
    assert group.broker.listed(group.name)[0] == driver.group_protocol
    seen_of_two, seen_of_three = len(two.events), len(three.events)

    group.broker.produce(topic, PARTITIONS, RECORDS)
    group.consumed([one, two, three], records_of(topic, PARTITIONS, 0, RECORDS))
    group.commit_in_the_end([one, two, three], dict.fromkeys(everything, RECORDS))

    one.kill()
    group.converge([two, three], everything)
    kept_by_two = not two.given_up(seen_of_two)
    two.leave()
    group.converge([three], everything)
    kept_by_three = not three.given_up(seen_of_three)
    four = group.join(topic)
    group.settle([three, four], everything)
    if driver.group_protocol == "consumer":
        assert kept_by_two, two.report()
        assert kept_by_three, three.report()
        assert three.given_up(seen_of_three) == four.owned, group.board.report()

    group.broker.produce(topic, PARTITIONS, RECORDS)
    group.consumed([three, four], records_of(topic, PARTITIONS, RECORDS, 2 * RECORDS))
    for member in (three, four):
        assert member.commit(), member.report()
    for member in (three, four):
        member.leave()
    group.broker.wait_committed(group.name, dict.fromkeys(everything, 2 * RECORDS))

    delivered = [record for member in (one, two, three, four) for record in member.records()]
    assert sorted(delivered) == sorted(records_of(topic, PARTITIONS, 0, 2 * RECORDS))


def test_new_group_members_resume_at_the_committed_offset(group: Group, topic: str, driver: Driver) -> None:
    """An empty group resumes at its committed offsets; uncommitted records come again."""
    group.broker.create_topic(topic, PARTITIONS)
    everything = partitions_of(topic, PARTITIONS)
    group.broker.produce(topic, PARTITIONS, RECORDS)
    first = group.join(topic)
    group.consumed([first], records_of(topic, PARTITIONS, 0, RECORDS))
    if driver.commits_by_itself:
        first.leave()
    else:
        group.commit([first], dict.fromkeys(everything, RECORDS))
        group.broker.produce(topic, PARTITIONS, 1)
        group.consumed([first], records_of(topic, PARTITIONS, RECORDS, RECORDS + 1))
        first.kill()

    group.broker.produce(topic, PARTITIONS, 1)
    end = RECORDS + (1 if driver.commits_by_itself else 2)
    second = group.join(topic)
    group.consumed([second], records_of(topic, PARTITIONS, RECORDS, end))
    assert sorted(second.records()) == sorted(records_of(topic, PARTITIONS, RECORDS, end))
    second.leave()
