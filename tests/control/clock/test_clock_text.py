"""How long, as people read it."""

import pytest

from coordinator.control.clock.clock_models import format_duration


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0.0 s"),
        (250, "0.2 s"),
        (44_999, "45.0 s"),
        (59_999, "1 min"),
        (61_000, "1 min 1 s"),
        (3_599_999, "1 h"),
        (5_400_000, "1 h 30 min"),
        (691_199_990, "8 d"),
        (93_600_000, "1 d 2 h"),
    ],
)
def test_a_duration_has_at_most_two_units(ms: int, text: str) -> None:
    assert format_duration(ms) == text
