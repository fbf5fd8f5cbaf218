"""`groupd cluster status`."""

from coordinator.cli.control.command import YES, Asking, daemon_command
from coordinator.cli.control.printed import answer

EPILOG = """Behind each topic stands, for each partition, NUMBER:OWNER@LEADER-EPOCH.

Example: groupd cluster status"""


@daemon_command(epilog=EPILOG)
def command(asking: Asking) -> int:
    """List the brokers of the daemon, and which of them owns which partition."""
    answer(asking, "GET", "cluster")
    return YES
