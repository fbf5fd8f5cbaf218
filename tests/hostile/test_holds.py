"""The largest request of each kind: how long nobody else is answered because of it.

What is judged is the processor time of the loop, which a busy machine lengthens far less than the time by the
clock, and the neighbour's heartbeats beside those of a daemon in peace.
"""

from pathlib import Path
from typing import Final

import pytest

from tests.hostile.holds import MODULE, Holds
from tests.hostile.largest import LARGEST
from tests.hostile.shapes import KNOWN
from tests.hostile.siege.attacker import frame
from tests.hostile.siege.siege import besieged
from tests.hostile.watched_loop import FILE

MOST_S: Final = 0.25
"""Of the processor. It is less than 0.1 s on a quiet machine of two slow cores."""
KNOWN_PARTITIONS: Final = 2_000
KINDS: Final = {
    "offsets": [
        "OffsetCommit: partitions",
        "OffsetCommit: topics",
        "OffsetFetch: groups",
        "OffsetDelete: topics",
    ],
    "groups": ["FindCoordinator", "DescribeGroups", "DeleteGroups", "LeaveGroup", "SyncGroup"],
    "consumer groups": [
        "ConsumerGroupHeartbeat: names",
        "ConsumerGroupHeartbeat: full",
        "ConsumerGroupHeartbeat: the same name",
        "ConsumerGroupHeartbeat: owned",
        "ConsumerGroupHeartbeat: an expression",
        "ConsumerGroupHeartbeat: topics",
        "ConsumerGroupHeartbeat: partitions",
        "ConsumerGroupDescribe",
    ],
    "records": ["Produce: partitions", "Produce: topics", "Fetch: topics", "ListOffsets: topics"],
    "topics": ["Metadata: names", "CreateTopics: names", "CreatePartitions: names", "DeleteTopics"],
    "leaders": [
        "AlterPartitionReassignments: topics",
        "AlterPartitionReassignments: replicas",
        "ListPartitionReassignments: partitions",
        "ElectLeaders: partitions",
    ],
    "transactions": [
        "AddPartitionsToTxn: topics",
        "WriteTxnMarkers: topics",
        "TxnOffsetCommit: topics",
        "DescribeTransactions",
    ],
    "configs": ["AlterConfigs: configs", "IncrementalAlterConfigs: configs", "DescribeConfigs: keys"],
}


@pytest.mark.parametrize("kind", KINDS)
async def test_the_largest_requests_let_others_in(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "holds"
    path.touch()
    frames = {name: frame(LARGEST[name].make(), LARGEST[name].version) for name in KINDS[kind]}
    topic = ["--topic", f"{KNOWN}:{KNOWN_PARTITIONS}"]
    async with besieged(tmp_path, topic, module=MODULE, variables={FILE: str(path)}) as siege:
        holds = Holds(path)
        await siege.begin()
        holds.longest()
        longest = {}
        for name, data in frames.items():
            hostile = await siege.attacker.connect()
            await hostile.send(data)
            assert await hostile.answer() is not None, name
            longest[name] = holds.longest().cpu_s
        toll = await siege.toll()
        assert max(longest.values()) < MOST_S, longest
        assert toll.is_bearable(), toll
