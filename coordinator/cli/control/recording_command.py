"""`groupd record`: record the input of groups for `groupd replay`."""

import sys
from typing import Final

import click

from coordinator.cli.command_errors import InvalidArguments
from coordinator.cli.control.daemon_command import (
    USAGE,
    YES,
    DaemonContext,
    daemon_command,
    print_answer,
    print_note,
)
from coordinator.cli.output_streams import warn
from coordinator.core.message_text import printable
from storage.files import OsFiles
from storage.storage_errors import format_error_reason

EPILOG: Final = """Actions:

\b
start   begin to record GROUP, which need not exist yet
save    write the recording so far to a file, and continue to record
stop    end the recording of GROUP and discard it

Without a GROUP the command lists the recorded groups. --new records every group that is created from now on. --none
ends all recordings. Examples:

\b
groupd record billing start
groupd record billing save -o billing.groupd-rec
groupd replay billing.groupd-rec"""

ACTIONS: Final = ("start", "save", "stop")
MEBIBYTE: Final = 1024 * 1024
_SAVE_TIMEOUT_S: Final = 300.0


@daemon_command(epilog=EPILOG)
@click.argument("group", required=False)
@click.argument("action", required=False, type=click.Choice(ACTIONS))
@click.option(
    "-o",
    "path",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="For save: the file. [default: GROUP.groupd-rec]",
)
@click.option("--new", "every_new", is_flag=True, help="Record every new group.")
@click.option("--none", "nothing", is_flag=True, help="End all recordings and discard them.")
@click.option(
    "--mebibytes",
    type=click.IntRange(1, 64),
    metavar="N",
    help="For start and --new: maximum size of a recording. [default: 4]",
)
def record_group(
    context: DaemonContext,
    group: str | None,
    action: str | None,
    path: str | None,
    mebibytes: int | None,
    every_new: bool,
    nothing: bool,
) -> int:
    """Record the input of GROUP or of every new group, or list the recorded groups."""
    body = {} if mebibytes is None else {"bytes": mebibytes * MEBIBYTE}
    if group is None:
        _record_all(context, body, every_new=every_new, nothing=nothing)
        return YES
    if every_new or nothing:
        raise InvalidArguments("--new and --none take no GROUP")
    if group == "":
        raise InvalidArguments("GROUP must not be empty")
    action = action or "start"
    if path is not None and action != "save":
        raise InvalidArguments("-o is only for save")
    if mebibytes is not None and action != "start":
        raise InvalidArguments("--mebibytes is only for start and --new")
    if action == "start":
        print_answer(context, "PUT", "recordings", group, body=body)
    elif action == "stop":
        print_answer(context, "DELETE", "recordings", group)
    else:
        return _save_recording(context, group, path or f"{printable(group).replace('/', '_')}.groupd-rec")
    return YES


def _record_all(context: DaemonContext, body: dict[str, int], *, every_new: bool, nothing: bool) -> None:
    if every_new and nothing:
        raise InvalidArguments("--new and --none exclude each other")
    if body and not every_new:
        raise InvalidArguments("--mebibytes is only for start and --new")
    if every_new:
        print_answer(context, "PUT", "recordings", body=body)
    elif nothing:
        print_answer(context, "DELETE", "recordings")
    else:
        print_answer(context, "GET", "recordings")


def _save_recording(context: DaemonContext, group: str, path: str) -> int:
    data = context.client.request_text("GET", "recordings", group, timeout_s=_SAVE_TIMEOUT_S).encode()
    if path == "-":
        sys.stdout.buffer.write(data)
        return YES
    try:
        OsFiles().write(path, data)
    except OSError as error:
        warn(f"{path}: {format_error_reason(error, path)}")
        return USAGE
    print_note(f"{path}: {len(data)} bytes")
    return YES
