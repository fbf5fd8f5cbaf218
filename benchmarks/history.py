"""A data directory with a long past: millions of commits, as a daemon would have left them at a clean stop."""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from coordinator.core.outcome import Fact
from coordinator.group.group_record_codec import GroupRecordCodec
from coordinator.runtime.producer_batch import BASE_SEQUENCE
from protocol.partitioner import partition_for
from protocol.records.group_record_schemas import OffsetCommitKey, OffsetCommitValue
from storage.batch import encode_batch
from storage.data_directory import DataDirectory
from storage.files import OsFiles
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.metadata_files import MetaProperties
from storage.record import UNASSIGNED_OFFSET, Record
from storage.topic_partition import TopicPartition

GROUPS: Final = 200
PARTITIONS_OF_A_GROUP: Final = 10
OFFSETS_PARTITIONS: Final = 50
KEYS: Final = GROUPS * PARTITIONS_OF_A_GROUP
TOPIC: Final = "orders"
_TOPIC_ID: Final = bytes(range(16))
_BEGAN_MS: Final = 1_750_000_000_000
_OFFSETS: Final = "__consumer_offsets"
_CONFIG: Final = LogConfig(cleanup_policy="compact")


def _open(data_dir: str) -> DataDirectory:
    return DataDirectory.open(
        OsFiles(), data_dir, MetaProperties("AAAAAAAAAAAAAAAAAAAAAA", 1, "AAAAAAAAAAAAAAAAAAAAAQ")
    )


def group_name(number: int) -> str:
    """Of one of the groups."""
    return f"consumer-of-orders-{number:03d}"


def write_history(
    data_dir: str,
    commits: int,
    commits_in_a_batch: int,
    segment_bytes: int = 100 * 1024 * 1024,
    partitions_of_a_group: int = PARTITIONS_OF_A_GROUP,
) -> int:
    """Fills a new data directory; the number of bytes of its logs.

    200 groups commit their partitions, in turn; `commits_in_a_batch` of a group (no more than it has partitions) go
    in one batch.
    """
    directory = _open(data_dir)
    logs = {
        number: directory.open_log(
            TopicPartition(_OFFSETS, number), replace(_CONFIG, segment_bytes=segment_bytes), _TOPIC_ID
        )
        for number in range(OFFSETS_PARTITIONS)
    }
    groups = [group_name(number) for number in range(GROUPS)]
    log_of = {group: logs[partition_for(group, OFFSETS_PARTITIONS)] for group in groups}
    encode = GroupRecordCodec().encoder()
    written = 0
    while written < commits:
        group = groups[written // commits_in_a_batch % GROUPS]
        now_ms = _BEGAN_MS + written
        first = written // (commits_in_a_batch * GROUPS) * commits_in_a_batch
        batch = []
        for number in range(first, first + commits_in_a_batch):
            key = OffsetCommitKey(group=group, topic=TOPIC, partition=number % partitions_of_a_group)
            value = OffsetCommitValue(
                offset=number, leader_epoch=0, metadata="", commit_timestamp=now_ms, topic_id=_TOPIC_ID
            )
            batch.append(Record(UNASSIGNED_OFFSET, now_ms, *encode(Fact(key, value, 4))))
        log_of[group].append(encode_batch(batch, base_sequence=BASE_SEQUENCE))
        written += len(batch)
    size_bytes = sum(log.size_bytes for log in logs.values())
    directory.close({TopicPartition(_OFFSETS, number): log for number, log in logs.items()})
    return size_bytes


def open_logs(data_dir: str) -> Iterator[PartitionLog]:
    """Each log of a history, open until all were read; the directory then counts as cleanly stopped."""
    directory = _open(data_dir)
    logs = {}
    for number in range(OFFSETS_PARTITIONS):
        name = TopicPartition(_OFFSETS, number)
        logs[name] = directory.open_log(name, _CONFIG)
        yield logs[name]
    directory.close(logs)
