"""`groupd top`: all groups, as they change."""

from typing import Final

from coordinator.cli.control.command import YES, Asking, daemon_command
from coordinator.cli.control.printed import print_json
from coordinator.cli.control.table import print_table

EPILOG: Final = """Those that rebalance come first, with whom they wait for. It ends by Ctrl-C, with exit code 0.
What is no terminal gets one picture. Examples:

\b
groupd top
groupd top --json | jq '.groups[] | select(.offsets.lag > 1000) | .group.group_id'"""


@daemon_command(epilog=EPILOG, is_ended_by_interrupt=True)
def command(asking: Asking) -> int:
    """Show all groups: states, members, lag, open rebalances, and what happened last."""
    from coordinator.cli.control.board import COLUMNS, Board, board_row

    if asking.output.is_terminal and not asking.is_json:
        from coordinator.cli.control.live_board import LiveBoard
        from coordinator.cli.rich_console import console_of

        LiveBoard(asking.client, console_of(asking.output)).run()
    groups = Board(asking.client).look()
    if asking.is_json:
        print_json({"groups": groups}, asking.output)
    else:
        print_table(COLUMNS, [board_row(group) for group in groups], asking.output)
    return YES
