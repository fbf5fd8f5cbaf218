"""`groupd namespace list`."""

from coordinator.cli.control.command import YES, Asking, daemon_command
from coordinator.cli.control.printed import answer


@daemon_command(epilog="Example: groupd namespace list")
def command(asking: Asking) -> int:
    """List the brokers of the daemon, its own first, with where clients connect and what they have."""
    answer(asking, "GET", "namespaces")
    return YES
