"""`groupd cluster move`."""

import click

from coordinator.cli.control.arguments import DURATION
from coordinator.cli.control.command import YES, Asking, daemon_command
from coordinator.cli.control.failure import Misused
from coordinator.cli.control.printed import answer

EPILOG = """In a cluster on etcd the partition is kept at that broker for as long as it lives. Examples:

\b
groupd cluster move --group billing --to 2
groupd cluster move --partition 17 --to 3 --hold-loading 3s
groupd cluster move --topic orders --partition 0 --to 1"""


@daemon_command(epilog=EPILOG)
@click.option("--group", metavar="GROUP", help="Move the partition that coordinates this group.")
@click.option("--topic", metavar="TOPIC", help="Of which topic.  [default: __consumer_offsets]")
@click.option("--partition", type=click.IntRange(0, 2**31 - 1), metavar="N", help="Move this partition.")
@click.option("--to", type=click.IntRange(0, 2**31 - 1), required=True, metavar="ID", help="To this broker.")
@click.option(
    "--hold-loading",
    type=DURATION,
    metavar="TIME",
    help="For so long at least it says that it loads; for coordinators.",
)
def command(
    asking: Asking,
    group: str | None,
    topic: str | None,
    partition: int | None,
    to: int,
    hold_loading: str | None,
) -> int:
    """Have another broker coordinate a group, or own a partition."""
    if (group is None) == (partition is None) or (group is not None and topic is not None):
        raise Misused("say which: --group GROUP, or --partition N and perhaps --topic TOPIC")
    asked = {"group": group, "topic": topic, "partition": partition, "to": to, "hold_loading": hold_loading}
    body = {name: value for name, value in asked.items() if value is not None}
    answer(asking, "POST", "cluster", "move", body=body)
    return YES
