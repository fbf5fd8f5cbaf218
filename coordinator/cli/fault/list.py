"""`groupd fault list`."""

from coordinator.cli.control.command import YES, Asking, daemon_command
from coordinator.cli.control.printed import answer


@daemon_command(epilog="Example: groupd fault list")
def command(asking: Asking) -> int:
    """List the faults that there are, with how often each matched and hit, and what it holds."""
    answer(asking, "GET", "faults")
    return YES
