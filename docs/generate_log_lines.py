"""Writes docs/log-lines.md: the lines of groups as the stories of tests/scenarios print them, all others from the
statements that write them.

python -m docs.generate_log_lines
"""

import logging
import re
from collections.abc import Iterable
from pathlib import Path
from textwrap import fill
from typing import Final

from coordinator.broker.group_event_log import GROUP_LINES, format_event
from coordinator.group.group_event_types import GroupEvent, SubscriptionUnreadable
from docs.log_line_meanings import COMPOSED, FORMATS, GROUPS, STEPS, Entry
from tests.docs.daemon_lines import Format, formats, told_by_stories
from tests.tooling.test_tidy import ROOT

PAGE: Final = Path(__file__).with_name("log-lines.md")
_INTRODUCTION: Final = """# The lines of the log

Generated from the code by `python -m docs.generate_log_lines`; a test fails when it is stale. Lines about groups
are examples: what transcripts in `tests/scenarios/` print, with their short names. In the log they have the time in
front, and behind `[GroupCoordinator]` the offsets partition that holds the group, as `[__consumer_offsets-17]`.

What a client may cause again and again has a line a minute for each client and kind, which says how many more there
were: a refused request for each member and error, a topic that is not there for each client.

"""
_CONVERSION: Final = re.compile(r"%(?:\.\d+)?[a-z]")
_BY_HAND: Final = (SubscriptionUnreadable("billing", 1, "range"),)
"""Of classes that no story has."""


def page() -> str:
    """The page as it should be."""
    entries = (*GROUPS, *STEPS)
    untold = [
        cls.__name__
        for cls in GROUP_LINES
        if GROUP_LINES[cls] and cls not in {entry.event for entry in entries}
    ]
    assert not untold, f"say in docs/log_line_meanings.py what these mean: {untold}"
    return "\n".join(
        [
            _INTRODUCTION + "## What happens to groups\n",
            *map(_section, GROUPS),
            "## The steps of a rebalance, and the ends of transactions\n\nAt the level DEBUG, in Kafka's words.\n",
            *map(_section, STEPS),
            "## Everything else\n\nA `…` stands for what differs. A line of which nearly all does is left out.\n",
            _table(formats()),
        ]
    )


def _section(entry: Entry) -> str:
    level, text = _example(entry)
    return f"```log\n{level} [GroupCoordinator] {text}\n```\n\n{fill(entry.meaning, 118)}\n"


def _example(entry: Entry) -> tuple[str, str]:
    """The shortest line of such an event, of a story that people are told before one that only tests."""
    by_hand = [event for event in _BY_HAND if type(event) is entry.event]
    lines = [(told.level, told.text) for told in told_by_stories() if told.event is entry.event]
    lines += [_by_hand(event) for event in by_hand]
    fitting = [line for line in lines if entry.having in line[1]]
    assert fitting, f"no story prints a line of {entry.event.__name__} with {entry.having!r}"
    return min(fitting, key=lambda line: ("group billing" not in line[1], len(line[1]), line[1]))


def _by_hand(event: GroupEvent) -> tuple[str, str]:
    line = format_event(event)
    assert line is not None
    level, text = line
    return logging.getLevelName(level), text


def _table(known: Iterable[Format]) -> str:
    loggers: dict[tuple[str, str], set[str]] = {}
    for one in known:
        loggers.setdefault((one.level, one.text), set()).add(one.logger)
    meanings = dict(FORMATS)
    rows = [
        (" or ".join(sorted(names)), level, _CONVERSION.sub("…", text), meanings.pop(text, ""))
        for (level, text), names in loggers.items()
    ]
    assert not meanings, f"nothing writes these any more: {list(meanings)}"
    for one in COMPOSED:
        source = (ROOT / one.place).read_text()
        assert all(part.strip(": ") in source for part in one.line.split("…")), f"nothing writes {one.line}"
        rows.append((one.logger, one.level, one.line, one.meaning))
    head = ["| logger | level | line | means |", "|---|---|---|---|"]
    return "\n".join(
        [
            *head,
            *(f"| {name} | {level} | `{line}` | {meaning} |" for name, level, line, meaning in sorted(rows)),
            "",
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
