"""`groupd log`: reads, checks and repairs logs on disk. Each subcommand is a module of its own."""

import sys
from typing import Any, Final

import click

from coordinator.cli.click_extensions import Subcommand, Subcommands
from coordinator.cli.output_streams import exit_interrupted, is_closed, replace_closed_stderr

SUBCOMMANDS: Final = {
    "dump": Subcommand("cli.log.dump_command:dump_log", "Print the records of a log."),
    "recover": Subcommand(
        "cli.log.recover_command:recover_journal", "Write the records of a journal to the logs."
    ),
    "repair": Subcommand("cli.log.repair_commands:repair_logs", "Copy the readable part of a damaged log."),
    "stats": Subcommand("cli.log.stats_command:show_stats", "Print statistics of a log."),
    "verify": Subcommand("cli.log.repair_commands:verify_logs", "Check a log and report its damage."),
}


class _LogCommands(Subcommands):
    def invoke(self, ctx: click.Context) -> Any:
        replace_closed_stderr()
        if is_closed(sys.stdout):
            from coordinator.cli.log.log_paths import exit_with_error

            exit_with_error("standard output: is closed")
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            exit_interrupted()


@click.group(cls=_LogCommands, subcommands=SUBCOMMANDS)
def log() -> None:
    """Read, check and repair logs on disk, of groupd or of a Kafka broker.

    A PATH is a segment (a .log file), the directory of a partition, or a whole data directory. Only `recover`
    and `repair` change files; with the other commands a daemon may write meanwhile.
    """
