"""`groupd fault wait`."""

import click

from coordinator.cli.control.arguments import DURATION, LONGEST_WAIT_S, name_argument, seconds
from coordinator.cli.control.command import YES, Asking, daemon_command
from coordinator.cli.control.failure import Misused
from coordinator.cli.control.printed import answer
from coordinator.cli.control.question import PATIENCE_S


@daemon_command(epilog="Example: groupd fault wait slow-sync --hit 1 --within 5s")
@name_argument()
@click.option(
    "--hit", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="How often."
)
@click.option(
    "--within",
    type=DURATION,
    default="10s",
    show_default=True,
    metavar="TIME",
    help="How long to wait, really.",
)
def command(asking: Asking, name: str, hit: int, within: str) -> int:
    """Wait until the fault NAME has hit N times: exit code 0 when it has, 1 when it has not in time."""
    if seconds(within) > LONGEST_WAIT_S:
        raise Misused(f"--within {within}: at most {LONGEST_WAIT_S // 60} minutes")
    body = {"hit": hit, "within": within}
    answer(asking, "POST", "faults", name, "wait", body=body, patience_s=seconds(within) + PATIENCE_S)
    return YES
