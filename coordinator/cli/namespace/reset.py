"""`groupd namespace reset`."""

from coordinator.cli.control.arguments import name_argument
from coordinator.cli.control.command import YES, Asking, daemon_command
from coordinator.cli.control.printed import answer


@daemon_command(epilog="Example: groupd namespace reset test-1")
@name_argument()
def command(asking: Asking, name: str) -> int:
    """Have the broker NAME be as it was when it was made: no groups, its first topics, the same port."""
    answer(asking, "POST", "namespaces", name, "reset")
    return YES
