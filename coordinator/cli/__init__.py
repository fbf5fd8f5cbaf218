"""The command `groupd`. Each subcommand is a module of its own, imported when it is called."""

import os
import signal
import sys
import warnings
from types import FrameType
from typing import Any, Final

import click

from coordinator import __version__
from coordinator.cli.subcommands import Subcommands

SUBCOMMANDS: Final = {
    "acl": "List, add and remove ACLs.",
    "clock": "Hold the clock of a group, let it run, move it ahead.",
    "cluster": "Show several brokers, in one daemon or on etcd, and move what they own.",
    "console": "Open the page of the daemon.",
    "expire": "End the session of a member now.",
    "explain": "Say what a group waits for.",
    "failover": "Move the coordinator of a group.",
    "fault": "Make requests of groups fail, hang or vanish.",
    "groups": "List, describe, reset and delete groups.",
    "kafka-tools": "Run one of Kafka's tools: kafka-topics, kafka-console-consumer, ...",
    "ledger": "Say why groups rebalanced.",
    "log": "Read, check and repair logs on disk.",
    "namespace": "Make brokers beside the daemon's own, and remove them.",
    "ping": "Ask whether a groupd, or any Kafka broker, answers.",
    "record": "Record what a group is told.",
    "replay": "Play a recording of a group again.",
    "serve": "Run the daemon.",
    "top": "Show all groups, as they change.",
    "user": "Add, list and remove users of SCRAM.",
    "version": "Print the version.",
    "wait": "Wait until a group is as it should be.",
    "watch": "Print what happens in groups, as it happens.",
    "wire": "Read bytes of the protocol.",
}
"""By name, with the first line of their help."""

EXIT_FAILURE: Final = 1
EXIT_USAGE: Final = 2


@click.group(
    cls=Subcommands,
    package="coordinator.cli",
    described=SUBCOMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def groupd() -> None:
    """A standalone Kafka group coordinator."""


def main(arguments: list[str] | None = None) -> Any:
    """The entry point of the command. Exit codes: 0 fine, 1 a failure while running, 2 usage or no start, 3 no
    daemon can be reached."""
    if os.getpid() == 1:
        # To the first process of a container the system passes on no signal that it has not asked for.
        signal.signal(signal.SIGTERM, _end)
    if not __debug__:
        print("groupd: does not run with assertions off (python -O, PYTHONOPTIMIZE)", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    if not sys.warnoptions:
        # Libraries address them to programmers, as cryptography about an unusual name in a certificate.
        warnings.simplefilter("ignore", UserWarning)
    return groupd(arguments, prog_name="groupd")


def _end(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)
