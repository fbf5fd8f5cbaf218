"""Histories of groups, and the assignments that Kafka's own classes computed for them."""

import json
import lzma
import os
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

from msgspec import Struct

from tests.group.modern.histories import History

RECORDING: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "assignments-4.4.0.jsonl.xz")

Records: TypeAlias = dict[str, list[tuple[str, list[int]]]]


class Answer(Struct, frozen=True):
    """The result of one assignment.

    `order`: the members in the order of Kafka's map. `hash`: the hash of all topics. `records`: the changed
    targets by member, with topic ids and partitions in the order of the record.
    """

    order: list[str]
    hash: int
    records: Records


Recorded: TypeAlias = tuple[History, list[Answer]]


def read() -> Iterator[Recorded]:
    """Yield the recorded histories with Kafka's answers. The file has members and topics as their positions in the
    history."""
    with lzma.open(RECORDING, "rt", encoding="utf-8") as lines:
        for line in lines:
            history, answers = json.loads(line)
            members, topics = _members(history), _topics(history)
            yield history, [_unpacked(answer, members, topics) for answer in answers]


def write(recorded: Iterable[tuple[History, list[Any]]]) -> None:
    """Write a recording of histories with the answers that the Java program printed."""
    with lzma.open(RECORDING, "wt", preset=9 | lzma.PRESET_EXTREME, encoding="utf-8") as lines:
        for history, answers in recorded:
            members, topics = _members(history), _topics(history)
            packed = [_packed(answer, members, topics) for answer in answers]
            lines.write(json.dumps([history, packed], separators=(",", ":")) + "\n")


def _members(history: History) -> list[str]:
    return list(dict.fromkeys(step[1] for step in history if step[0] == "put"))


def _topics(history: History) -> list[str]:
    return list(dict.fromkeys(step[2] for step in history if step[0] == "topic"))


def _packed(answer: dict[str, Any], members: list[str], topics: list[str]) -> list[Any]:
    return [
        [members.index(member_id) for member_id in answer["order"]],
        answer["hash"],
        [
            [members.index(member_id), [[topics.index(topic_id), _runs(given)] for topic_id, given in target]]
            for member_id, target in answer["records"].items()
        ],
    ]


def _unpacked(answer: list[Any], members: list[str], topics: list[str]) -> Answer:
    order, topics_hash, records = answer
    return Answer(
        order=[members[number] for number in order],
        hash=topics_hash,
        records={
            members[number]: [(topics[topic], _partitions(runs)) for topic, runs in target]
            for number, target in records
        },
    )


def _runs(partitions: list[int]) -> list[int]:
    """Encode numbers as pairs: the first number of a run of consecutive numbers, and the length of the rest."""
    runs: list[int] = []
    for partition in partitions:
        if runs and partition == runs[-2] + runs[-1] + 1:
            runs[-1] += 1
        else:
            runs += [partition, 0]
    return runs


def _partitions(runs: list[int]) -> list[int]:
    return [
        partition
        for first, more in zip(runs[::2], runs[1::2], strict=True)
        for partition in range(first, first + more + 1)
    ]
