"""`groupd expire`: the session of a member is over now."""

from typing import Final

import click

from coordinator.cli.control.arguments import group_argument
from coordinator.cli.control.command import YES, Asking, daemon_command
from coordinator.cli.control.printed import answer

EPILOG: Final = """MEMBER is a member id, or an instance id or client id that one member alone has.
A client that lives learns of it at its next heartbeat: its partitions are lost, not revoked. Example:

\b
groupd expire billing bob"""


@daemon_command(epilog=EPILOG)
@group_argument()
@click.argument("member")
def command(asking: Asking, group: str, member: str) -> int:
    """End the session of MEMBER of GROUP now; nobody else's time changes."""
    answer(asking, "POST", "groups", group, "members", member, "expire")
    return YES
