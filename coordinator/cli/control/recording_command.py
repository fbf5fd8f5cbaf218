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

Without a GROUP it says which groups are recorded; with --new, every group that comes into being is from now on, and
with --none nothing any more. Examples:

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
@click.option("--new", "every_new", is_flag=True, help="Record every group that comes into being.")
@click.option(
    "--none", "nothing", is_flag=True, help="Record nothing any more, and forget what was recorded."
)
@click.option(
    "--mebibytes",
    type=click.IntRange(1, 64),
    metavar="N",
    help="For start and --new: after how much the recording ends by itself. [default: 4]",
)
def command(
    asking: Asking,
    group: str | None,
    action: str | None,
    path: str | None,
    mebibytes: int | None,
    every_new: bool,
    nothing: bool,
) -> int:
    """Record all that GROUP is told, or every new group; or say which groups are recorded."""
    body = {} if mebibytes is None else {"bytes": mebibytes * MEBIBYTE}
    if group is None:
        _all(asking, body, every_new=every_new, nothing=nothing)
        return YES
    if every_new or nothing:
        raise Misused("--new and --none are about no GROUP")
    if group == "":
        raise Misused("the empty name is none that can be recorded")
    action = action or "start"
    if path is not None and action != "save":
        raise Misused("-o belongs to save")
    if mebibytes is not None and action != "start":
        raise Misused("--mebibytes belongs to start and to --new")
    if action == "start":
        answer(asking, "PUT", "recordings", group, body=body)
    elif action == "stop":
        answer(asking, "DELETE", "recordings", group)
    else:
        return _save(asking, group, path or f"{printable(group).replace('/', '_')}.groupd-rec")
    return YES


def _all(asking: Asking, body: dict[str, int], *, every_new: bool, nothing: bool) -> None:
    if every_new and nothing:
        raise Misused("--new or --none, not both")
    if body and not every_new:
        raise Misused("--mebibytes belongs to start and to --new")
    if every_new:
        answer(asking, "PUT", "recordings", body=body)
    elif nothing:
        answer(asking, "DELETE", "recordings")
    else:
        answer(asking, "GET", "recordings")


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
