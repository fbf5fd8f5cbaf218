"""`groupd wire`: bytes of the protocol, field by field, for people who debug a client.

Each subcommand is a module of its own. They read with the reference codec (construct), which the daemon never
imports.
"""

from typing import Final

import click

from coordinator.cli.subcommands import Subcommands

SUBCOMMANDS: Final = {
    "decode": "Print a message, field by field.",
    "dump": "Print recorded frames, field by field.",
    "record": "Print records of __consumer_offsets, field by field.",
}
"""By name, with the first line of their help."""


@click.group(cls=Subcommands, package="coordinator.cli.wire", described=SUBCOMMANDS)
def command() -> None:
    """Print bytes of the protocol, field by field: where each field begins, how long it is, what it says.

    Where the bytes are not what they have to be, the fields up to there are printed, then the reason, and the exit
    code is 1.
    """
