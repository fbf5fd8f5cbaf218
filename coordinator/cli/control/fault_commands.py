"""`groupd fault`: add, list, show, wait for, release and remove faults on requests, responses, the disk or
events.
"""

import re
from collections.abc import Iterable
from typing import Any, Final

import click

from coordinator.cli.click_extensions import DefaultSubcommand, Subcommand
from coordinator.cli.command_errors import InvalidArguments
from coordinator.cli.control.daemon_command import (
    DURATION,
    MAX_WAIT_S,
    YES,
    DaemonContext,
    daemon_command,
    name_argument,
    parse_names,
    parse_seconds,
    print_answer,
    split_commas,
)
from coordinator.cli.control.daemon_url import DEFAULT_TIMEOUT_S
from coordinator.core.message_text import printable

SUBCOMMANDS: Final = {
    "add": Subcommand("cli.control.fault_commands:add_fault", "Add a fault."),
    "list": Subcommand("cli.control.fault_commands:list_faults", "List faults with their numbers of hits."),
    "release": Subcommand(
        "cli.control.fault_commands:release_fault", "Release requests and responses that a fault holds."
    ),
    "rm": Subcommand("cli.control.fault_commands:remove_faults", "Remove faults."),
    "show": Subcommand("cli.control.fault_commands:show_fault", "Show a fault."),
    "wait": Subcommand("cli.control.fault_commands:wait_for_fault", "Wait until a fault has hit."),
}


@click.group(cls=DefaultSubcommand, default="list", subcommands=SUBCOMMANDS)
def fault() -> None:
    """Make requests of groups fail, hang or vanish. `groupd fault` alone lists the faults.

    A fault ends after its number of hits or its time, or when you remove it.
    """


_TERM: Final = re.compile(r"([a-z_]+) *(>=|<=|<|>|=) *(.+)", re.DOTALL)
_COORDINATOR: Final = re.compile(r"([0-9]{1,10})@(.+):([0-9]{1,5})")
_BOOLEANS: Final = {"true": True, "false": False}
_BOOLEAN_FIELDS: Final = ("first_join",)

Fields = dict[str, object]


def parse_match(_: click.Context, __: click.Parameter, values: Iterable[str]) -> Fields | None:
    """Parse conditions such as `api=SyncGroup,generation>=3`. Any value of a repeated name matches. Return None
    for no conditions."""
    found: Fields = {}
    for term in (term for value in values for term in split_commas(value)):
        _add_term(found, term)
    return found or None


def parse_event(_: click.Context, __: click.Parameter, values: Iterable[str]) -> Fields | None:
    """Parse the fields of an event, such as `GroupStabilized,group=billing`. The name needs no `event=`.

    Return None for an empty text.
    """
    found: Fields = {}
    for term in (term for value in values for term in split_commas(value)):
        _add_term(found, f"event={term}" if term.isalnum() else term)
    return found or None


def _add_term(found: Fields, term: str) -> None:
    parts = _TERM.fullmatch(term)
    if parts is None:
        raise click.BadParameter(
            f"{printable(term)} must have the form NAME=VALUE, NAME>=N, NAME<=N, NAME>N or NAME<N"
        )
    name, operator, text = parts.groups()
    value: object = text if operator == "=" else operator + text
    if name in _BOOLEAN_FIELDS:
        if text not in _BOOLEANS or operator != "=":
            raise click.BadParameter(f"{name} is true or false")
        value = _BOOLEANS[text]
    before = found.get(name)
    if before is None:
        found[name] = value
    else:
        found[name] = [*before, value] if isinstance(before, list) else [before, value]


def parse_error_code(_: click.Context, __: click.Parameter, value: str | None) -> str | int | None:
    """Parse an error code by name or number."""
    if value is not None and re.fullmatch(r"-?[0-9]{1,5}", value, re.ASCII):
        return int(value)
    return None if value is None else value.upper().replace("-", "_")


def parse_coordinator(_: click.Context, __: click.Parameter, value: str | None) -> Fields | None:
    """Parse NODE@HOST:PORT, such as 2@broker:9092."""
    if value is None:
        return None
    found = _COORDINATOR.fullmatch(value)
    if found is None:
        raise click.BadParameter(f"{printable(value)} is not NODE@HOST:PORT")
    return {"node_id": int(found[1]), "host": found[2].strip("[]"), "port": int(found[3])}


ADD_EPILOG: Final = """\
NAME is a name of your choice. Without an action it is the name of a preset, unless --use names one:
not-coordinator, loading, stale-coordinator, lost-commit-answer.

A request must meet all conditions of --match. Names accept `*`. A field that is given twice accepts both values.
Fields: api, version, group, topic, client_id, member_id, group_instance_id, role, state, generation, members,
first_join, host, connection, error.
Examples:

\b
groupd fault add slow-sync --match api=SyncGroup,group=billing,client_id=bob --at request --hold
groupd fault add lost --match api=OffsetCommit,client_id=alice --at answer --drop
groupd fault add busy --match "api=Heartbeat,generation>=3" --at request --error REBALANCE_IN_PROGRESS --times 5
groupd fault add lost-commit-answer --match group=billing
groupd fault add kill --match api=OffsetCommit --at after_append --crash process
groupd fault add move --on GroupStabilized,group=billing --failover --loading 1500ms"""

POINTS: Final = (
    *("request", "answer", "append", "sync"),
    *("before_append", "after_append", "after_sync", "before_answer", "event"),
)
_FAILOVER_FIELDS: Final = ("not_coordinator", "loading", "to")
"""The options of --failover."""
_ACTION_FLAGS: Final = ("hold", "drop", "swallow", "freeze")
_ACTION_FIELDS: Final = (
    "at",
    "error",
    "partitions",
    "coordinator",
    "fail",
    "torn_bytes",
    "crash",
    "disconnect",
    "expire",
    "release",
)
_RULE_FIELDS: Final = ("use", "match", "on", "skip", "probability", "seed", "for")


@daemon_command(epilog=ADD_EPILOG)
@click.argument("name", required=False)
@click.option("--use", metavar="READY-MADE", help="A preset, changed by the other options.")
@click.option(
    "--match", multiple=True, metavar="k=v,…", callback=parse_match, help="A condition on the request."
)
@click.option(
    "--on",
    multiple=True,
    metavar="EVENT[,k=v,…]",
    callback=parse_event,
    help="The event that triggers the fault.",
)
@click.option("--at", type=click.Choice(POINTS), help="Point of the injection.")
@click.option(
    "--error", metavar="CODE", callback=parse_error_code, help="Answer with this error, by name or number,"
)
@click.option(
    "--partitions",
    multiple=True,
    metavar="NAMES",
    callback=parse_names,
    help="but only for these partitions (orders-0).",
)
@click.option("--hold", is_flag=True, help="Hold it until `groupd fault release`.")
@click.option("--delay", type=DURATION, metavar="TIME", help="Delay it by this duration,")
@click.option("--jitter", type=DURATION, metavar="TIME", help="and by up to this much more at random.")
@click.option("--drop", is_flag=True, help="Close the connection instead.")
@click.option("--swallow", is_flag=True, help="Never answer.")
@click.option("--throttle", type=DURATION, metavar="TIME", help="Answer with this throttle time.")
@click.option(
    "--coordinator",
    metavar="NODE@HOST:PORT",
    callback=parse_coordinator,
    help="Answer FindCoordinator with this broker.",
)
@click.option("--fail", type=click.Choice(["EIO", "ENOSPC"]), help="Fail the disk with this error.")
@click.option(
    "--torn-bytes", type=click.IntRange(min=0), metavar="N", help="Bytes that are written before the failure."
)
@click.option(
    "--crash",
    type=click.Choice(["partition", "process"]),
    help="Crash, and lose all data that is not synced.",
)
@click.option("--failover", is_flag=True, help="Move the coordinator of the group of the event,")
@click.option(
    "--not-coordinator", type=DURATION, metavar="TIME", help="with NOT_COORDINATOR for this duration,"
)
@click.option(
    "--loading",
    type=DURATION,
    metavar="TIME",
    help="then with COORDINATOR_LOAD_IN_PROGRESS for this duration,",
)
@click.option("--to", type=int, metavar="ID", help="to this broker, if there are several.")
@click.option("--freeze", is_flag=True, help="Freeze the clock of the group of the event.")
@click.option("--disconnect", metavar="MEMBER", help="Close the connections of a member of it.")
@click.option("--expire", metavar="MEMBER", help="End the session of a member of it.")
@click.option("--release", metavar="FAULT", help="Release requests that another fault holds.")
@click.option("--skip", type=click.IntRange(min=0), metavar="N", help="Skip the first N matches.")
@click.option(
    "--times",
    type=click.IntRange(min=1),
    metavar="N",
    help="Maximum number of hits. [default: 1, or the preset's]",
)
@click.option("--always", is_flag=True, help="No limit of hits.")
@click.option(
    "--probability", type=click.FloatRange(0, 1), metavar="P", help="Probability of a hit for each match."
)
@click.option("--seed", type=int, metavar="N", help="Seed of the random numbers.")
@click.option("--for", type=DURATION, metavar="TIME", help="Lifetime of the fault.")
@click.option("--replace", is_flag=True, help="Replace the fault of that name.")
def add_fault(
    context: DaemonContext, name: str | None, replace: bool, times: int | None, always: bool, **given: Any
) -> int:
    """Add a fault: the requests or events that it matches, and its action."""
    if always and times is not None:
        raise InvalidArguments("--times and --always exclude each other")
    rule: Fields = {field: given[field] for field in _RULE_FIELDS if given[field] is not None}
    if times is not None or always:
        rule["times"] = times
    do = _build_action(given)
    if do:
        rule["do"] = do
    elif name is not None and "use" not in rule:
        rule["use"] = name
    if name is not None:
        rule["name"] = name
    if replace and name is None:
        raise InvalidArguments("--replace requires the NAME of the fault to replace")
    path = ("faults", name) if replace and name is not None else ("faults",)
    print_answer(context, "PUT" if replace else "POST", *path, body=rule)
    return YES


def _build_action(given: dict[str, Any]) -> Fields:
    """Return the action of the options, {} without one."""
    do: Fields = {field: given[field] for field in _ACTION_FIELDS if given[field] not in (None, [])}
    do |= {flag: True for flag in _ACTION_FLAGS if given[flag]}
    do |= _build_delay(given["delay"], given["jitter"])
    if given["throttle"] is not None:
        do["throttle_ms"] = _parse_ms(given["throttle"])
    failover = {field: given[field] for field in _FAILOVER_FIELDS if given[field] is not None}
    if failover and not given["failover"]:
        raise InvalidArguments(
            "--not-coordinator, --loading and --to belong to --failover; --use selects a preset"
        )
    if given["failover"]:
        do["failover"] = failover or True
    return do


def _build_delay(delay: str | None, jitter: str | None) -> Fields:
    if jitter is None:
        return {} if delay is None else {"delay": delay}
    if delay is None:
        raise InvalidArguments("--jitter belongs to --delay")
    return {"delay": {"ms": _parse_ms(delay), "jitter_ms": _parse_ms(jitter)}}


def _parse_ms(duration: str) -> int:
    return round(parse_seconds(duration) * 1000)


@daemon_command(epilog="Example: groupd fault list")
def list_faults(context: DaemonContext) -> int:
    """List the faults, with their matches, their hits and the requests that they hold."""
    print_answer(context, "GET", "faults")
    return YES


@daemon_command(epilog="Example: groupd fault show slow-sync")
@name_argument()
def show_fault(context: DaemonContext, name: str) -> int:
    """Show the fault NAME: its rule, its hits, its last hit and the requests that it holds."""
    print_answer(context, "GET", "faults", name)
    return YES


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
    help="How long to wait, in real time.",
)
def wait_for_fault(context: DaemonContext, name: str, hit: int, within: str) -> int:
    """Wait until the fault NAME has hit N times. Exit code 0 if it has, 1 on timeout."""
    if parse_seconds(within) > MAX_WAIT_S:
        raise InvalidArguments(f"--within {within}: at most {MAX_WAIT_S // 60} minutes")
    body = {"hit": hit, "within": within}
    print_answer(
        context,
        "POST",
        "faults",
        name,
        "wait",
        body=body,
        timeout_s=parse_seconds(within) + DEFAULT_TIMEOUT_S,
    )
    return YES


RELEASE_EPILOG = """The group gets held requests now, and clients get held responses. Examples:

\b
groupd fault release slow-sync
groupd fault release slow-sync --one oldest"""


@daemon_command(epilog=RELEASE_EPILOG)
@name_argument()
@click.option("--one", type=click.Choice(["oldest"]), help="Only the longest held one.")
def release_fault(context: DaemonContext, name: str, one: str | None) -> int:
    """Release the requests that the fault NAME holds. The fault holds further requests."""
    print_answer(context, "POST", "faults", name, "release", body={} if one is None else {"one": one})
    return YES


RM_EPILOG = """Held requests and responses are released. Examples:

\b
groupd fault rm slow-sync
groupd fault rm --all"""


@daemon_command(epilog=RM_EPILOG)
@click.argument("names", nargs=-1, metavar="NAME...")
@click.option("--all", "is_all", is_flag=True, help="Remove all faults.")
def remove_faults(context: DaemonContext, names: tuple[str, ...], is_all: bool) -> int:
    """Remove the faults of these NAMEs."""
    if is_all == bool(names):
        raise InvalidArguments("either NAME or --all is required")
    if "" in names:
        raise InvalidArguments("NAME must not be empty")
    for path in [("faults",)] if is_all else [("faults", name) for name in names]:
        print_answer(context, "DELETE", *path)
    return YES
