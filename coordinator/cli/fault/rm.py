"""`groupd fault rm`."""

import click

from coordinator.cli.control.command import YES, Asking, daemon_command
from coordinator.cli.control.failure import Misused
from coordinator.cli.control.printed import answer

EPILOG = """What a fault holds is let go. Examples:

\b
groupd fault rm slow-sync
groupd fault rm --all"""


@daemon_command(epilog=EPILOG)
@click.argument("names", nargs=-1, metavar="NAME...")
@click.option("--all", "is_all", is_flag=True, help="All that there are.")
def command(asking: Asking, names: tuple[str, ...], is_all: bool) -> int:
    """Remove the faults of these NAMEs."""
    if is_all == bool(names):
        raise Misused("say which: a NAME, or --all")
    if "" in names:
        raise Misused("the empty name is none that can be asked for")
    for path in [("faults",)] if is_all else [("faults", name) for name in names]:
        answer(asking, "DELETE", *path)
    return YES
