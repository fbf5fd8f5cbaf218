"""`groupd groups reset`: other offsets for a group."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

import click

from coordinator.cli.control.answers import changes_of
from coordinator.cli.control.arguments import group_argument
from coordinator.cli.control.command import YES, Asking, daemon_command
from coordinator.cli.control.failure import Misused
from coordinator.cli.control.printed import print_json
from coordinator.cli.control.table import Column, cell, print_table
from coordinator.cli.times import BadTime, parse_time
from coordinator.net.peer import printable

EPILOG: Final = """The group must have no members: stop its consumers first. Examples:

\b
groupd groups reset billing --to earliest
groupd groups reset billing --to -10 --topic orders:0,1 --dry-run
groupd groups reset billing --to-datetime 2026-01-31T12:00:00Z"""

_PLACES: Final = ("earliest", "latest", "current")
_SHIFT: Final = re.compile(r"[+-][0-9]{1,18}")
_COLUMNS: Final = (
    Column("topic", folds=True),
    Column("partition", is_figure=True),
    Column("before", is_figure=True),
    Column("after", is_figure=True, style=lambda _: "bold"),
)


def _place(_: click.Context, __: click.Parameter, value: str | None) -> int | str | None:
    if value is None or value in _PLACES or _SHIFT.fullmatch(value):
        return value
    if value.isascii() and value.isdigit() and int(value) < 2**63:
        return int(value)
    raise click.BadParameter(f"{printable(value)} is none of {', '.join(_PLACES)}, an offset, +N, -N")


def _datetime(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    try:
        return None if value is None else parse_time(value)
    except BadTime as error:
        raise click.BadParameter(printable(str(error))) from error


def _topics(_: click.Context, __: click.Parameter, values: Iterable[str]) -> list[str]:
    return [name for value in values for name in _partitions(value)]


def _partitions(text: str) -> Iterator[str]:
    """As the API has it: `orders`, or `orders-0` and `orders-1`. In: `orders`, or `orders:0,1`."""
    topic, colon, numbers = text.partition(":")
    if not topic:
        raise click.BadParameter("the name of a topic is missing")
    if not colon:
        yield topic
        return
    for number in numbers.split(","):
        if not (number.isascii() and number.isdigit()):
            raise click.BadParameter(f"{printable(text)} is neither TOPIC nor TOPIC:PARTITION,PARTITION")
        yield f"{topic}-{int(number)}"


@daemon_command(epilog=EPILOG)
@group_argument()
@click.option(
    "--to",
    metavar="PLACE",
    callback=_place,
    help="earliest, latest, current, an offset, or +N or -N from the committed one.",
)
@click.option(
    "--to-datetime",
    metavar="TIME",
    callback=_datetime,
    help="The first record of then or later: ISO 8601, or milliseconds since 1970.",
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:PARTITIONS]",
    callback=_topics,
    help="orders, or orders:0,1; may be repeated. [default: what the group has offsets of]",
)
@click.option(
    "--dry-run/--execute", "is_dry_run", default=False, help="Only say what it would be. [default: do it]"
)
def command(
    asking: Asking,
    group: str,
    to: int | str | None,
    to_datetime: int | None,
    topics: list[str],
    is_dry_run: bool,
) -> int:
    """Set the committed offsets of GROUP, and show what they were."""
    if (to is None) == (to_datetime is None):
        raise Misused("say where to: --to or --to-datetime, one of them")
    body: dict[str, object] = {"to": to} if to_datetime is None else {"to_time_ms": to_datetime}
    if topics:
        body["topics"] = topics
    if is_dry_run:
        body["dry_run"] = True
    answered = asking.client.ask("PUT", "groups", group, "offsets", body=body)
    changes = changes_of(answered)
    if asking.is_json:
        print_json(answered, asking.output)
        return YES
    rows = [
        [cell(one.topic), cell(one.partition), cell(one.before), cell(one.offset)] for one in changes.offsets
    ]
    print_table(_COLUMNS, rows, asking.output)
    if changes.dry_run:
        click.echo("nothing was changed (--dry-run)", err=True)
    return YES
