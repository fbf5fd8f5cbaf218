"""`groupd cluster status`."""

from coordinator.cli.control.command import YES, Asking, daemon_command
from coordinator.cli.control.printed import answer

EPILOG = """Below each topic are its partitions by owner, each as NUMBER@LEADER-EPOCH; in a cluster on etcd also how
much etcd holds of those that the broker owns that is asked. --json has more: tokens, for one.

Example: groupd cluster status"""


@daemon_command(epilog=EPILOG)
def command(asking: Asking) -> int:
    """List the brokers of the daemon, and which of them owns which partition."""
    answer(asking, "GET", "cluster")
    return YES
