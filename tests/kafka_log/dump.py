"""The output of Kafka's own log tool about segment files."""

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.kafka_log.artifacts import dump_log

TIMEOUT_S: Final = 100
_FIELD: Final = re.compile(r"(\w+): (\S+)")
_RECORD: Final = re.compile(r"\| offset: (\d+) \w+: (-?\d+) .*?headerKeys: \[.*?\] ?(.*)")
_MARKER: Final = re.compile(r"endTxnMarker: (\w+)")
_TOMBSTONE: Final = "<DELETE>"


@dataclass(frozen=True, slots=True)
class Batch:
    """A line about a batch: its fields by Kafka's names, and its records."""

    path: str
    fields: dict[str, str]
    records: "list[Dumped]"


@dataclass(frozen=True, slots=True)
class Dumped:
    """A line about a record, decoded by Kafka."""

    offset: int
    timestamp_ms: int
    type: int
    """Of the key; -1 for a transaction's marker."""
    key: Any
    version: int
    """Of the value; -1 for a tombstone or marker."""
    value: Any
    """The value's fields by Kafka's names; None for a tombstone, the marker's name for a marker."""


def _run(arguments: Sequence[str], paths: Sequence[str]) -> str:
    done = subprocess.run(
        [*dump_log(), *arguments, "--files", ",".join(paths)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT_S,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-3000:]
    assert "Exception" not in done.stderr, said[-3000:]
    return done.stdout


def dump(paths: Sequence[str]) -> list[Batch]:
    """Every batch of segments of `__consumer_offsets`, in order. Raises CannotBuild."""
    batches: list[Batch] = []
    path = ""
    for line in _run(["--offsets-decoder"], paths).splitlines():
        if line.startswith("Dumping "):
            path = line.removeprefix("Dumping ")
        elif line.startswith("baseOffset: "):
            batches.append(Batch(path, dict(_FIELD.findall(line)), []))
        elif line.startswith("|"):
            batches[-1].records.append(_record(line))
        else:
            assert line.startswith("Log starting offset"), line
    return batches


def dump_producer_files(paths: Sequence[str]) -> str:
    """What it prints of indexes of aborted transactions and of snapshots of producers. Raises CannotBuild."""
    return _run([], paths)


def records(batches: Sequence[Batch]) -> Iterator[Dumped]:
    """Every record."""
    for batch in batches:
        yield from batch.records


def _record(line: str) -> Dumped:
    found = _RECORD.match(line)
    assert found is not None, line
    offset, timestamp_ms, rest = int(found[1]), int(found[2]), found[3]
    marker = _MARKER.match(rest)
    if marker is not None:
        return Dumped(offset, timestamp_ms, -1, None, -1, marker[1])
    decoder = json.JSONDecoder()
    assert rest.startswith("key: "), line
    key, end = decoder.raw_decode(rest, len("key: "))
    payload = rest[end:].strip().removeprefix("payload: ")
    if payload == _TOMBSTONE:
        return Dumped(offset, timestamp_ms, int(key["type"]), key["data"], -1, None)
    value = json.loads(payload)
    return Dumped(offset, timestamp_ms, int(key["type"]), key["data"], int(value["version"]), value["data"])


def check_indexes(paths: Sequence[str]) -> None:
    """Lets Kafka check index files as a starting broker does, then entry by entry against their segments."""
    said = _run(["--index-sanity-check"], paths)
    for path in paths:
        assert f"{path} passed sanity check." in said or f"{path} is empty." in said, said
    said = _run(["--verify-index-only"], paths)
    complaints = [line for line in said.splitlines() if not line.startswith("Dumping ") and line]
    assert not [line for line in complaints if not line.endswith(" is empty.")], said
