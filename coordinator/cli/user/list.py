"""`groupd user list`."""

from typing import Final

from coordinator.cli.broker.command import YES, Asking, broker_command
from coordinator.cli.broker.directory import directory_option
from coordinator.cli.control.printed import print_json
from coordinator.cli.control.table import Column, cell, print_table
from coordinator.cli.user.users import users_of

EPILOG: Final = """Examples:

\b
groupd user list
groupd user list --data-dir /var/lib/groupd --json | jq -r .users[].name"""

_COLUMNS: Final = (
    Column("user", folds=True, style=lambda _: "bold"),
    Column("mechanism"),
    Column("iterations", is_figure=True, may_go=True),
)


@broker_command(epilog=EPILOG)
@directory_option()
def command(asking: Asking, data_dir: str | None) -> int:
    """List the users that can log in by SCRAM."""
    with users_of(asking, data_dir) as users:
        found = sorted(users.iterations().items())
    if asking.is_json:
        entries = [
            {"name": name, "mechanism": mechanism.mechanism_name, "iterations": iterations}
            for (name, mechanism), iterations in found
        ]
        print_json({"users": entries}, asking.output)
    elif not found and asking.output.is_for_people:
        print("no users")
    else:
        rows = [
            [cell(name), mechanism.mechanism_name, cell(iterations)]
            for (name, mechanism), iterations in found
        ]
        print_table(_COLUMNS, rows, asking.output)
    return YES
