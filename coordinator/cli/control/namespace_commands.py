"""`groupd namespace`: add, list, reset and remove further brokers in a daemon, and set their advertised
addresses.
"""

from collections.abc import Sequence
from typing import Final

import click

from coordinator.cli.click_extensions import DefaultSubcommand, Subcommand, topics_option
from coordinator.cli.command_errors import InvalidArguments
from coordinator.cli.control.api_answers import parse_removable_namespaces
from coordinator.cli.control.daemon_command import (
    YES,
    DaemonContext,
    check_not_empty,
    daemon_command,
    name_argument,
    print_answer,
)
from coordinator.core.message_text import printable

SUBCOMMANDS: Final = {
    "add": Subcommand("cli.control.namespace_commands:add_namespace", "Create a namespace."),
    "advertise": Subcommand(
        "cli.control.namespace_commands:advertise_addresses", "Set the advertised addresses of a broker."
    ),
    "list": Subcommand(
        "cli.control.namespace_commands:list_namespaces", "List namespaces with their addresses."
    ),
    "reset": Subcommand(
        "cli.control.namespace_commands:reset_namespace", "Reset a namespace to its initial state."
    ),
    "rm": Subcommand("cli.control.namespace_commands:remove_namespaces", "Remove namespaces."),
}


@click.group(cls=DefaultSubcommand, default="list", subcommands=SUBCOMMANDS)
def namespace() -> None:
    """Add and remove brokers for tests in the process of the daemon, each with its own port and files in memory.
    `groupd namespace` alone lists them.

    Commands that call a daemon take --namespace NAME to call that broker.
    """


ADD_EPILOG: Final = """A namespace has the daemon's properties, except those of listeners and security. Examples:

\b
groupd namespace add
groupd namespace add test-1 --topic orders:6 -o group.initial.rebalance.delay.ms=0
groupd namespace add --json | jq -r .bootstrap"""


def _parse_properties(_: click.Context, __: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    properties: dict[str, str] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not (equals and name.strip()):
            raise click.BadParameter(f"{printable(value)} is not NAME=VALUE")
        properties[name.strip()] = text.strip()
    return properties


@daemon_command(epilog=ADD_EPILOG)
@click.argument("name", required=False, callback=check_not_empty)
@topics_option(help_text="An initial topic; may be repeated.")
@click.option(
    "-o",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_parse_properties,
    help="Set a property; may be repeated.",
)
@click.option(
    "--durable", is_flag=True, help="Keep its files on the disk, for the next namespace of that name."
)
def add_namespace(
    context: DaemonContext,
    name: str | None,
    topics: list[tuple[str, int]],
    properties: dict[str, str],
    durable: bool,
) -> int:
    """Create the broker NAME. Without NAME groupd chooses one."""
    body = {"name": name, "topics": dict(topics), "config": properties, "durable": durable}
    print_answer(context, "POST", "namespaces", body=body)
    return YES


@daemon_command(epilog="Example: groupd namespace list")
def list_namespaces(context: DaemonContext) -> int:
    """List the brokers of the daemon, with addresses and contents. The first one is the daemon's own broker."""
    print_answer(context, "GET", "namespaces")
    return YES


ADVERTISE_EPILOG: Final = """\
`default` is the broker of the daemon itself. Example, for a container with another published port:

\b
groupd namespace advertise default PLAINTEXT=localhost:49153"""


def _parse_addresses(_: click.Context, __: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    addresses: dict[str, str] = {}
    for value in values:
        listener, equals, address = value.partition("=")
        if not (equals and listener and address):
            raise click.BadParameter(f"{printable(value)} is not LISTENER=HOST:PORT")
        addresses[listener] = address
    return addresses


@daemon_command(epilog=ADVERTISE_EPILOG)
@name_argument()
@click.argument(
    "addresses", nargs=-1, required=True, metavar="LISTENER=HOST:PORT...", callback=_parse_addresses
)
def advertise_addresses(context: DaemonContext, name: str, addresses: dict[str, str]) -> int:
    """Set the addresses that the broker NAME advertises from now on."""
    print_answer(context, "PUT", "namespaces", name, "advertised", body=addresses)
    return YES


@daemon_command(epilog="Example: groupd namespace reset test-1")
@name_argument()
def reset_namespace(context: DaemonContext, name: str) -> int:
    """Reset the broker NAME to its initial state: no groups, its first topics, the same port."""
    print_answer(context, "POST", "namespaces", name, "reset")
    return YES


RM_EPILOG = """Examples:

\b
groupd namespace rm test-1
groupd namespace rm --all"""


@daemon_command(epilog=RM_EPILOG)
@click.argument("names", nargs=-1, metavar="NAME...")
@click.option("--all", "is_all", is_flag=True, help="Remove all namespaces.")
def remove_namespaces(context: DaemonContext, names: tuple[str, ...], is_all: bool) -> int:
    """Remove the brokers of these NAMEs with all their data."""
    if is_all == bool(names):
        raise InvalidArguments("either NAME or --all is required")
    if "" in names:
        raise InvalidArguments("NAME must not be empty")
    if is_all:
        names = tuple(parse_removable_namespaces(context.client.get_json("namespaces")))
    for name in names:
        context.client.request_json("DELETE", "namespaces", name)
    return YES
