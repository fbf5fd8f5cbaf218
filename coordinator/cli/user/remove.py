"""`groupd user remove`."""

from typing import Final

import click

from coordinator.cli.broker.command import NO, YES, Asking, broker_command
from coordinator.cli.broker.directory import directory_option
from coordinator.cli.standard_streams import warn
from coordinator.cli.user.users import MECHANISMS, mechanism_option, users_of
from coordinator.net.peer import printable

EPILOG: Final = """Whoever is logged in stays so until the connection is closed. Example:

\b
groupd user remove alice"""


@broker_command(epilog=EPILOG)
@click.argument("name")
@mechanism_option("What the user cannot log in by any more.")
@directory_option()
def command(asking: Asking, name: str, mechanisms: tuple[str, ...], data_dir: str | None) -> int:
    """Take a user's password for SCRAM away."""
    wanted = [MECHANISMS[each] for each in mechanisms or MECHANISMS]
    with users_of(asking, data_dir) as users:
        there = users.iterations()
        found = [mechanism for mechanism in wanted if (name, mechanism) in there]
        for mechanism in found:
            users.remove(name, mechanism)
    if not found:
        warn(f"there is no user {printable(name)}" + (" of that mechanism" if mechanisms else ""))
        return NO
    return YES
