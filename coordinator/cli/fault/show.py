"""`groupd fault show`."""

from coordinator.cli.control.arguments import name_argument
from coordinator.cli.control.command import YES, Asking, daemon_command
from coordinator.cli.control.printed import answer


@daemon_command(epilog="Example: groupd fault show slow-sync")
@name_argument()
def command(asking: Asking, name: str) -> int:
    """Show the fault NAME: its rule, how often it hit, what it hit last, what it holds."""
    answer(asking, "GET", "faults", name)
    return YES
