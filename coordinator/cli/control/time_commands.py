"""`groupd clock`: the time of a group."""

from collections.abc import Mapping
from typing import Any, Final

import click

from coordinator.cli.control.arguments import DURATION, listed, seconds
from coordinator.cli.control.command import YES, Asking, daemon_command
from coordinator.cli.control.failure import Misused
from coordinator.cli.control.printed import answer
from coordinator.cli.control.question import PATIENCE_S
from coordinator.net.peer import printable

EPILOG: Final = """Actions:

\b
show           how the clock stands, and what its time brings about next
freeze         time stands still: no session ends, no rebalance times out
run            it goes on from where it is
advance TIME   what happens in so long happens now; the living are not taken for dead
step           advance to the next deadline
reset          the clock is the process's again; deadlines keep the time they had left

Without a GROUP it is the clock of all groups that have none of their own. Examples:

\b
groupd clock billing freeze
groupd clock billing advance 45s
groupd clock billing advance 5m --silent bob --settle 10s
groupd clock freeze"""

ACTIONS: Final = ("show", "freeze", "run", "advance", "step", "reset")
_MOVING: Final = ("advance", "step")
_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "silent": _MOVING,
    "settle": _MOVING,
    "except_": ("freeze",),
}
"""Which actions each option belongs to."""
_SETTLING_S: Final = 600.0
"""How long an advance may take, which waits for living members."""


def _parse(words: tuple[str, ...]) -> tuple[str | None, str, tuple[str, ...]]:
    """Group, action, and what follows. A group that is called like an action needs an action behind it."""
    if not words:
        return None, "show", ()
    if len(words) > 1 and words[1] in ACTIONS:
        return words[0], words[1], words[2:]
    if words[0] in ACTIONS:
        return None, words[0], words[1:]
    if len(words) > 1:
        raise Misused(f"{printable(words[1])} is none of {', '.join(ACTIONS)}")
    return words[0], "show", ()


@daemon_command(epilog=EPILOG)
@click.argument("words", nargs=-1, metavar="[GROUP] [ACTION] [TIME]")
@click.option(
    "--silent",
    multiple=True,
    metavar="NAMES",
    callback=listed,
    help="For advance and step: who is not heard meanwhile. [default: who has no connection]",
)
@click.option(
    "--settle",
    type=DURATION,
    metavar="TIME",
    help="For advance and step: how long to wait, really, for a living member. [default: the daemon's, 5s]",
)
@click.option(
    "--except",
    "except_",
    type=click.Choice(["gone"]),
    help="For freeze: members that have left their connection expire all the same.",
)
def command(asking: Asking, words: tuple[str, ...], **options: Any) -> int:
    """Hold the clock of GROUP, let it run, move it ahead; or say how it stands."""
    group, action, rest = _parse(words)
    if group == "":
        raise Misused("the empty name is none that can be asked for")
    for name, value in options.items():
        if value is not None and action not in _OPTIONS[name]:
            raise Misused(f"--{name.rstrip('_')} belongs to {' and '.join(_OPTIONS[name])}")
    if len(rest) != (1 if action == "advance" else 0):
        wanted = "a TIME, such as 45s" if action == "advance" else "nothing"
        raise Misused(f"{action} takes {wanted}")
    clock = ("clock",) if group is None else ("groups", group, "clock")
    if action in _MOVING:
        by = {"by": DURATION.convert(rest[0], None, None)} if rest else {}
        _move(asking, (*clock, action), by, options)
    elif action == "freeze":
        body = {"frozen": True} | ({} if options["except_"] is None else {"except": options["except_"]})
        answer(asking, "PUT", *clock, body=body)
    elif action == "run":
        answer(asking, "PUT", *clock, body={"frozen": False})
    elif action == "reset":
        answer(asking, "DELETE", *clock)
        answer(asking, "GET", *clock)
    else:
        answer(asking, "GET", *clock)
    return YES


def _move(asking: Asking, path: tuple[str, ...], by: Mapping[str, str], options: Mapping[str, Any]) -> None:
    body = {**by} | {name: options[name] for name in ("silent", "settle") if options[name] is not None}
    patience_s = max(_SETTLING_S, 2 * seconds(options["settle"])) + PATIENCE_S
    answer(asking, "POST", *path, body=body, patience_s=patience_s)
