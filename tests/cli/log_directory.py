"""Data directories on a real disk, written by the engine, and the command that reads them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from coordinator.cli.main import groupd
from protocol.records.group_record_serde import Key, Value, encode_key, encode_value
from storage.batch import encode_batch
from storage.data_directory import DataDirectory
from storage.files import OsFiles
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.metadata_files import MetaProperties
from storage.record import Record
from storage.topic_partition import TopicPartition

OFFSETS = TopicPartition("__consumer_offsets", 3)
ORDERS = TopicPartition("orders", 0)
META = MetaProperties("cluster", 1, "directory")
SMALL_SEGMENTS = LogConfig(segment_bytes=2000, index_interval_bytes=300)

Batch = Sequence[Record] | bytes


def write_data_directory(
    path: Path, logs: dict[TopicPartition, Sequence[Batch]], config: LogConfig | None = None
) -> None:
    """A data directory, cleanly closed. A batch is its records, or its bytes."""
    directory = DataDirectory.open(OsFiles(), str(path), META)
    opened: dict[TopicPartition, PartitionLog] = {}
    for name, batches in logs.items():
        opened[name] = directory.open_log(name, config or LogConfig())
        for batch in batches:
            opened[name].append(batch if isinstance(batch, bytes) else encode_batch(batch, base_sequence=0))
    directory.close(opened)


def fact(key: Key, value: Value | None, version: int = 3, timestamp_ms: int = 1_700_000_000_000) -> Record:
    """A record of `__consumer_offsets`."""
    return Record(-1, timestamp_ms, encode_key(key), None if value is None else encode_value(value, version))


def log(*arguments: object) -> Result:
    """Runs `groupd log …` in this process."""
    return CliRunner().invoke(groupd, ["log", *map(str, arguments)], catch_exceptions=False)


def json_lines(result: Result, exit_code: int = 0) -> list[dict[str, Any]]:
    """What a command printed, line by line."""
    assert result.exit_code == exit_code, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def segments(path: Path, name: TopicPartition = OFFSETS) -> list[Path]:
    """The segments of a partition."""
    return sorted((path / str(name)).glob("*.log"))


def flip(path: Path, at: int) -> None:
    """Spoils one byte of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 0x5A
    path.write_bytes(data)
