"""`groupd watch`, `groupd top` and `groupd console`."""

from typing import Final
from urllib.parse import quote

import click

from coordinator.cli.control.daemon_command import (
    YES,
    DaemonContext,
    daemon_command,
    group_argument,
    parse_event_number,
    parse_names,
    print_json,
    print_json_line,
    print_note,
)
from coordinator.cli.control.event_line import format_event
from coordinator.cli.output_streams import Output, exit_when_reader_closes
from coordinator.cli.table_output import print_table

WATCH_EPILOG: Final = """The command continues after a restart of the daemon. Ctrl-C ends it with exit code 0.
Examples:

\b
groupd watch
groupd watch billing --kind RebalanceStarted,RebalanceCompleted
groupd watch --after -1 --json | jq -r .kind"""

_GAP: Final = "  "


@daemon_command(epilog=WATCH_EPILOG, is_ended_by_interrupt=True)
@group_argument(is_required=False)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="NAMES",
    callback=parse_names,
    help="Only events of these kinds.",
)
@click.option(
    "--after",
    metavar="SEQ",
    callback=parse_event_number,
    help="Begin after this event (431, or with the mark of the daemon's process, 5f3a9c1e.431), as far "
    "back as the daemon keeps events; -1: with the oldest one. [default: now]",
)
def watch_events(
    context: DaemonContext, group: str | None, kinds: list[str] | None, after: int | str | None
) -> int:
    """Print the events of GROUP, or of all groups, as they happen."""
    from coordinator.cli.control.event_follower import EventFollower

    exit_when_reader_closes()
    events = EventFollower(
        context.client, group=group, kinds=tuple(kinds or ()), after=after, on_status_change=print_note
    )
    for event in events:
        if context.is_json:
            print_json_line({"kind": event.kind, **event.value})
        elif event.kind == "gap":
            print_note(
                "the daemon has restarted"
                if event.is_restart
                else "the daemon dropped the events before this"
            )
        else:
            is_aligned = context.output.is_for_people
            parts = format_event(event.kind, event.value, with_group=group is None, is_aligned=is_aligned)
            _print_event(parts, context.output)
    raise AssertionError("the event stream ended")


def _print_event(parts: list[tuple[str, str]], output: Output) -> None:
    if output.is_colored:
        from coordinator.cli.rich_output import create_template

        line = _GAP.join(create_template(style) % text if style else text for text, style in parts)
    else:
        line = _GAP.join(text for text, _ in parts)
    print(line, flush=True)


TOP_EPILOG: Final = """\
Groups in trouble come first: those with a finding that blocks them, then those with violations, then rebalancing
groups. GONE counts the members without a connection. Press Ctrl-C to end; the exit code is 0. If
the output is not a terminal, the command prints the table once. Examples:

\b
groupd top
groupd top --json | jq '.groups[] | select(.offsets.lag > 1000) | .group.group_id'"""


@daemon_command(epilog=TOP_EPILOG, is_ended_by_interrupt=True)
def show_top(context: DaemonContext) -> int:
    """Show all groups: states, members, lag, open rebalances, and the last events."""
    from coordinator.cli.control.group_board import COLUMNS, GroupBoard, format_board_row

    if context.output.is_terminal and not context.is_json:
        from coordinator.cli.control.live_board import LiveBoard
        from coordinator.cli.rich_output import create_console

        LiveBoard(context.client, create_console(context.output)).run()
    groups = GroupBoard(context.client).fetch_groups()
    if context.is_json:
        print_json({"groups": groups}, context.output)
    else:
        print_table(COLUMNS, [format_board_row(group) for group in groups], context.output)
    return YES


CONSOLE_EPILOG: Final = """Without a browser the command only prints the address. Examples:

\b
groupd console
groupd console billing --print"""


@daemon_command(epilog=CONSOLE_EPILOG)
@click.argument("group", required=False)
@click.option("--print", "is_printed", is_flag=True, help="Print the address without opening a browser.")
def open_console(context: DaemonContext, group: str | None, is_printed: bool) -> int:
    """Open the page of the daemon, or of GROUP."""
    context.client.get_json("board")  # fail here rather than in the browser
    where = "" if group is None else f"/{quote(group, safe='')}"
    address = f"{context.client.url}/#/{quote(context.client.namespace or 'default', safe='')}{where}"
    if context.is_json:
        print_json({"url": address}, context.output)
    else:
        print(address)
    if not (is_printed or context.is_json):
        import webbrowser  # looks for every browser that there may be

        webbrowser.open(address)
    return YES
