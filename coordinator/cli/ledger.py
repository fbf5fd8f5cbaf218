"""`groupd ledger`: why groups rebalanced."""

import sys
from collections.abc import Mapping
from typing import Final

import click

from coordinator.cli.control.answers import ledger_of
from coordinator.cli.control.arguments import group_argument
from coordinator.cli.control.command import YES, Asking, daemon_command
from coordinator.cli.control.failure import Refused
from coordinator.cli.control.printed import answer, note, print_json_line, print_text
from coordinator.cli.standard_streams import end_when_nobody_reads

EPILOG: Final = """An entry has the generation, when and why the rebalance began and whose doing that was, how long
the group did nothing, who came when, and who has what. In a consumer group (KIP-848) it is an epoch, and how long
it took until all had their target. Examples:

\b
groupd ledger billing --last 1
groupd ledger billing --follow
groupd ledger --json | jq '.entries[] | [.group_id, .cause]'"""

MOST: Final = 1000
_NO_SUCH: Final = 404
_NOT_OF_HERE: Final = 409
_KINDS: Final = (
    *("RebalanceCompleted", "AssignmentFetched", "GroupEmptied", "GroupDeleted", "GroupLoaded"),
    *("EpochBumped", "MemberReconciled", "GroupConverted"),
)
"""After which an entry may be closed."""


@daemon_command(epilog=EPILOG, is_ended_by_interrupt=True)
@group_argument(is_required=False)
@click.option(
    "--last",
    type=click.IntRange(1, MOST),
    default=5,
    show_default=True,
    metavar="N",
    help="How many entries, the latest at the end.",
)
@click.option("--follow", is_flag=True, help="Go on with each that comes, until Ctrl-C.")
def command(asking: Asking, group: str | None, last: int, follow: bool) -> int:
    """Say why GROUP, or any group, rebalanced: the last entries of the ledger."""
    path = ("ledger",) if group is None else ("groups", group, "ledger")
    if not follow:
        answer(asking, "GET", *path, query={"last": last})
        return YES
    _Followed(asking, group, path).run(last)
    return YES


class _Followed:
    """The closed entries of a ledger, each printed once."""

    def __init__(self, asking: Asking, group: str | None, path: tuple[str, ...]) -> None:
        self._asking = asking
        self._group = group
        self._path = path
        self._after = -1

    def run(self, last: int) -> None:
        """Goes on until it is interrupted. Raises Unreachable, Refused."""
        from coordinator.cli.control.following import Following

        end_when_nobody_reads()
        self._print({"last": last})
        client, after = self._asking.client, self._after
        for happened in Following(client, group=self._group, kinds=_KINDS, after=after, say=note):
            if happened.is_restart:
                self._after = -1
            self._print({"after": self._after, "limit": MOST})

    def _print(self, query: Mapping[str, int]) -> None:
        try:
            answered = ledger_of(self._asking.client.get(*self._path, query=query))
        except Refused as refused:
            if refused.status in (_NO_SUCH, _NOT_OF_HERE):
                return  # there may be such a group later; the stream says that it is another daemon
            raise
        closed = [entry for entry in answered.entries if entry.get("result") != "open"]
        if closed and self._asking.is_json:
            for entry in closed:
                print_json_line(entry)
        elif closed:
            # The same entries once more, in the daemon's words.
            same = {"after": closed[0]["seq"] - 1, "limit": len(closed)}
            print_text(self._asking.client.text("GET", *self._path, query=same), self._asking.output)
        sys.stdout.flush()
        self._after = max(self._after, answered.next)
