"""`groupd wire`: bytes of the protocol, field by field, for people who debug a client.

Each subcommand is a module of its own. They read with the reference codec (construct), which the daemon never
imports.
"""

from importlib import import_module
from typing import Final

import click

SUBCOMMANDS: Final = {
    "decode": "Print a message, field by field.",
    "dump": "Print recorded frames, field by field.",
    "record": "Print records of __consumer_offsets, field by field.",
}
"""By name, with the first line of their help. Each is `command` in the module of that name."""


class _Subcommands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SUBCOMMANDS:
            return None
        command: click.Command = import_module(f"coordinator.cli.wire.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(SUBCOMMANDS.items()))


@click.group(cls=_Subcommands)
def command() -> None:
    """Print bytes of the protocol, field by field: where each field begins, how long it is, what it says.

    Where the bytes are not what they have to be, the fields up to there are printed, then the reason, and the exit
    code is 1.
    """
