"""Regular expressions with more matches than a batch of the log can hold: nothing is written; a retry follows."""

from collections import deque
from itertools import islice

import pytest

from coordinator.core.outcome import WorkDone
from coordinator.group.consumer.regex_resolution import (
    REFRESH_HOLD_MS,
    MatchesTooMuch,
    RegexWork,
    resolve_regexes,
)
from coordinator.group.group_event_types import RegexesUnresolved
from coordinator.group.topics_image import TopicImage, TopicsImage
from tests.group.config import group_config
from tests.group.consumer.members import Members, read_response

TOPICS = [TopicImage(f"topic-{number}", number.to_bytes(16), 1) for number in range(1, 201)]
IMAGE = TopicsImage(TOPICS, version=1)
WHOLE_BYTES = sum(len(topic.name) for topic in TOPICS)


def group_with(most_bytes: int) -> Members:
    group = Members(IMAGE)
    group.restart(group_config(message_max_bytes=most_bytes))
    return group


@pytest.mark.parametrize("most_bytes", [WHOLE_BYTES // 2, WHOLE_BYTES + 100])
def test_a_member_whose_expression_matches_too_much_is_in_its_group_and_has_nothing(most_bytes: int) -> None:
    group = group_with(most_bytes)
    assert group.enter("A", None, regex="topic-.*") == (1, {})
    (unresolved,) = group.find_events(RegexesUnresolved)
    assert f"message.max.bytes={most_bytes}" in unresolved.reason
    assert group.say("A", 1) == (1, None)
    assert group.enter("B", ["topic-1"])[0] == 2
    assert len(group.find_events(RegexesUnresolved)) == 1, "it is not tried again at once"


def test_it_is_tried_again_in_time_and_when_it_fits_it_counts() -> None:
    group = group_with(WHOLE_BYTES // 2)
    group.enter("A", None, regex="topic-.*")
    group.topics_are(*TOPICS[:10])
    assert group.say("A", 1) == (1, None)
    group.advance(REFRESH_HOLD_MS + 1)
    group.say("A", 1)
    epoch, assigned = group.say("A", 1)
    assert epoch == 2
    assert isinstance(assigned, dict)
    assert len(assigned) == 10


def test_work_that_failed_is_told_and_not_repeated_at_once() -> None:
    group = Members()
    group.does_work = False
    read_response(group.beat("A", 0, regex="f.*", owned={}, rebalance=60_000))
    group.tell(WorkDone(group.work.pop(), None, "no memory"))
    assert [event.reason for event in group.find_events(RegexesUnresolved)] == ["no memory"]
    group.say("A", 1)
    assert not group.work
    group.advance(REFRESH_HOLD_MS + 1)
    group.say("A", 1)
    assert len(group.work) == 1


def test_a_thousand_expressions_for_twenty_thousand_topics_end_where_the_log_would() -> None:
    topics = [TopicImage(f"topic-{number}", number.to_bytes(16), 1) for number in range(1, 20_001)]
    regexes = tuple(f".*-[0-9]*|{number}" for number in range(1000))
    work = RegexWork("g", regexes, TopicsImage(topics, 1), 0, most_bytes=1_048_588)
    steps = resolve_regexes(work)
    with pytest.raises(MatchesTooMuch):
        deque(islice(steps, 3_000), maxlen=0)  # all steps would match twenty million names
