"""`groupd clock` and `groupd expire`."""

from collections.abc import Mapping
from typing import Any, Final

import click

from coordinator.cli.command_errors import InvalidArguments
from coordinator.cli.control.daemon_command import (
    DURATION,
    YES,
    DaemonContext,
    daemon_command,
    group_argument,
    parse_names,
    parse_seconds,
    print_answer,
)
from coordinator.cli.control.daemon_url import DEFAULT_TIMEOUT_S
from coordinator.core.message_text import printable

CLOCK_EPILOG: Final = """Actions:

\b
show           show the time of the clock and its next deadlines
freeze         stop the clock: no session expires and no rebalance times out
run            start a stopped clock
advance TIME   fire all deadlines of this duration now; live members do not expire
step           advance to the next deadline
reset          use the clock of the process again; deadlines keep their remaining time

Without a GROUP the command applies to all groups that have no clock of their own. Examples:

\b
groupd clock billing freeze
groupd clock billing advance 45s
groupd clock billing advance 5m --silent bob --settle 10s
groupd clock freeze"""

ACTIONS: Final = ("show", "freeze", "run", "advance", "step", "reset")
_ADVANCE_ACTIONS: Final = ("advance", "step")
_ACTIONS_BY_OPTION: Final[Mapping[str, tuple[str, ...]]] = {
    "silent": _ADVANCE_ACTIONS,
    "settle": _ADVANCE_ACTIONS,
    "except_": ("freeze",),
}
"""The actions to which each option belongs."""
_SETTLE_TIMEOUT_S: Final = 600.0
"""The maximum duration of an advance in seconds, because it waits for live members."""


def _parse_words(words: tuple[str, ...]) -> tuple[str | None, str, tuple[str, ...]]:
    """Return the group, the action and its argument. An action must follow a group with the name of an action."""
    if not words:
        return None, "show", ()
    if len(words) > 1 and words[1] in ACTIONS:
        return words[0], words[1], words[2:]
    if words[0] in ACTIONS:
        return None, words[0], words[1:]
    if len(words) > 1:
        raise InvalidArguments(f"{printable(words[1])} must be one of {', '.join(ACTIONS)}")
    return words[0], "show", ()


@daemon_command(epilog=CLOCK_EPILOG)
@click.argument("words", nargs=-1, metavar="[GROUP] [ACTION] [TIME]")
@click.option(
    "--silent",
    multiple=True,
    metavar="NAMES",
    callback=parse_names,
    help="For advance and step: members to expire. [default: members without a connection]",
)
@click.option(
    "--settle",
    type=DURATION,
    metavar="TIME",
    help="For advance and step: how long to wait for a live member, in real time. [default: the daemon's, 5s]",
)
@click.option(
    "--except",
    "except_",
    type=click.Choice(["gone"]),
    help="For freeze: members without a connection still expire.",
)
def control_clock(context: DaemonContext, words: tuple[str, ...], **options: Any) -> int:
    """Stop, run or advance the clock of GROUP, or show it."""
    group, action, rest = _parse_words(words)
    if group == "":
        raise InvalidArguments("GROUP must not be empty")
    for name, value in options.items():
        if value is not None and action not in _ACTIONS_BY_OPTION[name]:
            raise InvalidArguments(
                f"--{name.rstrip('_')} belongs to {' and '.join(_ACTIONS_BY_OPTION[name])}"
            )
    if len(rest) != (1 if action == "advance" else 0):
        wanted = "a TIME, such as 45s" if action == "advance" else "nothing"
        raise InvalidArguments(f"{action} takes {wanted}")
    clock = ("clock",) if group is None else ("groups", group, "clock")
    if action in _ADVANCE_ACTIONS:
        by = {"by": DURATION.convert(rest[0], None, None)} if rest else {}
        _advance_clock(context, (*clock, action), by, options)
    elif action == "freeze":
        body = {"frozen": True} | ({} if options["except_"] is None else {"except": options["except_"]})
        print_answer(context, "PUT", *clock, body=body)
    elif action == "run":
        print_answer(context, "PUT", *clock, body={"frozen": False})
    elif action == "reset":
        print_answer(context, "DELETE", *clock)
        print_answer(context, "GET", *clock)
    else:
        print_answer(context, "GET", *clock)
    return YES


def _advance_clock(
    context: DaemonContext, path: tuple[str, ...], by: Mapping[str, str], options: Mapping[str, Any]
) -> None:
    body = {**by} | {name: options[name] for name in ("silent", "settle") if options[name] is not None}
    patience_s = max(_SETTLE_TIMEOUT_S, 2 * parse_seconds(options["settle"])) + DEFAULT_TIMEOUT_S
    print_answer(context, "POST", *path, body=body, timeout_s=patience_s)


EXPIRE_EPILOG: Final = """MEMBER is a member id, or an instance id or client id that one member alone has.
A client that lives learns of it at its next heartbeat: its partitions are lost, not revoked. Example:

\b
groupd expire billing bob"""


@daemon_command(epilog=EXPIRE_EPILOG)
@group_argument()
@click.argument("member")
def expire_member(context: DaemonContext, group: str, member: str) -> int:
    """End the session of MEMBER of GROUP now. The time of other members does not change."""
    print_answer(context, "POST", "groups", group, "members", member, "expire")
    return YES
