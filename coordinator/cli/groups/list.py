"""`groupd groups list`."""

from typing import Final

import click

from coordinator.cli.control.answers import groups_of
from coordinator.cli.control.command import YES, Asking, daemon_command
from coordinator.cli.control.printed import print_json
from coordinator.cli.control.states import STATES, state_style
from coordinator.cli.control.table import Column, cell, print_table

EPILOG: Final = """Examples:

\b
groupd groups
groupd groups --state PreparingRebalance
groupd groups list --prefix billing --json | jq -r .groups[].group_id"""

_COLUMNS: Final = (
    Column("group", folds=True),
    Column("state", style=state_style),
    Column("members", is_figure=True, may_go=True),
    Column("generation", is_figure=True, may_go=True),
    Column("protocol", folds=True, may_go=True),
    Column("type", may_go=True),
)


@daemon_command(epilog=EPILOG)
@click.option("--state", type=click.Choice(STATES, case_sensitive=False), help="Only those in a state.")
@click.option("--prefix", metavar="TEXT", help="Only those whose names begin so.")
def command(asking: Asking, state: str | None, prefix: str | None) -> int:
    """List the groups that the daemon knows."""
    answered = asking.client.get("groups", query={"state": state, "prefix": prefix})
    groups = groups_of(answered)
    if asking.is_json:
        print_json(answered, asking.output)
    elif not groups and asking.output.is_for_people:
        print("no groups" + (" like that" if state or prefix else ""))
    else:
        rows = [
            [
                cell(group.group_id),
                cell(group.state),
                cell(group.members),
                cell(group.generation_id),
                cell(group.protocol_type),
                cell(group.type),
            ]
            for group in groups
        ]
        print_table(_COLUMNS, rows, asking.output)
    return YES
