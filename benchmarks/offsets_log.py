"""A synthetic `__consumer_offsets` for benchmarks of its readers: many groups commit, few rebalance."""

import os
import random
from typing import Final

from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
    encode_assignment,
    encode_subscription,
)
from protocol.records.group_record_schemas import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.records.group_record_serde import encode_key, encode_value
from storage.batch import encode_batch
from storage.record import Record
from storage.segment import format_segment_name

PARTITIONS: Final = 50
GROUPS: Final = 300
SEGMENT_BYTES: Final = 16 * 1024 * 1024
BATCH_SIZES: Final = (1, 4, 6, 6, 8, 12)  # partitions in one commit
REBALANCE_EVERY: Final = 700  # batches of one log partition
_VALUE_VERSION: Final = 3


class Written:
    """The content of one log."""

    def __init__(self) -> None:
        self.bytes = 0
        self.records = 0
        self.commits = 0

    def add(self, other: "Written") -> None:
        """Return the sum of two logs."""
        self.bytes += other.bytes
        self.records += other.records
        self.commits += other.commits


def write_log(directory: str, commits: int, seed: int = 1) -> Written:
    """Write about `commits` commits into segments of a broker's directory. The same seed gives the same log."""
    written = Written()
    for partition in range(PARTITIONS):
        written.add(write_partition(directory, partition, commits // PARTITIONS, seed))
    return written


def write_partition(
    directory: str,
    partition: int,
    commits: int,
    seed: int = 1,
    *,
    groups: int = GROUPS,
    beyond: tuple[str, int] | None = None,
) -> Written:
    """Write the segments of one partition and return their content.

    `beyond` is another directory and a number of further commits. Its segments can be moved beside the first ones
    later; the result does not count them.
    """
    written = Written()
    chance = random.Random(seed * 1000 + partition)
    path = os.path.join(directory, f"__consumer_offsets-{partition}")
    os.makedirs(path)
    names = [f"group-{number}" for number in range(partition, groups, PARTITIONS)]
    positions: dict[tuple[str, int], int] = {}
    offset, time_ms, batches, left = 0, 1_767_225_600_000, 0, commits
    file, room = open(os.path.join(path, format_segment_name(0) + ".log"), "wb"), SEGMENT_BYTES  # noqa: SIM115
    first = written
    while left > 0 or beyond is not None:
        if left <= 0 and beyond is not None:
            path, left, room, beyond = os.path.join(beyond[0], os.path.basename(path)), beyond[1], 0, None
            os.makedirs(path)
            written = Written()
        group = chance.choice(names)
        time_ms += chance.randrange(40)
        if batches % REBALANCE_EVERY == 0:
            records = [_generation(group, batches // REBALANCE_EVERY + 1, time_ms)]
        else:
            records = []
            for number in range(chance.choice(BATCH_SIZES)):
                positions[group, number] = positions.get((group, number), 0) + chance.randrange(200)
                records.append(_commit(group, number, positions[group, number], time_ms))
            left -= len(records)
            written.commits += len(records)
        batch = encode_batch(records, offset, base_sequence=0)
        if room < len(batch):
            file.close()
            file, room = open(os.path.join(path, format_segment_name(offset) + ".log"), "wb"), SEGMENT_BYTES  # noqa: SIM115
        file.write(batch)
        room -= len(batch)
        offset += len(records)
        batches += 1
        written.bytes += len(batch)
        written.records += len(records)
    file.close()
    return first


def _commit(group: str, partition: int, offset: int, time_ms: int) -> Record:
    key = OffsetCommitKey(group=group, topic="orders-of-the-day", partition=partition)
    value = OffsetCommitValue(offset=offset, leader_epoch=0, metadata="", commit_timestamp=time_ms)
    return Record(-1, time_ms, encode_key(key), encode_value(value, _VALUE_VERSION))


def _generation(group: str, generation: int, time_ms: int) -> Record:
    topic = "orders-of-the-day"
    subscription = encode_subscription(ConsumerProtocolSubscription(topics=[topic], user_data=None), 1)
    members = [
        MemberMetadata(
            member_id=f"{group}-member-{number}",
            client_id="billing",
            client_host="/10.0.0.1",
            rebalance_timeout=300_000,
            session_timeout=45_000,
            subscription=subscription,
            assignment=encode_assignment(
                ConsumerProtocolAssignment(
                    assigned_partitions=[TopicPartitions(topic=topic, partitions=list(range(number, 12, 3)))],
                    user_data=None,
                ),
                1,
            ),
        )
        for number in range(3)
    ]
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=generation,
        protocol="range",
        leader=members[0].member_id,
        current_state_timestamp=time_ms,
        members=members,
    )
    return Record(-1, time_ms, encode_key(GroupMetadataKey(group=group)), encode_value(value, _VALUE_VERSION))
