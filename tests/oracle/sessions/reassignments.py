"""AlterPartitionReassignments, ListPartitionReassignments, ElectLeaders, where there is one broker."""

from collections.abc import Sequence

from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.oracle.play import Play
from tests.oracle.session import session

PREFERRED, UNCLEAN = 0, 1
THIS = [1]
_TIMEOUT_MS = 20_000

Wanted = tuple[str, int, list[int] | None]
"""A topic, a partition, and the replicas that it is to have."""


def reassign(
    *wanted: Wanted, timeout_ms: int = _TIMEOUT_MS, changes_count: bool = True
) -> AlterPartitionReassignmentsRequest:
    """For one partition after the other; a topic comes once for each."""
    return AlterPartitionReassignmentsRequest(
        timeout_ms=timeout_ms,
        allow_replication_factor_change=changes_count,
        topics=[
            ReassignableTopic(
                name=name, partitions=[ReassignablePartition(partition_index=number, replicas=replicas)]
            )
            for name, number, replicas in wanted
        ],
    )


def elect(
    *wanted: tuple[str, Sequence[int]], election_type: int = PREFERRED, timeout_ms: int = _TIMEOUT_MS
) -> ElectLeadersRequest:
    """For partitions of topics."""
    return ElectLeadersRequest(
        election_type=election_type,
        topic_partitions=[TopicPartitions(topic=name, partitions=list(numbers)) for name, numbers in wanted],
        timeout_ms=timeout_ms,
    )


@session(version=(0, 1))
def partitions_are_reassigned_where_they_are(play: Play, version: int) -> None:
    orders, unknown = play.topic("orders", 3).name, play.name("unknown")
    play.ask(reassign((orders, 0, THIS)), version, note="to where it is")
    play.ask(reassign((orders, 0, [2])), version, note="to a broker that is not there")
    play.ask(reassign((orders, 0, [1, 2])), version, note="to one more")
    play.ask(reassign((orders, 0, [])), version, note="to none")
    play.ask(reassign((orders, 0, [1, 1])), version, note="to one twice")
    play.ask(reassign((orders, 0, [-1])), version, note="to a strange one")
    play.ask(reassign((orders, 0, None)), version, note="nothing to cancel")
    play.ask(reassign((unknown, 0, THIS), (unknown, 1, None)), version, note="an unknown topic")
    play.ask(reassign((orders, 3, THIS), (orders, -1, None)), version, note="unknown partitions")
    play.ask(reassign((orders, 1, [7]), (orders, 2, THIS), (orders, 1, None)), version, note="several")
    play.ask(reassign(), version, note="nothing")
    play.ask(
        AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=orders, partitions=[])]),
        version,
        note="no partitions",
    )
    play.ask(reassign((orders, 0, THIS), changes_count=False), version, note="as many as before")


@session(version=(0, 1))
def a_reassignment_without_time(play: Play, version: int) -> None:
    orders = play.topic("orders", 1).name
    for timeout_ms in (0, -1):
        play.ask(reassign((orders, 0, [2]), timeout_ms=timeout_ms), version, note=f"{timeout_ms} ms")
    play.ask(reassign(timeout_ms=0), version, note="nothing")


@session()
def reassignments_are_listed(play: Play) -> None:
    orders = play.topic("orders", 2).name

    def asked(*topics: tuple[str, list[int]]) -> ListPartitionReassignmentsRequest:
        return ListPartitionReassignmentsRequest(
            topics=[
                ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers)
                for name, numbers in topics
            ]
        )

    play.ask(ListPartitionReassignmentsRequest(topics=None), 0, note="all")
    play.ask(asked(), 0, note="none")
    play.ask(asked((orders, [0, 1])), 0, note="some")
    play.ask(asked((orders, [2, -1]), (play.name("unknown"), [0])), 0, note="unknown ones")
    play.ask(ListPartitionReassignmentsRequest(topics=None, timeout_ms=-1), 0, note="without time")


@session(version=(0, 1, 2))
def leaders_are_elected(play: Play, version: int) -> None:
    orders, unknown = play.topic("orders", 2).name, play.name("unknown")
    play.ask(elect((orders, [0, 1])), version, note="who leads already")
    play.ask(elect((orders, [0, 2, -1]), (unknown, [0, 1])), version, note="unknown ones")
    play.ask(elect((orders, [])), version, note="no partitions")
    play.ask(elect(), version, note="no topics")
    play.ask(elect((orders, [1, 1]), (orders, [1])), version, note="one again and again")
    play.ask(ElectLeadersRequest(topic_partitions=None), version, note="all", own=True)
    for timeout_ms in (0, -1):
        play.ask(elect((orders, [0]), timeout_ms=timeout_ms), version, note=f"{timeout_ms} ms")
    play.ask(elect(timeout_ms=-1), version, note="no topics, no time")
    if version:
        play.ask(elect((orders, [0]), election_type=2, timeout_ms=0), version, note="type 2, no time")
        for kind in (UNCLEAN, 2, -1):
            play.ask(elect((orders, [0]), election_type=kind), version, note=f"type {kind}")
            everywhere = ElectLeadersRequest(election_type=kind, topic_partitions=None)
            play.ask(everywhere, version, note=f"type {kind}, all", own=True)
