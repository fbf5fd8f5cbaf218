"""`groupd fault add`: a rule on requests, answers, the disk or events."""

from typing import Any, Final

import click

from coordinator.cli.control.arguments import DURATION, listed, seconds
from coordinator.cli.control.command import YES, Asking, daemon_command
from coordinator.cli.control.failure import Misused
from coordinator.cli.control.printed import answer
from coordinator.cli.fault.fields import Fields, coordinator, error_code, event_fields, match_fields

EPILOG: Final = """NAME is one of your own; without an action it is one that is ready-made (or --use says which):
not-coordinator, loading, stale-coordinator, lost-commit-answer.

What a request has to be, all of it (names take `*`; the same name twice: one of both): api, version, group, topic,
client_id, member_id, group_instance_id, role, state, generation, members, first_join, host, connection, error.
Examples:

\b
groupd fault add slow-sync --match api=SyncGroup,group=billing,client_id=bob --at request --hold
groupd fault add lost --match api=OffsetCommit,client_id=alice --at answer --drop
groupd fault add busy --match "api=Heartbeat,generation>=3" --at request --error REBALANCE_IN_PROGRESS --times 5
groupd fault add lost-commit-answer --match group=billing
groupd fault add kill --match api=OffsetCommit --at after_append --crash process
groupd fault add move --on GroupStabilized,group=billing --failover --loading 1500ms"""

AT: Final = (
    *("request", "answer", "append", "sync"),
    *("before_append", "after_append", "after_sync", "before_answer", "event"),
)
_COURSE: Final = ("not_coordinator", "loading", "to")
"""Of a failover."""
_FLAGS: Final = ("hold", "drop", "swallow", "freeze")
_VALUES: Final = (
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
_RULE: Final = ("use", "match", "on", "skip", "probability", "seed", "for")


@daemon_command(epilog=EPILOG)
@click.argument("name", required=False)
@click.option("--use", metavar="READY-MADE", help="A ready-made one, of which the other options say more.")
@click.option(
    "--match", multiple=True, metavar="k=v,…", callback=match_fields, help="What a request has to be."
)
@click.option(
    "--on", multiple=True, metavar="EVENT[,k=v,…]", callback=event_fields, help="What has to happen instead."
)
@click.option("--at", type=click.Choice(AT), help="Where it acts.")
@click.option("--error", metavar="CODE", callback=error_code, help="Answer this error, by name or number,")
@click.option(
    "--partitions", multiple=True, metavar="NAMES", callback=listed, help="of these only (orders-0)."
)
@click.option("--hold", is_flag=True, help="Hold it until `groupd fault release`.")
@click.option("--delay", type=DURATION, metavar="TIME", help="Let it go on after so long,")
@click.option("--jitter", type=DURATION, metavar="TIME", help="and up to so much more.")
@click.option("--drop", is_flag=True, help="Close the connection instead.")
@click.option("--swallow", is_flag=True, help="Never answer.")
@click.option("--throttle", type=DURATION, metavar="TIME", help="Tell the client that it is throttled.")
@click.option("--coordinator", metavar="NODE@HOST:PORT", callback=coordinator, help="Name this one instead.")
@click.option("--fail", type=click.Choice(["EIO", "ENOSPC"]), help="The disk says so.")
@click.option(
    "--torn-bytes", type=click.IntRange(min=0), metavar="N", help="So much reaches the file before."
)
@click.option("--crash", type=click.Choice(["partition", "process"]), help="Lose what is not on the disk.")
@click.option("--failover", is_flag=True, help="Move the coordinator of the group of the event,")
@click.option("--not-coordinator", type=DURATION, metavar="TIME", help="elsewhere for so long,")
@click.option("--loading", type=DURATION, metavar="TIME", help="then loading for so long,")
@click.option("--to", type=int, metavar="ID", help="at this broker of several.")
@click.option("--freeze", is_flag=True, help="Freeze the clock of the group of the event.")
@click.option("--disconnect", metavar="MEMBER", help="Close the connections of a member of it.")
@click.option("--expire", metavar="MEMBER", help="End the session of a member of it.")
@click.option("--release", metavar="FAULT", help="Let go of what another fault holds.")
@click.option("--skip", type=click.IntRange(min=0), metavar="N", help="Not the first N that match.")
@click.option(
    "--times",
    type=click.IntRange(min=1),
    metavar="N",
    help="How often it acts. [default: 1, ready-made: theirs]",
)
@click.option("--always", is_flag=True, help="As long as it is there.")
@click.option(
    "--probability", type=click.FloatRange(0, 1), metavar="P", help="How likely it acts where it matches."
)
@click.option("--seed", type=int, metavar="N", help="What the drawing begins with.")
@click.option("--for", type=DURATION, metavar="TIME", help="Until it is so old.")
@click.option("--replace", is_flag=True, help="If there is one of that name, in its place.")
def command(
    asking: Asking, name: str | None, replace: bool, times: int | None, always: bool, **given: Any
) -> int:
    """Make a fault: what it matches, where it acts, what it does."""
    if always and times is not None:
        raise Misused("--times and --always exclude each other")
    rule: Fields = {field: given[field] for field in _RULE if given[field] is not None}
    if times is not None or always:
        rule["times"] = times
    do = _do(given)
    if do:
        rule["do"] = do
    elif name is not None and "use" not in rule:
        rule["use"] = name
    if name is not None:
        rule["name"] = name
    if replace and name is None:
        raise Misused("--replace needs the NAME of what is replaced")
    path = ("faults", name) if replace and name is not None else ("faults",)
    answer(asking, "PUT" if replace else "POST", *path, body=rule)
    return YES


def _do(given: dict[str, Any]) -> Fields:
    """What it does, {} for nothing."""
    do: Fields = {field: given[field] for field in _VALUES if given[field] not in (None, [])}
    do |= {flag: True for flag in _FLAGS if given[flag]}
    do |= _delay(given["delay"], given["jitter"])
    if given["throttle"] is not None:
        do["throttle_ms"] = _ms(given["throttle"])
    course = {field: given[field] for field in _COURSE if given[field] is not None}
    if course and not given["failover"]:
        raise Misused("--not-coordinator, --loading and --to belong to --failover; the ready-made are --use")
    if given["failover"]:
        do["failover"] = course or True
    return do


def _delay(delay: str | None, jitter: str | None) -> Fields:
    if jitter is None:
        return {} if delay is None else {"delay": delay}
    if delay is None:
        raise Misused("--jitter belongs to --delay")
    return {"delay": {"ms": _ms(delay), "jitter_ms": _ms(jitter)}}


def _ms(duration: str) -> int:
    return round(seconds(duration) * 1000)
