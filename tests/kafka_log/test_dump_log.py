"""Kafka's own log tool reads groupd's logs: every commit, group, tombstone and index, in every codec."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from storage.compression import CODEC_NAMES
from tests.broker.server_thread import ServerThread
from tests.interop.build import CannotBuild
from tests.interop.requirement import lacking
from tests.kafka_log.connection import Connection
from tests.kafka_log.consumer_history import (
    AT_ONCE,
    CURRENT,
    EPOCH,
    MEMBER,
    REGEX,
    TARGET,
    TARGET_EPOCH,
    make_consumer_groups,
)
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
from tests.kafka_log.view import CLASSIC, CONSUMER, View, view

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]


class Written(NamedTuple):
    """The groups of a daemon before its stop, and the batches of its log as Kafka's tool prints them."""

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
    """One server for each codec, of which one start of Kafka's tool then reads all segments."""
    served: dict[int, tuple[View, Deleted]] = {}
    for codec in CODEC_NAMES:
        data = directory / str(codec)
        daemon = ServerThread(
            str(data),
            {
                "offsets.topic.compression.codec": str(codec),
                "offsets.topic.num.partitions": "3",
                "offsets.topic.segment.bytes": "9000",
                **AT_ONCE,
            },
            topics=[("orders", PARTITIONS)],
        )
        try:
            with Connection(daemon.bootstrap) as connection:
                deleted = fill(connection) | make_consumer_groups(connection, "by-hand-of-groupd")
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
    classic = {name for name, group in log.served.items() if group["type"] == CLASSIC}
    assert groups.keys() == classic - {"by-hand-simple"}
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


def test_it_shows_every_consumer_group_that_is_served(log: Written) -> None:
    groups = {name: group for name, group in log.served.items() if group["type"] == CONSUMER}
    values = {key_of(record): record.value for record in latest(log.batches) if record.value is not None}
    for name, group in groups.items():
        epochs = [values[EPOCH, name]["epoch"], values[TARGET_EPOCH, name]["assignmentEpoch"]]
        assert epochs == group["epochs"]
        for member_id, seen in group["members"].items():
            said, stands = values[MEMBER, name, member_id], values[CURRENT, name, member_id]
            assert (said["instanceId"], said["rackId"]) == (seen["group_instance_id"], seen["rack_id"])
            assert (said["clientId"], said["clientHost"]) == (seen["client_id"], seen["client_host"])
            assert (said["subscribedTopicNames"], said["subscribedTopicRegex"] or "") == (
                seen["topics"],
                seen["regex"],
            )
            assert (said["classicMemberMetadata"] is None) == (seen["member_type"] == 1)
            assert stands["memberEpoch"] == seen["epoch"]
            had = [*stands["assignedPartitions"], *stands["partitionsPendingRevocation"]]
            assert partitions(had) == seen["assignment"].get("orders", [])
            target = values[TARGET, name, member_id]["topicPartitions"]
            assert partitions(target) == seen["target"].get("orders", [])
        members = {
            member_id for kind, *key in values if kind == MEMBER for of, member_id in [key] if of == name
        }
        assert members == group["members"].keys()
    resolved = {key[1]: value["topics"] for key, value in values.items() if key[0] == REGEX}
    assert resolved == {"by-hand-of-groupd-regex": ["orders"]}


def partitions(rows: list[Any]) -> list[int]:
    """Of the one topic there is."""
    return sorted(partition for row in rows for partition in row["partitions"])


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
