"""Generate docs/log-lines.md: lines about groups from the transcripts of tests/scenarios, all others from the log
statements.

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
_INTRODUCTION: Final = """# Log lines

This page lists every log line with its level and meaning. It is generated from the code by
`python -m docs.generate_log_lines`; a test fails if it is stale.

Lines about groups are examples from the transcripts in `tests/scenarios/`, with short member ids. In the log
they begin with the time, and have the offsets partition of the group after `[GroupCoordinator]`, such as
`[__consumer_offsets-17]`.

groupd logs events that a client can repeat at most once a minute, and the line has a count of the others. The
limit applies to refused requests for each member and error, and to unknown topics for each client.

"""
_CONVERSION: Final = re.compile(r"%(?:\.\d+)?[a-z]")
_BY_HAND: Final = (SubscriptionUnreadable("billing", 1, "range"),)
"""Events of classes that no transcript contains."""


def page() -> str:
    """Return the text of the page."""
    entries = (*GROUPS, *STEPS)
    untold = [
        cls.__name__
        for cls in GROUP_LINES
        if GROUP_LINES[cls] and cls not in {entry.event for entry in entries}
    ]
    assert not untold, f"add the meanings of these events to docs/log_line_meanings.py: {untold}"
    return "\n".join(
        [
            _INTRODUCTION + "## Groups\n",
            *map(_section, GROUPS),
            "## Steps of a rebalance, and ends of transactions\n\nThese lines are at DEBUG, with Kafka's text.\n",
            *map(_section, STEPS),
            "## Other lines\n\nA `…` stands for a variable part. The table omits lines of variable parts only.\n",
            _table(formats()),
        ]
    )


def _section(entry: Entry) -> str:
    level, text = _example(entry)
    return f"```log\n{level} [GroupCoordinator] {text}\n```\n\n{fill(entry.meaning, 125)}\n"


def _example(entry: Entry) -> tuple[str, str]:
    """Return level and text of the shortest line of an event, preferably about the group `billing`."""
    by_hand = [event for event in _BY_HAND if type(event) is entry.event]
    lines = [(told.level, told.text) for told in told_by_stories() if told.event is entry.event]
    lines += [_by_hand(event) for event in by_hand]
    fitting = [line for line in lines if entry.having in line[1]]
    assert fitting, f"no transcript has a line of {entry.event.__name__} with {entry.having!r}"
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
    assert not meanings, f"no log statement has these formats: {list(meanings)}"
    for one in COMPOSED:
        source = (ROOT / one.place).read_text()
        assert all(part.strip(": ") in source for part in one.line.split("…")), (
            f"{one.place} does not contain the words of {one.line}"
        )
        rows.append((one.logger, one.level, one.line, one.meaning))
    head = ["| logger | level | line | meaning |", "|---|---|---|---|"]
    return "\n".join(
        [
            *head,
            *(f"| {name} | {level} | `{line}` | {meaning} |" for name, level, line, meaning in sorted(rows)),
            "",
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
