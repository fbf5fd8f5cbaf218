"""The ten lines of the report, from numbers that Spark would have gathered."""

import re
from datetime import timedelta
from typing import Any

import pytest

from pipeline.report.gather import Gathered
from pipeline.report.report_tables import EVERYTHING
from pipeline.report.story import story
from tests.pipeline.hand_made import START

ONE_GROUP: dict[str, Any] = {
    **dict.fromkeys(("n_groups", "n_committing", "n_with_members", "commits", "advance"), 1),
    **dict.fromkeys(("busiest_commits", "busiest_advance"), 1),
    **dict.fromkeys(("n_empty", "n_simple", "n_consumer_groups", "n_rebalances", "n_emptied"), 0),
    **dict.fromkeys(("transactional_commits", "unmoved_commits", "lag", "n_measured"), 0),
    **dict.fromkeys(("n_migrations", "longest_pause_ms"), None),
    "busiest_group": "billing",
    "empty_groups": [],
}
"""The totals of a group that committed once, as Spark gives them: a sum of no values is None."""


def lines(**totals: object) -> list[str]:
    """The texts of the story, with other totals in place of some of `ONE_GROUP`."""
    gathered = Gathered(
        warehouse="warehouse",
        selection=EVERYTHING,
        info={"first_record_ts": START, "commits": 1, "removed_offsets": 0, "group_records": 0},
        start=START,
        end=START + timedelta(minutes=1),
        now=START + timedelta(minutes=1),
        totals=ONE_GROUP | totals,
        groups=[],
        troubles=[],
        assignors=[],
        worst_anomaly=None,
        anomaly_kinds={},
        overall=[],
        findings=[],
        unknown=[],
    )
    return [line.text for line in story(gathered)]


@pytest.mark.parametrize(("counted", "expected"), [(None, "no"), (0, "no"), (1, "1"), (2, "2")])
def test_migrations_between_the_protocols_are_counted(counted: int | None, expected: str) -> None:
    text = " ".join(lines(n_consumer_groups=1, n_migrations=counted))
    assert re.findall(r"(\w+) migrations? between", text) == [expected]
