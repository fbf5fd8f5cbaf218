"""`groupd replay`: replays a recording of a group."""

import sys
from typing import Any, Final, NoReturn

import click

from coordinator.cli.output_streams import (
    exit_interrupted,
    guard_output,
    is_closed,
    replace_closed_stderr,
    warn,
)

EPILOG: Final = """FILE is what `groupd record GROUP save` gave, or GET /v1/recordings/GROUP; - is standard input.
Without options the recording is played and compared, input by input. Examples:

\b
groupd replay billing.groupd-rec
groupd replay billing.groupd-rec --until 188 --ledger
groupd replay billing.groupd-rec --find double_owner
groupd replay billing.groupd-rec -o group.max.size=2 --drop 'fire bob' --ledger
groupd replay billing.groupd-rec --emit pytest > test_billing.py
groupd replay billing.groupd-rec --scrub - > for-others.groupd-rec

Exit codes: 0 the same came out (with --find: nothing was found), 1 something else came out (something was found),
2 FILE cannot be played, or usage."""

SAME: Final = 0
OTHER: Final = 1
USAGE: Final = 2

_EMIT_FORMS: Final = ("scenario", "pytest")


@click.command(epilog=EPILOG)
@click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, allow_dash=True))
@click.option(
    "--until",
    type=click.IntRange(min=1),
    metavar="N",
    help="Replay up to input N, and print the state of the group.",
)
@click.option("--ledger", "shows_ledger", is_flag=True, help="Print the rebalance ledger.")
@click.option(
    "--find", "oracle", metavar="ORACLE", help="Print the inputs after which this oracle finds a violation."
)
@click.option("-o", "options", multiple=True, metavar="NAME=VALUE", help="Replay with this property.")
@click.option(
    "--drop",
    "drops",
    multiple=True,
    metavar="WORDS",
    help="Replay without this input: 'fire bob', 'LeaveGroup bob', 12.",
)
@click.option("--emit", type=click.Choice(_EMIT_FORMS), help="Write a scenario, or a test for pytest.")
@click.option(
    "--me",
    metavar="CLIENT_ID",
    help="With --emit pytest: the member that is a real consumer. [default: the first member]",
)
@click.option(
    "--scrub",
    "scrubbed_path",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="Write the recording without hosts and user data.",
)
@click.option("--any-version", is_flag=True, help="Accept a recording of another version of groupd.")
def replay_recording(path: str, **options: Any) -> NoReturn:
    """Replay the recording in FILE, and report whether the results are identical."""
    replace_closed_stderr()
    if is_closed(sys.stdout):
        warn("standard output: is closed")
        sys.exit(USAGE)
    _check_options(**options)
    try:
        with guard_output():
            from coordinator.cli.replay_playback import replay_file

            sys.exit(replay_file(path, **options))
    except KeyboardInterrupt:
        exit_interrupted()


def _check_options(
    until: int | None,
    shows_ledger: bool,
    oracle: str | None,
    options: tuple[str, ...],
    drops: tuple[str, ...],
    emit: str | None,
    me: str | None,
    scrubbed_path: str | None,
    any_version: bool,
) -> None:
    """Check that no options exclude each other. Raises UsageError."""
    alone = {"--find": oracle, "--emit": emit, "--scrub": scrubbed_path}
    others = {
        "--until": until,
        "--ledger": shows_ledger or None,
        "-o": options or None,
        "--drop": drops or None,
    }
    given = [name for name, value in alone.items() if value is not None]
    with_it = [name for name, value in others.items() if value is not None]
    if len(given) > 1 or (given and with_it):
        raise click.UsageError(f"{' and '.join([*given, *with_it][:2])} exclude each other")
    if me is not None and emit != "pytest":
        raise click.UsageError("--me is only for --emit pytest")
