"""The command `groupd`. Each subcommand is a module of its own, imported when it is called."""

from importlib import import_module
from typing import Any, Final

import click

SUBCOMMANDS: Final = {
    "log": "Read, check and repair logs on disk.",
    "ping": "Ask whether a groupd, or any Kafka broker, answers.",
    "serve": "Run the daemon.",
    "version": "Print the version.",
    "wire": "Read bytes of the protocol.",
}
"""By name, with the first line of their help. Each is `command` in the module of that name."""

EXIT_FAILURE: Final = 1
EXIT_USAGE: Final = 2


class _Subcommands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SUBCOMMANDS:
            return None
        command: click.Command = import_module(f"coordinator.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(SUBCOMMANDS.items()))


@click.group(
    cls=_Subcommands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
def groupd() -> None:
    """A standalone Kafka group coordinator."""


def main(arguments: list[str] | None = None) -> Any:
    """The entry point of the command. Exit codes: 0 fine, 1 a failure while running, 2 usage or no start."""
    return groupd(arguments, prog_name="groupd")
