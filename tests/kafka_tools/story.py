"""Stories: calls of Kafka's tools one after the other, each with the output that Kafka's own tool printed.

A story is a text file. The first character of a line is its kind:

    # a comment
    @ member GROUP TOPIC...  start a member of a group, which stays until `@ leave`
    $ TOOL ARGUMENTS         a call; BROKER stands for the broker's address, FILES for a directory of the story
    < text                   a line of the call's standard input
    > text                   a line of its standard output
    ! text                   the first line of its standard error
    = NUMBER                 its exit code

What differs from run to run (ports, ids, times) is masked in recorded and in compared output alike.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

_MASKS: Final = (
    (re.compile(r"127\.0\.0\.1:\d+"), "BROKER"),
    (re.compile(r"(?<=TopicId: )\S{22}"), "TOPIC-ID"),
    (re.compile(r"(?<=Cluster ID: )\S{22}"), "CLUSTER-ID"),
    (re.compile(r"(?<=ClusterId:)\s+\S{22}"), " CLUSTER-ID"),
    (re.compile(r"\b([a-z-]+)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"), r"\1-UUID"),
    (re.compile(r"(?<=CreateTime:)\d+"), "TIME"),
    (re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\]"), "[TIME]"),
    (re.compile(r" {2,}"), "  "),
)

_SETS: Final = (
    re.compile(r"\[[a-z-]+\](?:, \[[a-z-]+\])+"),
    re.compile(r"(?<=operations \[)[A-Z_]+(?:, [A-Z_]+)+"),
)
"""Kafka's tools print sets of options and of operations in an order that differs from run to run."""
_STACK_TRACE: Final = re.compile(
    r"^\S+Exception: .*\n(?:\tat .*\n|\t\.\.\. .*\n|Caused by: .*\n)+\n?", re.MULTILINE
)
_LISTS_ACLS: Final = ("Current ACLs for resource", "Adding ACLs for resource")
_LOGGED: Final = ("SLF4J", "ERROR ", "The consumer rebalance protocol (KIP-848)")


def mask(line: str) -> str:
    """Return a line of output with placeholders for what differs from run to run. Widths of columns follow the
    widths of ids, so runs of blanks become two.
    """
    for pattern, replacement in _MASKS:
        line = pattern.sub(replacement, line)
    for pattern in _SETS:
        line = pattern.sub(lambda found: ", ".join(sorted(found.group().split(", "))), line)
    return line.rstrip()


@dataclass
class Step:
    """A call with its recorded result, or a directive (`tool` is then empty), or a comment."""

    text: str
    """The line as it stands in the file."""
    tool: str = ""
    arguments: list[str] = field(default_factory=list)
    directive: list[str] = field(default_factory=list)
    stdin: list[str] = field(default_factory=list)
    out: list[str] = field(default_factory=list)
    error: str = ""
    status: int = 0

    def record(self, out: str, err: str, status: int) -> None:
        """Record the standard output, the standard error and the exit code of a call."""
        self.out, self.error = mask_output(out), first_error_line(err)
        self.status = status


def mask_output(out: str) -> list[str]:
    """Return the masked lines of a standard output."""
    return _sort_acls([mask(line) for line in _STACK_TRACE.sub("", out).splitlines()])


def _sort_acls(lines: Sequence[str]) -> list[str]:
    """Return the lines with each list of ACLs sorted: the order of Kafka's tool differs from run to run.

    A list is a heading, the ACLs, and an empty line.
    """
    sorted_lines: list[str] = []
    lists: list[list[str]] = []
    for line in lines:
        if line.startswith(_LISTS_ACLS):
            lists.append([line])
        elif lists and lists[-1][-1]:
            lists[-1].append(line.strip())
        else:
            sorted_lines += _join_sorted(lists)
            lists = []
            sorted_lines.append(line)
    return sorted_lines + _join_sorted(lists)


def _join_sorted(lists: Sequence[Sequence[str]]) -> list[str]:
    ordered = sorted([heading, *sorted(entry for entry in rest if entry), ""] for heading, *rest in lists)
    return [line for each in ordered for line in each]


def first_error_line(err: str) -> str:
    """Return the first line of a standard error, masked, without the lines of Java's logging; "" for no line."""
    lines = (line for line in err.splitlines() if line.strip() and not line.startswith(_LOGGED))
    return mask(next(lines, ""))


def parse_story(text: str) -> list[Step]:
    """Return the steps of a story. Raises ValueError for a line of an unknown kind."""
    steps: list[Step] = []
    for line in text.splitlines():
        kind, content = line[:1], line[2:]
        if kind == "$":
            tool, *arguments = shlex.split(content)
            steps.append(Step(line, tool, arguments))
        elif kind == "@":
            steps.append(Step(line, directive=shlex.split(content)))
        elif kind in ("#", ""):
            steps.append(Step(line))
        elif kind == "<":
            steps[-1].stdin.append(content)
        elif kind == ">":
            steps[-1].out.append(content)
        elif kind == "!":
            steps[-1].error = content
        elif kind == "=":
            steps[-1].status = int(content)
        else:
            raise ValueError(f"unknown kind of line: {line}")
    return steps


def format_story(steps: Sequence[Step]) -> str:
    """Return the text of a story."""
    lines: list[str] = []
    for step in steps:
        lines.append(step.text)
        if step.tool:
            lines += [f"< {line}".rstrip() for line in step.stdin]
            lines += [f"> {line}".rstrip() for line in step.out]
            lines += [f"! {step.error}"] if step.error else []
            lines.append(f"= {step.status}")
    return "".join(f"{line}\n" for line in lines)
