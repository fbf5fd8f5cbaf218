"""`groupd explain`, `groupd wait` and `groupd ledger`."""

import sys
from collections.abc import Mapping
from typing import Any, Final

import click

from coordinator.cli.command_errors import DaemonError, InvalidArguments
from coordinator.cli.control.api_answers import parse_explanation, parse_ledger
from coordinator.cli.control.daemon_command import (
    DURATION,
    MAX_WAIT_S,
    YES,
    DaemonContext,
    daemon_command,
    group_argument,
    parse_count,
    parse_event_number,
    parse_names,
    parse_offsets,
    parse_pairs,
    parse_seconds,
    print_answer,
    print_json,
    print_json_line,
    print_note,
    print_text,
)
from coordinator.cli.control.daemon_url import DEFAULT_TIMEOUT_S
from coordinator.cli.output_streams import exit_when_reader_closes


@daemon_command(epilog="Example: groupd explain billing")
@group_argument()
def explain_group(context: DaemonContext, group: str) -> int:
    """Explain the state of GROUP: its waits, their causes, and the events that would end them."""
    answer = context.client.get_json("groups", group, "explain")
    if context.is_json:
        print_json(answer, context.output)
        return YES
    from coordinator.cli.control.suggested_commands import format_explanation

    text = format_explanation(parse_explanation(answer), context.client.namespace, context.find_bootstrap)
    print_text(text, context.output)
    return YES


WAIT_EPILOG: Final = """All conditions must hold at the same time. Separate names of a list by commas, or repeat
the option. Examples:

\b
groupd wait billing --state Stable --members 3 --owned orders --within 10s
groupd wait billing --members 2.. --clients alice,bob --absent carol
groupd wait billing --owner orders-3=alice --committed orders-0=41
groupd wait billing --rebalanced "cause=session expired,client=bob" --after 431"""


def _parse_rebalanced(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str] | None:
    return {} if values == ("any",) else parse_pairs(context, parameter, values)


@daemon_command(epilog=WAIT_EPILOG)
@group_argument()
@click.option(
    "--state", metavar="STATE", help="Stable, Empty, PreparingRebalance, CompletingRebalance or Dead."
)
@click.option(
    "--members",
    metavar="N|MIN..MAX",
    callback=parse_count,
    help="Number of members; `3..` means three or more.",
)
@click.option(
    "--clients", multiple=True, metavar="NAMES", callback=parse_names, help="These clients are members."
)
@click.option(
    "--absent", multiple=True, metavar="NAMES", callback=parse_names, help="These clients are not members."
)
@click.option(
    "--owned",
    multiple=True,
    metavar="TOPICS",
    callback=parse_names,
    help="Each partition has exactly one owner, and the owner has fetched the assignment.",
)
@click.option(
    "--owner",
    multiple=True,
    metavar="PARTITION=NAME",
    callback=parse_pairs,
    help="The owner of a partition: orders-3=alice.",
)
@click.option(
    "--committed",
    multiple=True,
    metavar="PARTITION=OFFSET",
    callback=parse_offsets,
    help="Minimum committed offset of a partition.",
)
@click.option("--lag-max", type=click.IntRange(min=0), metavar="N", help="Maximum lag of each partition.")
@click.option(
    "--topics",
    multiple=True,
    metavar="TOPICS",
    callback=parse_names,
    help="For --lag-max. [default: the subscribed ones]",
)
@click.option("--generation", type=click.IntRange(min=0), metavar="N", help="This generation or a later one.")
@click.option(
    "--rebalanced",
    multiple=True,
    metavar="cause=…,client=…",
    callback=_parse_rebalanced,
    help="The ledger has such a rebalance; `any` matches all.",
)
@click.option(
    "--after",
    metavar="SEQ",
    callback=parse_event_number,
    help="For --rebalanced: after this event (431, or with the mark of the daemon's process, 5f3a9c1e.431).",
)
@click.option("--quiet", type=DURATION, metavar="TIME", help="No rebalance for this duration, in group time.")
@click.option(
    "--within",
    type=DURATION,
    default="10s",
    show_default=True,
    metavar="TIME",
    help="How long to wait, in real time.",
)
def wait_for_group(context: DaemonContext, group: str, within: str, **wanted: Any) -> int:
    """Wait until GROUP meets all conditions. Exit code 0 if it does, 1 with the reason on timeout."""
    if parse_seconds(within) > MAX_WAIT_S:
        raise InvalidArguments(f"--within {within}: at most {MAX_WAIT_S // 60} minutes")
    conditions = {name: value for name, value in wanted.items() if value is not None}
    if conditions.keys() <= {"after", "topics"}:
        raise InvalidArguments(
            "a condition is required: --state, --members, --owned, ... (groupd wait --help)"
        )
    if "generation" in conditions:
        conditions["generation"] = {"min": conditions["generation"]}
    body = conditions | {"within": within}
    print_answer(
        context,
        "POST",
        "groups",
        group,
        "wait",
        body=body,
        timeout_s=parse_seconds(within) + DEFAULT_TIMEOUT_S,
    )
    return YES


LEDGER_EPILOG: Final = """\
An entry has the generation, the begin, cause and actor of the rebalance, the duration without progress, the time of
each join, and the assignment. In a consumer group (KIP-848) an entry is an epoch, with the time until all members
had their target assignment. Examples:

\b
groupd ledger billing --last 1
groupd ledger billing --follow
groupd ledger --json | jq '.entries[] | [.group_id, .cause]'"""

MAX_ENTRIES: Final = 1000
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_CLOSING_EVENTS: Final = (
    *("RebalanceCompleted", "AssignmentFetched", "GroupEmptied", "GroupDeleted", "GroupLoaded"),
    *("EpochBumped", "MemberReconciled", "GroupConverted"),
)
"""The events after which an entry may be closed."""


@daemon_command(epilog=LEDGER_EPILOG, is_ended_by_interrupt=True)
@group_argument(is_required=False)
@click.option(
    "--last",
    type=click.IntRange(1, MAX_ENTRIES),
    default=5,
    show_default=True,
    metavar="N",
    help="Number of entries; the latest comes last.",
)
@click.option("--follow", is_flag=True, help="Also print new entries, until Ctrl-C.")
def show_ledger(context: DaemonContext, group: str | None, last: int, follow: bool) -> int:
    """Show why GROUP, or any group, rebalanced: the last entries of the ledger."""
    path = ("ledger",) if group is None else ("groups", group, "ledger")
    if not follow:
        print_answer(context, "GET", *path, query={"last": last})
        return YES
    _LedgerFollower(context, group, path).follow(last)
    return YES


class _LedgerFollower:
    """The closed entries of a ledger, each printed once."""

    def __init__(self, context: DaemonContext, group: str | None, path: tuple[str, ...]) -> None:
        self._context = context
        self._group = group
        self._path = path
        self._after = -1

    def follow(self, last: int) -> None:
        """Print entries until an interrupt. Raises ServerUnreachable, DaemonError."""
        from coordinator.cli.control.event_follower import EventFollower

        exit_when_reader_closes()
        self._print_closed_entries({"last": last})
        client, after = self._context.client, self._after
        for event in EventFollower(
            client, group=self._group, kinds=_CLOSING_EVENTS, after=after, on_status_change=print_note
        ):
            if event.is_restart:
                self._after = -1
            self._print_closed_entries({"after": self._after, "limit": MAX_ENTRIES})

    def _print_closed_entries(self, query: Mapping[str, int]) -> None:
        try:
            page = parse_ledger(self._context.client.get_json(*self._path, query=query))
        except DaemonError as error:
            if error.status in (_NOT_FOUND, _CONFLICT):
                return  # the group may be created later, and the stream reports a restart
            raise
        closed = [entry for entry in page.entries if entry.get("result") != "open"]
        if closed and self._context.is_json:
            for entry in closed:
                print_json_line(entry)
        elif closed:
            # Request the same entries again, as text of the daemon.
            same = {"after": closed[0]["seq"] - 1, "limit": len(closed)}
            print_text(
                self._context.client.request_text("GET", *self._path, query=same), self._context.output
            )
        sys.stdout.flush()
        self._after = max(self._after, page.next)
