"""`groupd failover`: the coordinator of a group moves away and comes back."""

from typing import Final

import click

from coordinator.cli.control.arguments import DURATION, group_argument, seconds
from coordinator.cli.control.command import YES, Asking, daemon_command
from coordinator.cli.control.printed import answer
from coordinator.cli.control.question import PATIENCE_S

EPILOG: Final = """Everybody who asks is told NOT_COORDINATOR for the first span, and that the coordinator is
loading for the second; then the groups are read anew from the log. Groups of the same offsets partition move
with it. In a cluster on etcd the broker is asked that coordinates the group (--url). Examples:

\b
groupd failover billing --not-coordinator 500ms --loading 1500ms
groupd failover billing --to 2"""


@daemon_command(epilog=EPILOG)
@group_argument()
@click.option("--not-coordinator", type=DURATION, metavar="TIME", help="How long it is elsewhere.")
@click.option("--loading", type=DURATION, metavar="TIME", help="How long it then says that it loads.")
@click.option("--to", type=int, metavar="ID", help="The broker, of several, that coordinates it then.")
@click.option(
    "--settle",
    type=DURATION,
    metavar="TIME",
    help="How long the answer waits for the members to be back. [default: the daemon's, 5s]",
)
def command(asking: Asking, group: str, to: int | None, **spans: str | None) -> int:
    """Move the coordinator of GROUP, as when its broker changes."""
    body: dict[str, str | int] = {name: span for name, span in spans.items() if span is not None}
    if to is not None:
        body["to"] = to
    patience_s = sum(map(seconds, spans.values())) + PATIENCE_S
    answer(asking, "POST", "groups", group, "failover", body=body, patience_s=patience_s)
    return YES
