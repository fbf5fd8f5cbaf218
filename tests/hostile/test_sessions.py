"""Random sessions over the wire, and tests that their checker detects errors."""

from pathlib import Path

import pytest

from tests.hostile.wire.house import playing
from tests.hostile.wire.reading import NO_OFFSET, Reading, Violation


async def test_no_member_gets_a_forbidden_response(tmp_path: Path) -> None:
    played = await playing(tmp_path, seed=1, players=14, bursts=60)
    # The play is worth something only if all that is judged came about.
    assert played.told > 300
    assert played.joined > 5
    assert set(played.vices) == {"vanished", "half a request", "did not read"}


PLACE = ("g", "t", 0)


@pytest.fixture
def reading() -> Reading:
    """Group g in generation 5, led by a, with b."""
    reading = Reading()
    reading.joined(reading.asks("g"), "g", "a", 5, "a", ["a", "b"])
    reading.sends_plan("g", 5, "a", {"a": b"1", "b": b"2"})
    return reading


def committed(reading: Reading, offset: int, error: int = 0) -> None:
    reading.wrote(reading.writes(reading.asks(), PLACE, offset), error)


def test_a_correct_history_passes(reading: Reading) -> None:
    reading.joined(reading.asks("g"), "g", "b", 5, "a", [])
    reading.synced(reading.asks("g"), "g", "b", 5, b"2")
    reading.beat(reading.asks("g"), "g", "b", 5)
    late = reading.asks("g")
    reading.left("g", "b")
    reading.beat(late, "g", "b", 5)
    asked = reading.asks()
    committed(reading, 7)
    reading.fetched(asked, PLACE, NO_OFFSET)
    reading.fetched(asked, PLACE, 7)
    lost = reading.writes(reading.asks(), PLACE, 8)
    assert lost.offset == 8
    reading.fetched(reading.asks(), PLACE, 7)
    reading.fetched(reading.asks(), PLACE, 8)


def test_a_generation_that_falls_is_seen(reading: Reading) -> None:
    with pytest.raises(Violation):
        reading.joined(reading.asks("g"), "g", "a", 4, "a", ["a"])


def test_a_heartbeat_of_an_old_generation_is_seen(reading: Reading) -> None:
    with pytest.raises(Violation):
        reading.beat(reading.asks("g"), "g", "a", 4)


def test_two_leaders_are_seen(reading: Reading) -> None:
    with pytest.raises(Violation):
        reading.joined(reading.asks("g"), "g", "b", 5, "b", ["a", "b"])


def test_a_follower_that_sees_members_is_seen(reading: Reading) -> None:
    with pytest.raises(Violation):
        reading.joined(reading.asks("g"), "g", "b", 5, "a", ["a", "b"])


def test_an_assignment_from_nowhere_is_seen(reading: Reading) -> None:
    with pytest.raises(Violation):
        reading.synced(reading.asks("g"), "g", "b", 5, b"3")


def test_an_assignment_of_a_follower_is_seen(reading: Reading) -> None:
    reading.sends_plan("g", 5, "b", {"b": b"3"})
    with pytest.raises(Violation):
        reading.synced(reading.asks("g"), "g", "b", 5, b"3")


def test_assignments_of_two_plans_in_one_generation_are_seen(reading: Reading) -> None:
    reading.sends_plan("g", 5, "a", {"a": b"3", "b": b"4"})
    reading.synced(reading.asks("g"), "g", "a", 5, b"1")
    with pytest.raises(Violation):
        reading.synced(reading.asks("g"), "g", "b", 5, b"4")


def test_a_member_that_has_left_is_seen(reading: Reading) -> None:
    reading.left("g", "b")
    with pytest.raises(Violation):
        reading.joined(reading.asks("g"), "g", "a", 6, "a", ["a", "b"])


def test_a_repeated_id_is_detected(reading: Reading) -> None:
    reading.new_id("c")
    with pytest.raises(Violation):
        reading.new_id("c")


def test_a_commit_that_is_lost_is_seen(reading: Reading) -> None:
    committed(reading, 7)
    with pytest.raises(Violation):
        reading.fetched(reading.asks(), PLACE, NO_OFFSET)


def test_a_reappearing_commit_is_detected(reading: Reading) -> None:
    committed(reading, 7)
    committed(reading, 8)
    with pytest.raises(Violation):
        reading.fetched(reading.asks(), PLACE, 7)


def test_an_offset_that_was_shown_and_is_taken_back_is_seen(reading: Reading) -> None:
    reading.writes(reading.asks(), PLACE, 7)
    reading.fetched(reading.asks(), PLACE, 7)
    with pytest.raises(Violation):
        reading.fetched(reading.asks(), PLACE, NO_OFFSET)


def test_a_refused_commit_that_shows_is_seen(reading: Reading) -> None:
    committed(reading, 7, error=22)
    with pytest.raises(Violation):
        reading.fetched(reading.asks(), PLACE, 7)


def test_an_uncommitted_offset_is_detected(reading: Reading) -> None:
    with pytest.raises(Violation):
        reading.fetched(reading.asks(), PLACE, 9)
