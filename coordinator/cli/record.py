"""`groupd record`: what a group is told, to be played again."""

import sys
from typing import Final

import click

from coordinator.cli.control.command import USAGE, YES, Asking, daemon_command
from coordinator.cli.control.failure import Misused
from coordinator.cli.control.printed import answer, note
from coordinator.cli.standard_streams import warn
from coordinator.net.peer import printable
from storage.files import OsFiles
from storage.os_error import reason_of

EPILOG: Final = """Actions:

\b
start   record GROUP from now on, whether it is there or not
save    write what was recorded so far to a file; the recording goes on
stop    record GROUP no more, and forget what was recorded

Without a GROUP it says which groups are recorded. Examples:

\b
groupd record billing start
groupd record billing save -o billing.groupd-rec
groupd replay billing.groupd-rec"""

ACTIONS: Final = ("start", "save", "stop")
MEBIBYTE: Final = 1024 * 1024
_SAVE_S: Final = 300.0


@daemon_command(epilog=EPILOG)
@click.argument("group", required=False)
@click.argument("action", required=False, type=click.Choice(ACTIONS))
@click.option(
    "-o",
    "path",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="For save: where to. [default: GROUP.groupd-rec]",
)
@click.option(
    "--mebibytes",
    type=click.IntRange(1, 64),
    metavar="N",
    help="For start: after how much the recording ends by itself. [default: 4]",
)
def command(
    asking: Asking, group: str | None, action: str | None, path: str | None, mebibytes: int | None
) -> int:
    """Record all that GROUP is told; or say which groups are recorded."""
    if group is None:
        answer(asking, "GET", "recordings")
        return YES
    if group == "":
        raise Misused("the empty name is none that can be recorded")
    action = action or "start"
    if path is not None and action != "save":
        raise Misused("-o belongs to save")
    if mebibytes is not None and action != "start":
        raise Misused("--mebibytes belongs to start")
    if action == "start":
        body = {} if mebibytes is None else {"bytes": mebibytes * MEBIBYTE}
        answer(asking, "PUT", "recordings", group, body=body)
    elif action == "stop":
        answer(asking, "DELETE", "recordings", group)
    else:
        return _save(asking, group, path or f"{printable(group).replace('/', '_')}.groupd-rec")
    return YES


def _save(asking: Asking, group: str, path: str) -> int:
    data = asking.client.text("GET", "recordings", group, patience_s=_SAVE_S).encode()
    if path == "-":
        sys.stdout.buffer.write(data)
        return YES
    try:
        OsFiles().write(path, data)
    except OSError as error:
        warn(f"{path}: {reason_of(error, path)}")
        return USAGE
    note(f"{path}: {len(data)} bytes")
    return YES
