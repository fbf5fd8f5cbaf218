"""Kafka's own log tool reads what groupd wrote: every commit, group, tombstone and index, in every codec."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from storage.compression import CODEC_NAMES
from tests.interop.build import CannotBuild
from tests.interop.daemon import Daemon
from tests.interop.requirement import lacking
from tests.kafka_log.connection import Connection
from tests.kafka_log.dump import Batch, Dumped, check_indexes, dump, records
from tests.kafka_log.history import (
    COMMITS,
    GROUP_METADATA,
    OFFSET_COMMIT,
    PARTITIONS,
    REBALANCE_TIMEOUT_MS,
    SESSION_TIMEOUT_MS,
    Deleted,
    fill,
)
from tests.kafka_log.view import View, view

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


class Written(NamedTuple):
    """What a daemon served before it stopped, and what Kafka's tool sees in its log."""

    codec: int
    served: View
    batches: list[Batch]
    deleted: Deleted


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the daemons' data directories are, one for each codec."""
    return tmp_path_factory.mktemp("codecs")


@pytest.fixture(scope="module")
def written(directory: Path) -> dict[int, Written]:
    """One daemon for each codec, of which one start of Kafka's tool then reads all segments."""
    served: dict[int, tuple[View, Deleted]] = {}
    for codec in CODEC_NAMES:
        data = directory / str(codec)
        daemon = Daemon(
            str(data),
            *("--topic", f"orders:{PARTITIONS}"),
            *("-o", f"offsets.topic.compression.codec={codec}", "-o", "offsets.topic.num.partitions=3"),
            *("-o", "offsets.topic.segment.bytes=9000"),
        )
        try:
            with Connection(daemon.bootstrap) as connection:
                deleted = fill(connection)
                served[codec] = view(connection), deleted
            daemon.stop()
        except BaseException:
            daemon.kill()
            raise
    try:
        batches = dump(sorted(map(str, directory.rglob("__consumer_offsets-*/*.log"))))
    except CannotBuild as reason:
        lacking(f"Kafka's log tool: {reason}")
    return {
        codec: Written(codec, seen, [batch for batch in batches if _is_of(batch, directory, codec)], deleted)
        for codec, (seen, deleted) in served.items()
    }


def _is_of(batch: Batch, directory: Path, codec: int) -> bool:
    return Path(batch.path).is_relative_to(directory / str(codec))


@pytest.fixture(params=sorted(CODEC_NAMES), ids=lambda codec: CODEC_NAMES[codec])
def log(request: pytest.FixtureRequest, written: dict[int, Written]) -> Written:
    """What was written in one codec."""
    return written[request.param]


def key_of(record: Dumped) -> tuple[Any, ...]:
    """A record's type and key."""
    return (record.type, *record.key.values())


def latest(batches: list[Batch]) -> Iterator[Dumped]:
    """The last record of each key; a group has all its records in one partition."""
    yield from {key_of(record): record for record in records(batches)}.values()


def test_every_batch_is_valid_and_has_what_kafka_would_write(log: Written) -> None:
    assert log.batches
    for batch in log.batches:
        assert batch.fields["isvalid"] == "true"
        assert batch.fields["compresscodec"] == CODEC_NAMES[log.codec]
        assert int(batch.fields["count"]) == len(batch.records)
        assert int(batch.fields["lastSequence"]) == len(batch.records) - 1
        constant = ("magic", "baseSequence", "producerId", "producerEpoch", "partitionLeaderEpoch")
        assert [batch.fields[name] for name in constant] == ["2", "0", "-1", "-1", "0"]
        assert (batch.fields["isTransactional"], batch.fields["isControl"]) == ("false", "false")


def test_it_shows_every_commit_that_is_served(log: Written) -> None:
    shown: dict[str, dict[str, list[Any]]] = {}
    for record in latest(log.batches):
        if record.type == OFFSET_COMMIT and record.value is not None:
            key, value = record.key, record.value
            offset = [value["offset"], value["leaderEpoch"], value["metadata"]]
            shown.setdefault(key["group"], {})[f"{key['topic']}-{key['partition']}"] = offset
    assert shown == {name: group["offsets"] for name, group in log.served.items() if group["offsets"]}


def test_it_shows_every_commit_that_was_made(log: Written) -> None:
    made = Counter(
        (record.key["group"], record.key["partition"], record.value["offset"])
        for record in records(log.batches)
        if record.type == OFFSET_COMMIT and record.value is not None
    )
    for group in ("by-hand-simple", "by-hand-dynamic"):
        for number in range(COMMITS):
            for partition in range(PARTITIONS):
                assert made[group, partition, 1000 + number + partition] == 1


def test_it_shows_every_group_that_is_served(log: Written) -> None:
    groups = {
        record.key["group"]: record.value
        for record in latest(log.batches)
        if record.type == GROUP_METADATA and record.value is not None
    }
    # A simple group has offsets and no metadata.
    assert groups.keys() == log.served.keys() - {"by-hand-simple"}
    for name, value in groups.items():
        served = log.served[name]
        assert served["state"] == ("Stable" if value["members"] else "Empty")
        assert (value["protocolType"], value["protocol"] or "") == (
            served["protocol_type"],
            served["protocol"],
        )
        for member in value["members"]:
            seen = served["members"][member["memberId"]]
            assert member["groupInstanceId"] == seen["group_instance_id"]
            assert (member["clientId"], member["clientHost"]) == (seen["client_id"], seen["client_host"])
            assert (member["sessionTimeout"], member["rebalanceTimeout"]) == (
                SESSION_TIMEOUT_MS,
                REBALANCE_TIMEOUT_MS,
            )
            assert value["generation"] == seen["generation"]
            assert value["leader"] == member["memberId"]
        assert len(value["members"]) == len(served["members"])


def test_it_shows_a_tombstone_for_whatever_was_deleted(log: Written) -> None:
    tombstones = {key_of(record) for record in latest(log.batches) if record.value is None}
    assert tombstones == log.deleted


def test_offsets_are_gapless_over_rolled_segments(log: Written) -> None:
    partitions: dict[str, list[Batch]] = {}
    for batch in log.batches:
        partitions.setdefault(str(Path(batch.path).parent), []).append(batch)
    for batches in partitions.values():
        offsets = [record.offset for record in records(batches)]
        assert offsets == list(range(len(offsets)))
    assert len({batch.path for batch in log.batches}) > len(partitions)


def test_kafka_accepts_the_indexes_and_their_entries_match_the_segments(
    directory: Path, written: dict[int, Written]
) -> None:
    assert written
    paths = sorted(map(str, directory.rglob("__consumer_offsets-*/*.*index")))
    assert any(Path(path).stat().st_size > 0 for path in paths if path.endswith(".index"))
    assert len(paths) == 2 * len(list(directory.rglob("__consumer_offsets-*/*.log")))
    check_indexes(paths)
