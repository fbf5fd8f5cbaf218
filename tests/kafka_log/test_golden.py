"""Kafka's own bytes: each record and batch decodes, and encodes to the very same bytes."""

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import asdict

from protocol.records.group_record_schemas import GroupMetadataKey, OffsetCommitKey
from protocol.records.group_record_serde import (
    Key,
    UnknownKey,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from storage.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD,
    check_crc,
    decode_records,
    encode_batch,
    read_header,
    rewrite_batch,
)
from storage.compression import NONE, decompress
from storage.record import encode_records_at
from storage.topic_partition import uuid_to_text
from tests.kafka_log.fixture import FIXTURES, NAMES, OFFSETS_PARTITION, unpack


def lines() -> list[dict[str, Any]]:
    """Keys and values as Kafka's generated classes wrote them, with their fields."""
    with open(os.path.join(FIXTURES, "values.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


LINES = lines()
KEYS = [line for line in LINES if line["name"].endswith("Key")]
VALUES = [line for line in LINES if line["name"].endswith("Value")]
KEY_OF: dict[str, Key] = {
    "OffsetCommitValue": OffsetCommitKey(group="g", topic="t", partition=0),
    "GroupMetadataValue": GroupMetadataKey(group="g"),
}


def camel(name: str) -> str:
    first, *more = name.split("_")
    return first + "".join(word.capitalize() for word in more)


def as_kafka_prints(thing: Any) -> Any:
    """A decoded record in the form of Kafka's JSON converters."""
    if isinstance(thing, Struct):
        return {camel(name): as_kafka_prints(value) for name, value in asdict(thing).items()}
    if isinstance(thing, list):
        return [as_kafka_prints(part) for part in thing]
    return thing


def assert_same(ours: Any, kafkas: Any) -> None:
    """Every field that Kafka names has its value; bytes are base64 there, ids text."""
    if isinstance(kafkas, dict):
        for name, value in kafkas.items():
            assert_same(ours[name], value)
    elif isinstance(kafkas, list):
        assert len(ours) == len(kafkas)
        for our, kafka in zip(ours, kafkas, strict=True):
            assert_same(our, kafka)
    elif isinstance(ours, bytes):
        assert kafkas in (uuid_to_text(ours) if len(ours) == 16 else None, base64.b64encode(ours).decode())
    else:
        assert ours == kafkas


@pytest.mark.parametrize("line", KEYS)
def test_a_key_is_kafkas(line: dict[str, Any]) -> None:
    data = bytes.fromhex(line["hex"])
    key = decode_key(data)
    assert not isinstance(key, UnknownKey)
    assert type(key).__name__ == line["name"]
    assert_same(as_kafka_prints(key), line["fields"])
    assert encode_key(key) == data


@pytest.mark.parametrize("line", VALUES, ids=lambda line: f"{line['name']}-v{line['version']}")
def test_a_value_of_every_version_is_kafkas(line: dict[str, Any]) -> None:
    data = bytes.fromhex(line["hex"])
    value = decode_value(KEY_OF[line["name"]], data)
    assert_same(as_kafka_prints(value), line["fields"])
    assert encode_value(value, line["version"]) == data


def test_no_version_is_missing() -> None:
    assert {(line["name"], line["version"]) for line in VALUES} == {
        (name, version) for name in KEY_OF for version in range(5)
    }


@pytest.fixture(scope="module")
def batches(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Every batch of the captured offsets logs."""
    found: list[bytes] = []
    for name in NAMES:
        data = tmp_path_factory.mktemp(name)
        unpack(name, str(data))
        found += _read(data)
    assert len(found) > 500
    return found


def _read(data: Path) -> Iterator[bytes]:
    for segment in sorted(data.glob("__consumer_offsets-*/*.log")):
        assert OFFSETS_PARTITION.fullmatch(segment.parent.name)
        content = segment.read_bytes()
        while content:
            size = read_header(content).batch_length + LOG_OVERHEAD
            yield content[:size]
            content = content[size:]


def test_a_batch_of_consecutive_records_encodes_to_kafkas_bytes(batches: list[bytes]) -> None:
    """All that the broker wrote and compaction left alone; packed ones have the same bytes once unpacked."""
    compared = 0
    for batch in batches:
        header = read_header(batch)
        check_crc(batch, 0, header)
        records = decode_records(batch, header)
        if header.records_count != header.last_offset_delta + 1 or header.delete_horizon_ms is not None:
            continue
        compared += 1
        encoded = encode_batch(
            records,
            header.base_offset,
            leader_epoch=header.partition_leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            is_transactional=header.is_transactional,
            is_control=header.is_control,
        )
        if header.codec == NONE:
            assert encoded == batch
        else:
            assert encoded[HEADER_BYTES:] == decompress(header.codec, batch[HEADER_BYTES:])
    assert compared > len(batches) // 2


def test_a_batch_that_was_compacted_is_rewritten_to_kafkas_bytes(batches: list[bytes]) -> None:
    compared = 0
    for batch in batches:
        header = read_header(batch)
        if header.records_count == header.last_offset_delta + 1 and header.delete_horizon_ms is None:
            continue
        compared += 1
        records = decode_records(batch, header)
        rewritten = rewrite_batch(header, records, header.delete_horizon_ms)
        assert rewritten[21:HEADER_BYTES] == batch[21:HEADER_BYTES]
        if header.codec == NONE:
            assert rewritten == batch
        else:
            section = encode_records_at(records, header.base_timestamp_ms, header.base_offset)
            assert section == decompress(header.codec, batch[HEADER_BYTES:])
    assert compared > 0


def test_every_key_and_value_encodes_to_kafkas_bytes(batches: list[bytes]) -> None:
    values = 0
    for batch in batches:
        if read_header(batch).is_control:
            continue
        for record in decode_records(batch):
            assert record.key is not None
            key = decode_key(record.key)
            if isinstance(key, UnknownKey):
                continue
            assert encode_key(key) == record.key
            if record.value is not None:
                version = int.from_bytes(record.value[:2], "big")
                assert encode_value(decode_value(key, record.value), version) == record.value
                values += 1
    assert values > 500
