"""`groupd groups`: list, describe, reset and delete groups."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import click

from coordinator.cli.click_extensions import DefaultSubcommand, Subcommand
from coordinator.cli.command_errors import InvalidArguments
from coordinator.cli.control.api_answers import (
    parse_group_description,
    parse_group_offsets,
    parse_groups,
    parse_offset_changes,
)
from coordinator.cli.control.daemon_command import (
    YES,
    DaemonContext,
    daemon_command,
    group_argument,
    print_json,
)
from coordinator.cli.control.event_line import STATES, state_style
from coordinator.cli.output_streams import Output
from coordinator.cli.table_output import print_fields, print_table
from coordinator.cli.text_table import EMPTY_CELL, Column, format_cell
from coordinator.cli.time_text import InvalidTime, iso_time, parse_time
from coordinator.control.admin.group_models import GroupDescription, GroupOffsets, MemberDescription
from coordinator.core.message_text import format_count, format_duration, format_ranges, printable

SUBCOMMANDS: Final = {
    "delete": Subcommand("cli.control.group_commands:delete_group", "Delete a group that has no members."),
    "describe": Subcommand(
        "cli.control.group_commands:describe_group", "Show a group: members, assignments, offsets, lag."
    ),
    "list": Subcommand("cli.control.group_commands:list_groups", "List groups."),
    "reset": Subcommand(
        "cli.control.group_commands:reset_offsets",
        "Set the committed offsets of a group that has no members.",
    ),
}


@click.group(cls=DefaultSubcommand, default="list", argument_default="describe", subcommands=SUBCOMMANDS)
def groups() -> None:
    """List, describe, reset and delete groups; `groupd groups` alone lists them."""


LIST_EPILOG: Final = """Examples:

\b
groupd groups
groupd groups --state PreparingRebalance
groupd groups list --prefix billing --json | jq -r .groups[].group_id"""

_LIST_COLUMNS: Final = (
    Column("group", wraps=True),
    Column("state", style=state_style),
    Column("members", is_number=True, is_optional=True),
    Column("generation", is_number=True, is_optional=True),
    Column("protocol", wraps=True, is_optional=True),
    Column("type", is_optional=True),
)


@daemon_command(epilog=LIST_EPILOG)
@click.option("--state", type=click.Choice(STATES, case_sensitive=False), help="Only groups in this state.")
@click.option("--prefix", metavar="TEXT", help="Only groups whose names begin with TEXT.")
def list_groups(context: DaemonContext, state: str | None, prefix: str | None) -> int:
    """List the groups that the daemon knows."""
    answer = context.client.get_json("groups", query={"state": state, "prefix": prefix})
    groups = parse_groups(answer)
    if context.is_json:
        print_json(answer, context.output)
    elif not groups and context.output.is_for_people:
        print("no groups" + (" like that" if state or prefix else ""))
    else:
        rows = [
            [
                format_cell(group.group_id),
                format_cell(group.state),
                format_cell(group.members),
                format_cell(group.generation_id),
                format_cell(group.protocol_type),
                format_cell(group.type),
            ]
            for group in groups
        ]
        print_table(_LIST_COLUMNS, rows, context.output)
    return YES


DESCRIBE_EPILOG: Final = """\
The committed offset is the offset of the next record to read. The lag is the number of records up to the end.
Examples:

\b
groupd groups describe billing
groupd groups describe billing --json | jq .offsets.lag"""

_MIN_END_LENGTH: Final = 4


def _connected_style(text: str) -> str:
    return "" if text == "yes" else "red"


def _lag_style(text: str) -> str:
    return "" if text in ("0", EMPTY_CELL) else "yellow"


_MEMBER_COLUMNS: Final = (
    Column("client", wraps=True, style=lambda _: "bold"),
    Column("member id", wraps=True, is_optional=True, style=lambda _: "magenta"),
    Column("host", wraps=True, is_optional=True),
    Column("connected", is_optional=True, style=_connected_style),
    Column("silent", is_number=True, is_optional=True),
    Column("session left", is_number=True, is_optional=True),
    Column("awaits", is_optional=True),
    Column("assigned", wraps=True),
)
_OFFSET_COLUMNS: Final = (
    Column("topic", wraps=True),
    Column("partition", is_number=True),
    Column("committed", is_number=True),
    Column("start", is_number=True, is_optional=True),
    Column("end", is_number=True, is_optional=True),
    Column("lag", is_number=True, style=_lag_style),
    Column("owner", wraps=True, is_optional=True),
)


@daemon_command(epilog=DESCRIBE_EPILOG)
@group_argument()
def describe_group(context: DaemonContext, group: str) -> int:
    """Show GROUP: its state, its waits, its members with their partitions, its offsets and its lag."""
    described = context.client.get_json("groups", group)
    committed = context.client.get_json("groups", group, "offsets")
    if context.is_json:
        print_json({"group": described, "offsets": committed}, context.output)
    else:
        _print_group(parse_group_description(described), parse_group_offsets(committed), context.output)
    return YES


def _print_group(group: GroupDescription, offsets: GroupOffsets, output: Output) -> None:
    labels = _create_labels(group.members)
    print_fields(_list_fields(group, offsets, labels), output)
    if group.members:
        print()
        rows = [_format_member_row(member, labels[member.member_id]) for member in group.members]
        print_table(_MEMBER_COLUMNS, rows, output)
    if offsets.offsets:
        rows = [
            [
                format_cell(one.topic),
                format_cell(one.partition),
                format_cell(one.offset),
                format_cell(one.log_start_offset),
                format_cell(one.end_offset),
                format_cell(one.lag),
                format_cell(labels.get(one.member_id or "", one.member_id)),
            ]
            for one in offsets.offsets
        ]
        print()
        print_table(_OFFSET_COLUMNS, rows, output)


def _list_fields(
    group: GroupDescription, offsets: GroupOffsets, labels: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    yield "group", printable(group.group_id)
    since = "" if group.state_since_ms is None else f" since {iso_time(group.state_since_ms)}"
    yield "state", f"{group.state}{since}"
    if group.assignment_epoch is None:
        yield "generation", str(group.generation_id)
    else:
        yield "type", group.type
        yield "epoch", f"{group.generation_id}, target assignment of epoch {group.assignment_epoch}"
    if group.protocol_type is not None:
        yield "protocol", printable(" ".join(filter(None, (group.protocol_type, group.protocol_name))))
    if group.leader is not None:
        yield "leader", printable(group.leader)
    yield "kept in", f"__consumer_offsets-{group.offsets_partition}"
    if group.rebalance is not None:
        rebalance = group.rebalance
        actor = "" if rebalance.actor is None else f", by {printable(rebalance.actor)}"
        yield (
            "rebalance",
            f"open for {format_duration(rebalance.open_ms)}: {printable(rebalance.cause)}{actor}",
        )
        for one in rebalance.awaited:
            last_heard = (
                f"last heard {format_duration(one.silent_ms)} "
                f"ago{'' if one.is_connected else ', not connected'}"
            )
            whom = f"{one.request} of {printable(labels.get(one.member_id, one.client_id))}"
            yield "awaits", f"{whom}, {last_heard}; {format_duration(one.left_ms)} at most"
    for member in group.members:
        if member.consumer is not None and member.consumer.revoking:
            revoking = "; ".join(
                f"{printable(topic)}: {format_ranges(numbers)}"
                for topic, numbers in member.consumer.revoking.items()
            )
            left_ms = member.consumer.revokes_left_ms
            at_most = "" if left_ms is None else f", {format_duration(left_ms)} at most"
            yield "awaits", f"{printable(labels[member.member_id])} to give up {revoking}{at_most}"
    for pending in group.pending:
        client = printable(pending.client_id)
        yield (
            "pending",
            f"{client} got a member id {format_duration(pending.since_ms)} ago and has not joined with it",
        )
    unowned = [f"{printable(topic)}: {format_ranges(numbers)}" for topic, numbers in group.unowned.items()]
    if unowned:
        yield "no owner", "; ".join(unowned)
    if offsets.lag is not None:
        unknown = sum(one.offset is not None and one.lag is None for one in offsets.offsets)
        lacking = (
            f", without {format_count(unknown, 'partition')} of unknown log end offset" if unknown else ""
        )
        yield "lag", f"{offsets.lag}{lacking}"


def _create_labels(members: Sequence[MemberDescription]) -> dict[str, str]:
    """Return a distinct label for each member, by member id.

    The label is the instance id or the client id; members that share one get the end of their member ids as well:
    `worker-…4f2a`.
    """
    shared = Counter(map(_find_label, members))
    ends = find_shortest_ends(member.member_id for member in members)
    return {
        member.member_id: name if shared[name] == 1 else f"{name}-…{ends[member.member_id]}"
        for member, name in zip(members, map(_find_label, members), strict=True)
    }


def _find_label(member: MemberDescription) -> str:
    return member.group_instance_id or member.client_id or member.member_id


def find_shortest_ends(member_ids: Iterable[str]) -> dict[str, str]:
    """Return the shortest end of each id, of at least 4 characters, that no other id has.

    A member id is a client id and a UUID, so the ends differ. An id that is the end of another one stays whole.
    """
    backwards = sorted({member_id[::-1] for member_id in member_ids})
    ends = {}
    for before, each, after in zip(["", *backwards], backwards, [*backwards[1:], ""], strict=False):
        common = max(_count_common_characters(each, before), _count_common_characters(each, after))
        ends[each[::-1]] = each[: max(common + 1, _MIN_END_LENGTH)][::-1]
    return ends


def _count_common_characters(one: str, other: str) -> int:
    """Return the length of the common prefix of two texts."""
    different = (at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right)
    return next(different, min(len(one), len(other)))


def _format_member_row(member: MemberDescription, label: str) -> list[str]:
    assigned = [f"{topic}: {format_ranges(numbers)}" for topic, numbers in (member.assignment or {}).items()]
    closed_ms = member.connection_closed_ms_ago
    gone = "no" if closed_ms is None else f"closed {format_duration(closed_ms)} ago"
    return [
        format_cell(label),
        format_cell(member.member_id),
        format_cell(member.client_host.removeprefix("/")),
        "yes" if member.is_connected else gone,
        format_duration(member.silent_ms),
        format_duration(member.session_left_ms),
        format_cell(member.awaits),
        format_cell("; ".join(assigned)),
    ]


RESET_EPILOG: Final = """The group must have no members: stop its consumers first. Examples:

\b
groupd groups reset billing --to earliest
groupd groups reset billing --to -10 --topic orders:0,1 --dry-run
groupd groups reset billing --to-datetime 2026-01-31T12:00:00Z"""

_NAMED_TARGETS: Final = ("earliest", "latest", "current")
_SHIFT: Final = re.compile(r"[+-][0-9]{1,18}")
_RESET_COLUMNS: Final = (
    Column("topic", wraps=True),
    Column("partition", is_number=True),
    Column("before", is_number=True),
    Column("after", is_number=True, style=lambda _: "bold"),
)


def _parse_target(_: click.Context, __: click.Parameter, value: str | None) -> int | str | None:
    if value is None or value in _NAMED_TARGETS or _SHIFT.fullmatch(value):
        return value
    if value.isascii() and value.isdigit() and int(value) < 2**63:
        return int(value)
    raise click.BadParameter(
        f"{printable(value)} must be one of {', '.join(_NAMED_TARGETS)}, an offset, +N or -N"
    )


def _parse_datetime(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    try:
        return None if value is None else parse_time(value)
    except InvalidTime as error:
        raise click.BadParameter(printable(str(error))) from error


def _parse_topics(_: click.Context, __: click.Parameter, values: Iterable[str]) -> list[str]:
    return [name for value in values for name in _parse_partitions(value)]


def _parse_partitions(text: str) -> Iterator[str]:
    """Return the names of `orders` or `orders:0,1` in the form of the API: `orders`, or `orders-0` and
    `orders-1`."""
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


@daemon_command(epilog=RESET_EPILOG)
@group_argument()
@click.option(
    "--to",
    metavar="PLACE",
    callback=_parse_target,
    help="earliest, latest, current, an offset, or +N or -N from the committed one.",
)
@click.option(
    "--to-datetime",
    metavar="TIME",
    callback=_parse_datetime,
    help="The first record at this time or later: ISO 8601, or milliseconds since 1970.",
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:PARTITIONS]",
    callback=_parse_topics,
    help="orders, or orders:0,1; may be repeated. [default: all with committed offsets]",
)
@click.option(
    "--dry-run/--execute",
    "is_dry_run",
    default=False,
    help="Only print the new offsets. [default: --execute]",
)
def reset_offsets(
    context: DaemonContext,
    group: str,
    to: int | str | None,
    to_datetime: int | None,
    topics: list[str],
    is_dry_run: bool,
) -> int:
    """Set the committed offsets of GROUP, and show the previous ones."""
    if (to is None) == (to_datetime is None):
        raise InvalidArguments("either --to or --to-datetime is required")
    body: dict[str, object] = {"to": to} if to_datetime is None else {"to_time_ms": to_datetime}
    if topics:
        body["topics"] = topics
    if is_dry_run:
        body["dry_run"] = True
    answer = context.client.request_json("PUT", "groups", group, "offsets", body=body)
    changes = parse_offset_changes(answer)
    if context.is_json:
        print_json(answer, context.output)
        return YES
    rows = [
        [format_cell(one.topic), format_cell(one.partition), format_cell(one.before), format_cell(one.offset)]
        for one in changes.offsets
    ]
    print_table(_RESET_COLUMNS, rows, context.output)
    if changes.dry_run:
        click.echo("nothing was changed (--dry-run)", err=True)
    return YES


@daemon_command(epilog="Example: groupd groups delete billing")
@group_argument()
def delete_group(context: DaemonContext, group: str) -> int:
    """Delete GROUP and its offsets. It must have no members."""
    context.client.request_json("DELETE", "groups", group)
    if not context.is_json:
        click.echo(f"{printable(group)} is deleted")
    return YES
