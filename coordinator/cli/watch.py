"""`groupd watch`: what happens in groups, one line an event."""

from typing import Final

import click

from coordinator.cli.control.arguments import event_number, group_argument, listed
from coordinator.cli.control.command import Asking, daemon_command
from coordinator.cli.control.event_line import event_parts
from coordinator.cli.control.printed import note, print_json_line
from coordinator.cli.output import Output
from coordinator.cli.standard_streams import end_when_nobody_reads

EPILOG: Final = """It goes on when the daemon is started anew, and ends by Ctrl-C, with exit code 0. Examples:

\b
groupd watch
groupd watch billing --kind RebalanceStarted,RebalanceCompleted
groupd watch --after -1 --json | jq -r .kind"""

_GAP: Final = "  "


@daemon_command(epilog=EPILOG, is_ended_by_interrupt=True)
@group_argument(is_required=False)
@click.option(
    "--kind", "kinds", multiple=True, metavar="NAMES", callback=listed, help="Only events of these."
)
@click.option(
    "--after",
    metavar="SEQ",
    callback=event_number,
    help="Begin after this event (431, or with the mark of the daemon's process, 5f3a9c1e.431), as far as the "
    "daemon still knows; -1: with all that it knows. [default: now]",
)
def command(asking: Asking, group: str | None, kinds: list[str] | None, after: int | str | None) -> int:
    """Print what happens in GROUP, or in all groups, as it happens."""
    from coordinator.cli.control.following import Following

    end_when_nobody_reads()
    following = Following(asking.client, group=group, kinds=tuple(kinds or ()), after=after, say=note)
    for happened in following:
        if asking.is_json:
            print_json_line({"kind": happened.kind, **happened.value})
        elif happened.kind == "gap":
            note(
                "it is another daemon now"
                if happened.is_restart
                else "events before this are no longer known"
            )
        else:
            is_aligned = asking.output.is_for_people
            parts = event_parts(
                happened.kind, happened.value, with_group=group is None, is_aligned=is_aligned
            )
            _print(parts, asking.output)
    raise AssertionError("what happens has no end")


def _print(parts: list[tuple[str, str]], output: Output) -> None:
    if output.is_colored:
        from coordinator.cli.control.highlight import codes

        line = _GAP.join(codes(style) % text if style else text for text, style in parts)
    else:
        line = _GAP.join(text for text, _ in parts)
    print(line, flush=True)
