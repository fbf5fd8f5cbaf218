"""`groupd wait`: until a group is as it should be."""

from typing import Any, Final

import click

from coordinator.cli.control.arguments import (
    DURATION,
    LONGEST_WAIT_S,
    count,
    event_number,
    group_argument,
    listed,
    offsets,
    pairs,
    seconds,
)
from coordinator.cli.control.command import YES, Asking, daemon_command
from coordinator.cli.control.failure import Misused
from coordinator.cli.control.printed import answer
from coordinator.cli.control.question import PATIENCE_S

EPILOG: Final = """All that is asked for has to be so at once. Names in a list have commas between them, and an
option may be repeated. Examples:

\b
groupd wait billing --state Stable --members 3 --owned orders --within 10s
groupd wait billing --members 2.. --clients alice,bob --absent carol
groupd wait billing --owner orders-3=alice --committed orders-0=41
groupd wait billing --rebalanced "cause=session expired,client=bob" --after 431"""


def _rebalanced(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str] | None:
    return {} if values == ("any",) else pairs(context, parameter, values)


@daemon_command(epilog=EPILOG)
@group_argument()
@click.option(
    "--state", metavar="STATE", help="Stable, Empty, PreparingRebalance, CompletingRebalance or Dead."
)
@click.option("--members", metavar="N|MIN..MAX", callback=count, help="How many; `3..` is three or more.")
@click.option("--clients", multiple=True, metavar="NAMES", callback=listed, help="They are members.")
@click.option("--absent", multiple=True, metavar="NAMES", callback=listed, help="They are not.")
@click.option(
    "--owned",
    multiple=True,
    metavar="TOPICS",
    callback=listed,
    help="Each partition has exactly one owner, who knows.",
)
@click.option(
    "--owner",
    multiple=True,
    metavar="PARTITION=NAME",
    callback=pairs,
    help="Whose a partition is: orders-3=alice.",
)
@click.option(
    "--committed",
    multiple=True,
    metavar="PARTITION=OFFSET",
    callback=offsets,
    help="At least that is committed.",
)
@click.option("--lag-max", type=click.IntRange(min=0), metavar="N", help="No partition is further behind.")
@click.option(
    "--topics",
    multiple=True,
    metavar="TOPICS",
    callback=listed,
    help="For --lag-max. [default: the subscribed ones]",
)
@click.option("--generation", type=click.IntRange(min=0), metavar="N", help="This generation or a later one.")
@click.option(
    "--rebalanced",
    multiple=True,
    metavar="cause=…,client=…",
    callback=_rebalanced,
    help="The ledger has such a rebalance; `any` is any.",
)
@click.option(
    "--after",
    metavar="SEQ",
    callback=event_number,
    help="For --rebalanced: after this event (431, or with the mark of the daemon's process, 5f3a9c1e.431).",
)
@click.option(
    "--quiet", type=DURATION, metavar="TIME", help="There was no rebalance for so long, in group time."
)
@click.option(
    "--within",
    type=DURATION,
    default="10s",
    show_default=True,
    metavar="TIME",
    help="How long to wait, in real time.",
)
def command(asking: Asking, group: str, within: str, **wanted: Any) -> int:
    """Wait until GROUP is as it should be: exit code 0 when it is, 1 with the reason when it is not in time."""
    if seconds(within) > LONGEST_WAIT_S:
        raise Misused(f"--within {within}: at most {LONGEST_WAIT_S // 60} minutes")
    conditions = {name: value for name, value in wanted.items() if value is not None}
    if conditions.keys() <= {"after", "topics"}:
        raise Misused("say what the group is to be: --state, --members, --owned, ... (groupd wait --help)")
    if "generation" in conditions:
        conditions["generation"] = {"min": conditions["generation"]}
    body = conditions | {"within": within}
    answer(asking, "POST", "groups", group, "wait", body=body, patience_s=seconds(within) + PATIENCE_S)
    return YES
