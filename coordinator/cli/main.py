"""The command `groupd`: its entry point, and its subcommands, each imported when it is called."""

import os
import signal
import sys
import warnings
from types import FrameType
from typing import Any, Final

import click

from coordinator import __version__
from coordinator.cli.click_extensions import Subcommand, Subcommands

SUBCOMMANDS: Final = {
    "acl": Subcommand("cli.broker.acl_commands:acl", "List, add and remove ACLs."),
    "clock": Subcommand(
        "cli.control.time_commands:control_clock", "Stop, run or advance the clock of a group."
    ),
    "cluster": Subcommand(
        "cli.control.cluster_commands:cluster",
        "Show the brokers of a daemon or a cluster on etcd, and move partitions.",
    ),
    "console": Subcommand("cli.control.monitoring_commands:open_console", "Open the web page of the daemon."),
    "expire": Subcommand("cli.control.time_commands:expire_member", "End the session of a member now."),
    "explain": Subcommand("cli.control.diagnosis_commands:explain_group", "Explain the waits of a group."),
    "failover": Subcommand(
        "cli.control.cluster_commands:fail_over_group", "Move the coordinator of a group."
    ),
    "fault": Subcommand(
        "cli.control.fault_commands:fault", "Inject faults into requests, responses and the disk."
    ),
    "groups": Subcommand("cli.control.group_commands:groups", "List, describe, reset and delete groups."),
    "kafka-tools": Subcommand(
        "cli.kafka_tools.dispatch:run_kafka_tool",
        "Run one of Kafka's tools: kafka-topics, kafka-console-consumer, ...",
    ),
    "ledger": Subcommand(
        "cli.control.diagnosis_commands:show_ledger", "Show the rebalances of groups and their causes."
    ),
    "log": Subcommand("cli.log.log_command:log", "Read, check and repair logs on disk."),
    "namespace": Subcommand(
        "cli.control.namespace_commands:namespace", "Add and remove brokers beside the daemon's own."
    ),
    "ping": Subcommand("cli.ping:ping", "Test whether a groupd or Kafka broker answers."),
    "record": Subcommand("cli.control.recording_command:record_group", "Record the input of a group."),
    "replay": Subcommand("cli.replay_command:replay_recording", "Replay the recording of a group."),
    "serve": Subcommand("cli.serve:serve", "Run the daemon."),
    "top": Subcommand("cli.control.monitoring_commands:show_top", "Show all groups, updated live."),
    "user": Subcommand("cli.broker.user_commands:user", "Add, list and remove users of SCRAM."),
    "version": Subcommand("cli.main:print_version", "Print the version."),
    "wait": Subcommand(
        "cli.control.diagnosis_commands:wait_for_group", "Wait until a group meets conditions."
    ),
    "watch": Subcommand(
        "cli.control.monitoring_commands:watch_events", "Print the events of groups as they happen."
    ),
    "wire": Subcommand("cli.wire.wire_command:wire", "Decode bytes of the protocol."),
}

EXIT_FAILURE: Final = 1
EXIT_USAGE: Final = 2


@click.group(
    cls=Subcommands,
    subcommands=SUBCOMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def groupd() -> None:
    """A standalone Kafka group coordinator."""


def main(arguments: list[str] | None = None) -> Any:
    """Run the command `groupd`. Exit codes: 0 success, 1 failure while running, 2 invalid usage or failed start,
    3 no daemon can be reached."""
    if os.getpid() == 1:
        # The kernel delivers to the first process of a container only signals with a handler.
        signal.signal(signal.SIGTERM, _exit_on_signal)
    if not __debug__:
        print("groupd: does not run without assertions: remove python -O and PYTHONOPTIMIZE", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    # Libraries address UserWarning to programmers, for example for an unusual country in a certificate.
    if not sys.warnoptions:
        warnings.simplefilter("ignore", UserWarning)
    return groupd(arguments, prog_name="groupd")


def _exit_on_signal(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


@click.command()
def print_version() -> None:
    """Print the version of groupd."""
    click.echo(__version__)
