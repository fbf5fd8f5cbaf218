"""The assignors give the same targets, in the same orders, as Kafka's own classes for recorded histories."""

from collections.abc import Iterator
from itertools import islice

import pytest

from tests.group.modern.group import PlayedGroup
from tests.group.modern.recorded import Answer, Recorded, read

PARTS = 11


@pytest.fixture(scope="module")
def recording() -> list[Recorded]:
    return list(read())


def played(recorded: Recorded) -> Iterator[tuple[Answer, Answer]]:
    """Yield pairs of groupd's and Kafka's answers."""
    history, answers = recorded
    group = PlayedGroup()
    computed = (answer for step in history if (answer := group.take(step)) is not None)
    return zip(computed, answers, strict=True)


@pytest.mark.parametrize("part", range(PARTS))
def test_every_target_is_that_of_kafka(recording: list[Recorded], part: int) -> None:
    for recorded in islice(recording, part, None, PARTS):
        for number, (computed, expected) in enumerate(played(recorded)):
            assert computed == expected, f"assignment {number} of {recorded[0]}"


def test_there_are_cases_of_every_kind(recording: list[Recorded]) -> None:
    answers = [answer for _, answers in recording for answer in answers]
    steps = [step for history, _ in recording for step in history]
    assert len(answers) >= 2000
    assert {len(answer.order) for answer in answers} >= set(range(1, 40))
    assert {step[0] for step in steps} == {"topic", "delete", "put", "remove", "assign"}
    assert {step[1] for step in steps if step[0] == "assign"} == {"uniform", "range"}
    assert sum(step[3] >= 50 for step in steps if step[0] == "topic") >= 100
    # The recording must have sets that Java does not iterate in ascending order: only they test the order.
    given = [
        partitions for answer in answers for target in answer.records.values() for _, partitions in target
    ]
    assert sum(partitions != sorted(partitions) for partitions in given) >= 100
