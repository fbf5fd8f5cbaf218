"""groupd's compaction of a real broker's logs keeps the state that the broker served."""

import struct
from pathlib import Path

import pytest

from protocol.records.group_record_schemas import OffsetCommitKey
from protocol.records.group_record_serde import encode_key
from storage.files import OsFiles
from storage.log import PartitionLog
from storage.log_config import LogConfig
from storage.record import Record
from tests.broker.server_thread import ServerThread
from tests.kafka_log.fixture import NAMES, OFFSETS_PARTITION, expected, unpack
from tests.kafka_log.test_fixtures import ask, comparable, of_groupd
from tests.storage.compaction.compacting import compact, records

SERVED_KEY_VERSIONS = (*range(9), 16)
LATER_MS = 2**42
"""A wall clock at which no young record holds compaction back."""


def of_other_types(log: PartitionLog) -> dict[bytes, bytes | None]:
    """The latest record of each key that groupd does not serve."""
    return {
        record.key: record.value
        for record in records(log)
        if record.key is not None and struct.unpack_from(">h", record.key)[0] not in SERVED_KEY_VERSIONS
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_brokers_log_says_the_same_after_compaction(name: str, tmp_path: Path) -> None:
    unpack(name, str(tmp_path))
    config = LogConfig(segment_bytes=1, cleanup_policy="compact")
    key = encode_key(OffsetCommitKey(group="of-this-test", topic="orders", partition=0))
    shrunk = 0
    for directory in filter(lambda path: OFFSETS_PARTITION.fullmatch(path.name), sorted(tmp_path.iterdir())):
        log = PartitionLog.open(OsFiles(), str(directory), config)
        if not log.log_end_offset:
            log.close()
            continue
        before = of_other_types(log)
        # The tombstone of no group begins a new segment, so that all that the broker wrote lies in sealed ones.
        log.append_records([Record(-1, 0, key, None)])
        done = compact(log, 0, LATER_MS)
        shrunk += done.records_before - done.records_after
        after = of_other_types(log)
        assert {key: value for key, value in before.items() if value is not None}.items() <= after.items()
        log.close()
    assert shrunk > 0
    daemon = ServerThread(str(tmp_path))
    try:
        wanted = of_groupd(expected(name)["served"])
        assert comparable(ask(daemon), wanted) == wanted
    finally:
        daemon.stop()
