"""Endless commits to a cluster of three daemons: etcd must hold about the size of the compacted data.

python -m tests.cluster.etcd.soak [--minutes 30]

Exits with 1 if a partition in etcd ever exceeded 8 MiB, or twice its size after compaction.
"""

import argparse
import asyncio
import itertools
import sys
import tempfile
from pathlib import Path
from typing import Final

from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.etcd.etcd_store import EtcdCredentials, EtcdStore
from coordinator.cluster.member.key_mirror import read_range
from coordinator.core.shared_types import CONSUMER_OFFSETS
from protocol.error_codes import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.harness import Client
from tests.cluster.etcd.conftest import CLUSTER_ID, Groupds, three_daemons
from tests.cluster.etcd.history import History

KEYS: Final = ClusterKeys(CLUSTER_ID)
PARTITIONS: Final = 5
MOST_BYTES: Final = 8 << 20
SLACK_BYTES: Final = 2 << 20
"""What comes while something is sealed."""
SAMPLE_S: Final = 10
MOVED: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
METADATA: Final = "x" * 100


async def commit_forever(groupds: Groupds, group: str, count: "itertools.count[int]") -> None:
    """Commit offsets of two partitions, one after the other. Find the coordinator again after each move."""
    while True:
        port = groupds.ports[await History(groupds.ports, group).owner()]
        async with Client(port=port) as client:
            while True:
                error = await _commit(client, group, next(count))
                if error:
                    assert error in MOVED, error
                    break
        await asyncio.sleep(0.1)


async def _commit(client: Client, group: str, number: int) -> ErrorCode:
    parts = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=number, committed_metadata=METADATA
        )
        for index in range(2)
    ]
    topic = OffsetCommitRequestTopic(name="orders", partitions=parts)
    answer = await client.call(OffsetCommitRequest(group_id=group, topics=[topic]), 2)
    return ErrorCode(max(part.error_code for part in answer.topics[0].partitions))


async def held_bytes(engine: EtcdStore) -> list[int]:
    """What etcd has of each partition."""
    sizes = []
    for number in range(PARTITIONS):
        ranges = KEYS.log_range(CONSUMER_OFFSETS, number), KEYS.segments_range(CONSUMER_OFFSETS, number)
        entries = [entry for begin, end in ranges for entry in (await read_range(engine, begin, end))[0]]
        sizes.append(sum(len(entry.value) for entry in entries))
    return sizes


async def soak(groupds: Groupds, minutes: float) -> bool:
    """Whether it stayed within bounds."""
    engine = EtcdStore(groupds.etcd.endpoints.split(","), 5000, EtcdCredentials())
    count, most, ends = itertools.count(), 0, asyncio.get_running_loop().time() + minutes * 60
    async with asyncio.TaskGroup() as tasks:
        writers = [
            tasks.create_task(commit_forever(groupds, f"soak-{number}", count)) for number in range(40)
        ]
        while asyncio.get_running_loop().time() < ends:
            await asyncio.sleep(SAMPLE_S)
            sizes = await held_bytes(engine)
            most = max(most, *sizes)
            print(
                f"{next(count):,} commits; etcd holds {', '.join(f'{size:,}' for size in sizes)}", flush=True
            )
        for writer in writers:
            writer.cancel()
    await engine.close()
    print(f"most of a partition: {most:,} bytes")
    # After compaction at most 80 records of a partition remain: their size is negligible.
    return most <= MOST_BYTES + SLACK_BYTES


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, three_daemons(Path(directory)) as groupds:
        return 0 if asyncio.run(soak(groupds, given.minutes)) else 1


if __name__ == "__main__":
    sys.exit(main())
