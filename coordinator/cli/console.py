"""`groupd console`: the page of a daemon, in a browser."""

from typing import Final
from urllib.parse import quote

import click

from coordinator.cli.control.command import YES, Asking, daemon_command
from coordinator.cli.control.printed import print_json

EPILOG: Final = """Where there is no browser the address is all that comes of it. Examples:

\b
groupd console
groupd console billing --print"""


@daemon_command(epilog=EPILOG)
@click.argument("group", required=False)
@click.option("--print", "is_printed", is_flag=True, help="Print the address, and open nothing.")
def command(asking: Asking, group: str | None, is_printed: bool) -> int:
    """Open the page of the daemon, at GROUP where one is named."""
    asking.client.get("board")  # so that nobody looks at an empty window
    where = "" if group is None else f"/{quote(group, safe='')}"
    address = f"{asking.client.url}/#/{quote(asking.client.namespace or 'default', safe='')}{where}"
    if asking.is_json:
        print_json({"url": address}, asking.output)
    else:
        print(address)
    if not (is_printed or asking.is_json):
        import webbrowser  # looks for every browser that there may be

        webbrowser.open(address)
    return YES
