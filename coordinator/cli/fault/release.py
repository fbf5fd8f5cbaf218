"""`groupd fault release`."""

import click

from coordinator.cli.control.arguments import name_argument
from coordinator.cli.control.command import YES, Asking, daemon_command
from coordinator.cli.control.printed import answer

EPILOG = """A request that was held is seen by the group now, an answer goes out now. Examples:

\b
groupd fault release slow-sync
groupd fault release slow-sync --one oldest"""


@daemon_command(epilog=EPILOG)
@name_argument()
@click.option("--one", type=click.Choice(["oldest"]), help="Only the one that is held longest.")
def command(asking: Asking, name: str, one: str | None) -> int:
    """Let go of what the fault NAME holds; it goes on holding what comes."""
    answer(asking, "POST", "faults", name, "release", body={} if one is None else {"one": one})
    return YES
