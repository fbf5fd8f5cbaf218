"""`groupd namespace add`."""

from collections.abc import Sequence
from typing import Final

import click

from coordinator.cli.control.arguments import not_empty
from coordinator.cli.control.command import YES, Asking, daemon_command
from coordinator.cli.control.printed import answer
from coordinator.cli.topics_option import topics_option
from coordinator.net.peer import printable

EPILOG: Final = """It has the daemon's properties but those of listeners and security. Examples:

\b
groupd namespace add
groupd namespace add test-1 --topic orders:6 -o group.initial.rebalance.delay.ms=0
groupd namespace add --json | jq -r .bootstrap"""


def _properties(_: click.Context, __: click.Parameter, values: Sequence[str]) -> dict[str, str]:
    properties: dict[str, str] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not (equals and name.strip()):
            raise click.BadParameter(f"{printable(value)} is not NAME=VALUE")
        properties[name.strip()] = text.strip()
    return properties


@daemon_command(epilog=EPILOG)
@click.argument("name", required=False, callback=not_empty)
@topics_option(help_text="A topic that it begins with; may be repeated.")
@click.option(
    "-o",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_properties,
    help="Set a property; may be repeated.",
)
@click.option(
    "--durable", is_flag=True, help="Keep its files on the disk; the next one of that name finds them."
)
def command(
    asking: Asking,
    name: str | None,
    topics: list[tuple[str, int]],
    properties: dict[str, str],
    durable: bool,
) -> int:
    """Make a broker called NAME; without it groupd finds one."""
    body = {"name": name, "topics": dict(topics), "config": properties, "durable": durable}
    answer(asking, "POST", "namespaces", body=body)
    return YES
