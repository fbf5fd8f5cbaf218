"""`groupd cluster` and `groupd failover`: status of several brokers, in one process or on etcd, planned
moves, and stops and starts of brokers.
"""

from typing import Final

import click

from coordinator.cli.click_extensions import DefaultSubcommand, Subcommand
from coordinator.cli.command_errors import InvalidArguments
from coordinator.cli.control.daemon_command import (
    DURATION,
    YES,
    DaemonContext,
    daemon_command,
    group_argument,
    parse_seconds,
    print_answer,
)
from coordinator.cli.control.daemon_url import DEFAULT_TIMEOUT_S

SUBCOMMANDS: Final = {
    "import": Subcommand(
        "cli.cluster_import_command:import_cluster", "Import data directories into a new cluster on etcd."
    ),
    "move": Subcommand(
        "cli.control.cluster_commands:move_partition",
        "Move a group or a partition to another broker.",
    ),
    "start": Subcommand(
        "cli.control.cluster_commands:start_broker", "Start a broker of the daemon's process again."
    ),
    "status": Subcommand(
        "cli.control.cluster_commands:show_cluster", "List brokers, and which of them owns which partition."
    ),
    "stop": Subcommand("cli.control.cluster_commands:stop_broker", "Stop a broker of the daemon's process."),
}


@click.group(cls=DefaultSubcommand, default="status", subcommands=SUBCOMMANDS)
def cluster() -> None:
    """List, move, start and stop the brokers of `groupd serve --brokers N` or of a cluster on etcd.
    `groupd cluster` alone lists them."""


STATUS_EPILOG = """\
The partitions of a topic are listed by owner, each as NUMBER@LEADER-EPOCH. In a cluster on etcd the output also
has the size in etcd of the partitions that the queried broker owns. --json adds more fields, such as tokens.

Example: groupd cluster status"""


@daemon_command(epilog=STATUS_EPILOG)
def show_cluster(context: DaemonContext) -> int:
    """List the brokers of the daemon, each with its partitions."""
    print_answer(context, "GET", "cluster")
    return YES


MOVE_EPILOG = """In a cluster on etcd the partition is kept at that broker for as long as it lives. Examples:

\b
groupd cluster move --group billing --to 2
groupd cluster move --partition 17 --to 3 --hold-loading 3s
groupd cluster move --topic orders --partition 0 --to 1"""


@daemon_command(epilog=MOVE_EPILOG)
@click.option("--group", metavar="GROUP", help="Move the partition that coordinates this group.")
@click.option("--topic", metavar="TOPIC", help="Topic of the partition.  [default: __consumer_offsets]")
@click.option("--partition", type=click.IntRange(0, 2**31 - 1), metavar="N", help="Move this partition.")
@click.option("--to", type=click.IntRange(0, 2**31 - 1), required=True, metavar="ID", help="The new broker.")
@click.option(
    "--hold-loading",
    type=DURATION,
    metavar="TIME",
    help="Answer COORDINATOR_LOAD_IN_PROGRESS at least this long; only for coordinators.",
)
def move_partition(
    context: DaemonContext,
    group: str | None,
    topic: str | None,
    partition: int | None,
    to: int,
    hold_loading: str | None,
) -> int:
    """Move a group or a partition to another broker."""
    if (group is None) == (partition is None) or (group is not None and topic is not None):
        raise InvalidArguments("--group GROUP, or --partition N with an optional --topic TOPIC, is required")
    fields = {"group": group, "topic": topic, "partition": partition, "to": to, "hold_loading": hold_loading}
    body = {name: value for name, value in fields.items() if value is not None}
    print_answer(context, "POST", "cluster", "move", body=body)
    return YES


@daemon_command(epilog="Example: groupd cluster start 2")
@click.argument("node_id", type=click.IntRange(0, 2**31 - 1), metavar="ID")
def start_broker(context: DaemonContext, node_id: int) -> int:
    """Start broker ID again, on its previous ports."""
    print_answer(context, "POST", "cluster", "brokers", str(node_id), "start")
    return YES


@daemon_command(epilog="Example: groupd cluster stop 2")
@click.argument("node_id", type=click.IntRange(0, 2**31 - 1), metavar="ID")
def stop_broker(context: DaemonContext, node_id: int) -> int:
    """Stop broker ID. Other brokers take over its partitions, and its ports close."""
    print_answer(context, "POST", "cluster", "brokers", str(node_id), "stop")
    return YES


FAILOVER_EPILOG: Final = """\
Clients get NOT_COORDINATOR for the first duration and COORDINATOR_LOAD_IN_PROGRESS for the second one. Then groupd
loads the groups from the log again. The other groups of the same offsets partition move along. In a cluster on
etcd, send the command to the coordinator of the group (--url). Examples:

\b
groupd failover billing --not-coordinator 500ms --loading 1500ms
groupd failover billing --to 2"""


@daemon_command(epilog=FAILOVER_EPILOG)
@group_argument()
@click.option("--not-coordinator", type=DURATION, metavar="TIME", help="Duration of NOT_COORDINATOR.")
@click.option(
    "--loading", type=DURATION, metavar="TIME", help="Duration of COORDINATOR_LOAD_IN_PROGRESS after that."
)
@click.option("--to", type=int, metavar="ID", help="The new coordinator, if there are several brokers.")
@click.option(
    "--settle",
    type=DURATION,
    metavar="TIME",
    help="How long to wait for the members to return. [default: the daemon's, 5s]",
)
def fail_over_group(context: DaemonContext, group: str, to: int | None, **spans: str | None) -> int:
    """Move the coordinator of GROUP, as in a real failover."""
    body: dict[str, str | int] = {name: span for name, span in spans.items() if span is not None}
    if to is not None:
        body["to"] = to
    patience_s = sum(map(parse_seconds, spans.values())) + DEFAULT_TIMEOUT_S
    print_answer(context, "POST", "groups", group, "failover", body=body, timeout_s=patience_s)
    return YES
