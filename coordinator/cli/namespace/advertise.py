"""`groupd namespace advertise`."""

from collections.abc import Sequence
from typing import Final

import click

from coordinator.cli.control.arguments import name_argument
from coordinator.cli.control.command import YES, Asking, daemon_command
from coordinator.cli.control.printed import answer
from coordinator.net.peer import printable

EPILOG: Final = """`default` is the daemon's own broker. Example, for a container whose port is published elsewhere:

\b
groupd namespace advertise default PLAINTEXT=localhost:49153"""


def _addresses(_: click.Context, __: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    addresses: dict[str, str] = {}
    for value in values:
        listener, equals, address = value.partition("=")
        if not (equals and listener and address):
            raise click.BadParameter(f"{printable(value)} is not LISTENER=HOST:PORT")
        addresses[listener] = address
    return addresses


@daemon_command(epilog=EPILOG)
@name_argument()
@click.argument("addresses", nargs=-1, required=True, metavar="LISTENER=HOST:PORT...", callback=_addresses)
def command(asking: Asking, name: str, addresses: dict[str, str]) -> int:
    """Tell clients of the broker NAME that connect from now on to come to these addresses."""
    answer(asking, "PUT", "namespaces", name, "advertised", body=addresses)
    return YES
