"""`groupd explain`: what a group waits for now, and what would end that."""

from coordinator.cli.control.arguments import group_argument
from coordinator.cli.control.command import YES, Asking, daemon_command
from coordinator.cli.control.printed import answer


@daemon_command(epilog="Example: groupd explain billing")
@group_argument()
def command(asking: Asking, group: str) -> int:
    """Say why GROUP is as it is: what it waits for, whose doing that is, and what would end it."""
    answer(asking, "GET", "groups", group, "explain")
    return YES
