"""Answers of a daemon on standard output: JSON, or text for people, which a terminal gets in colours."""

import json
import re
from typing import Any, Final

import click
import msgspec

from coordinator.cli.control.command import Asking
from coordinator.cli.control.question import NOTHING, PATIENCE_S, Query
from coordinator.cli.output import Output
from coordinator.net.peer import printable

_INDENT: Final = 2
_STEERING: Final = re.compile(r"[^\n -~]")
"""What may be a character that a terminal obeys."""


def print_json(answer: Any, output: Output) -> None:
    """On one line for programs, over several for people."""
    data = msgspec.json.encode(answer)
    text = (msgspec.json.format(data, indent=_INDENT) if output.is_for_people else data).decode()
    print(_STEERING.sub(_escaped, text))


def print_json_line(answer: Any) -> None:
    """On one line whoever reads it, at once."""
    text = msgspec.json.encode(answer).decode()
    print(_STEERING.sub(_escaped, text), flush=True)


def _escaped(found: re.Match[str]) -> str:
    """As JSON has it. All of it stands in strings: what is between those is printable."""
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]


def print_text(text: str, output: Output) -> None:
    """What the daemon wrote for people. Nothing in it steers a terminal, whoever wrote it."""
    lines = [printable(line, len(line)) for line in text.splitlines()]
    if output.is_colored:
        from coordinator.cli.control.highlight import highlighted

        lines = list(map(highlighted, lines))
    for line in lines:
        print(line)


def answer(
    asking: Asking,
    method: str,
    *path: str,
    query: Query = NOTHING,
    body: object = None,
    patience_s: float = PATIENCE_S,
) -> None:
    """Asks the daemon and prints what it answers: its words, or with --json its values. Raises Unreachable,
    Refused."""
    if asking.is_json:
        said = asking.client.ask(method, *path, query=query, body=body, patience_s=patience_s)
        if said is not None:
            print_json(said, asking.output)
    else:
        text = asking.client.text(method, *path, query=query, body=body, patience_s=patience_s)
        print_text(text, asking.output)


def note(text: str) -> None:
    """Says on standard error what is no answer, while more is to come."""
    click.echo(click.style(f"groupd: {printable(text, len(text))}", dim=True), err=True)
