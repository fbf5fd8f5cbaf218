"""The end of a partition on another daemon's disk: this daemon does not know it, does not report it, and does not
treat it as a fault."""

from functools import partial

import pytest

from coordinator.control.admin.offset_operations import OffsetReset
from coordinator.control.diagnosis.violation import OracleName
from coordinator.control.diagnosis.wait_conditions import GroupConditions
from coordinator.control.problem import Problem, ProblemKind
from protocol.error_codes import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from storage.topic_partition import TopicPartition
from tests.cluster.daemon.cluster_daemons import Daemon, Daemons, daemons, eventually
from tests.cluster.daemon.records import create, write
from tests.cluster.daemon.test_admin_of_daemons import controlled, other_than

TOPIC = "spread"
LEADERS = ((1,), (2,), (1,))
PARTITIONS = range(len(LEADERS))
RECORDS = (b"a", b"b", b"c")
END = len(RECORDS)


async def commit(daemon: Daemon, offset: int) -> None:
    """In every partition, for a group without members."""
    parts = [
        OffsetCommitRequestPartition(partition_index=number, committed_offset=offset) for number in PARTITIONS
    ]
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=parts)
    answer = await daemon.ask(OffsetCommitRequest(group_id="g", topics=[topic]), 2)
    assert {part.error_code for part in answer.topics[0].partitions} == {ErrorCode.NONE}


def knows(daemon: Daemon) -> bool:
    """Return whether the daemon knows the topic and its leaders."""
    owns = daemon.server.membership.ownership.owns
    return daemon.server.data_plane.catalogue.find_topic(TOPIC) is not None and all(
        owns(leader, TopicPartition(TOPIC, number)) for number, (leader,) in enumerate(LEADERS)
    )


async def written(cluster: Daemons, asked: Daemon) -> set[int]:
    """Write records to each partition; return the partitions that the `asked` daemon leads."""
    assert await create(asked, name=TOPIC, assignments=LEADERS) == ErrorCode.NONE
    for daemon in cluster.by_id.values():
        await eventually(partial(knows, daemon))
    for number, (leader,) in enumerate(LEADERS):
        await write(cluster.by_id[leader], *RECORDS, number=number, name=TOPIC)
    return {number for number, (leader,) in enumerate(LEADERS) if leader == asked.node_id}


async def test_a_group_whose_partitions_are_of_two_daemons() -> None:
    async with daemons(None, 2, **{"oracle.commits": "true"}) as cluster:
        before = await cluster.owner()
        asked = await other_than(cluster, before)
        own = await written(cluster, asked)
        async with controlled(asked) as control, controlled(before) as moving:
            # Commits are watched in partitions that are read from then on.
            moving.cluster.move_partition(
                *before.server.runtime.find_partition("g").name, asked.node_id, 0, None
            )
            await eventually(lambda: asked.coordinates("g"))
            await commit(asked, 1)
            told = await control.offsets.describe_offsets("g")
            left = END - 1
            assert {one.partition: one.lag for one in told.offsets} == {
                number: left if number in own else None for number in PARTITIONS
            }
            with pytest.raises(Problem) as unmet:
                await control.waits.check_conditions("g", GroupConditions(lag_max=left, topics=[TOPIC]))
            assert unmet.value.kind is ProblemKind.NOT_MET
            figures = await control.group_metrics.take_snapshot(lambda group_id: group_id == "g")
            assert {place: ends.end for place, ends in figures.ends.items()} == {
                (TOPIC, number): END for number in own
            }
            for reset in (OffsetReset(to="latest"), OffsetReset(to_time_ms=0), OffsetReset(to="-1")):
                with pytest.raises(Problem) as refused:
                    await control.offsets.reset_offsets("g", reset, None)
                assert refused.value.kind is ProblemKind.NOT_POSSIBLE
            latest = OffsetReset(to="latest", topics=[f"{TOPIC}-{number}" for number in own])
            changed = await control.offsets.reset_offsets("g", latest, None)
            assert {one.partition: one.offset for one in changed.offsets} == dict.fromkeys(own, END)
            await commit(asked, END + 1)
            found = control.oracles.violations.list_after(
                limit=1000, group_id="g", oracle=OracleName.COMMIT_BEYOND_END
            )
            assert {violation.partition for violation in found} == own
