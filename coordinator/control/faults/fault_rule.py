"""The rule of a fault as users write it, the presets of rules, and the actions that are possible at each
point. Unknown fields are refused: with a misspelt field a test would pass without its fault.

    {"name": "slow-sync", "match": {"api": "SyncGroup", "group": "billing", "role": "follower"}, "times": 1,
     "do": {"at": "request", "hold": true}}
"""

from typing import Final, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType, field, structs

from coordinator.control.problem import Problem, ProblemKind
from coordinator.core.message_text import printable, suggest
from coordinator.core.wire_name import wire_name

NamePattern: TypeAlias = str | list[str]
"""A name, in which `*` stands for anything, or several: one of them has to fit."""
NumberPattern: TypeAlias = int | str
"""A number, or "<5", "<=5", ">3", ">=3"."""
DurationValue: TypeAlias = int | str
"""Milliseconds, or "45s"."""

FaultPoint = Literal[
    "request",
    "answer",
    "append",
    "sync",
    "before_append",
    "after_append",
    "after_sync",
    "before_answer",
    "event",
]
"""Where a fault acts."""


@wire_name("Match")
class RequestMatch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a request has to be; all of it must fit, and what a request does not carry never does. An empty list is
    no condition.

    `state`, `members` and `role` are the group's, and the sender's in it, when the request is reached; `generation`
    is the one that the request names, else the group's. `first_join`: the sender of a JoinGroup is no member yet.
    `connection` "first": the first on which the client is seen since the rule was made. `error`: an error that the
    answer has, at `answer` and `before_answer`.
    """

    api: NamePattern | None = None
    version: NumberPattern | None = None
    group: NamePattern | None = None
    topic: NamePattern | None = None
    client_id: NamePattern | None = None
    member_id: NamePattern | None = None
    group_instance_id: NamePattern | None = None
    role: Literal["leader", "follower"] | None = None
    state: NamePattern | None = None
    generation: NumberPattern | None = None
    members: NumberPattern | None = None
    first_join: bool | None = None
    host: NamePattern | None = None
    connection: Literal["first"] | None = None
    error: NamePattern | None = None


@wire_name("OnEvent")
class EventMatch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What has to happen in a group: an event by the name of its class, such as GroupStabilized. An empty list is
    no condition, except for `event`, which names at least one."""

    event: NamePattern
    group: NamePattern | None = None
    generation: NumberPattern | None = None
    client_id: NamePattern | None = None
    member_id: NamePattern | None = None
    group_instance_id: NamePattern | None = None


@wire_name("Delay")
class Delay(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """So long, and up to `jitter_ms` more, drawn from the rule's own generator."""

    ms: int
    jitter_ms: int = 0


@wire_name("ToldCoordinator")
class FakeCoordinator(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whom FindCoordinator names."""

    node_id: int
    host: str
    port: int


@wire_name("FailoverSpans")
class FailoverSpans(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For how long an offsets partition is told to be elsewhere, and then to be loading; the broker, of several,
    that coordinates it then."""

    not_coordinator: DurationValue = 0
    loading: DurationValue = 0
    to: int | None = None


@wire_name("Do")
class ActionSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a fault does: one thing. `partitions` ("orders-0", "orders-*") are those that an `error` is about, the
    others are answered as ever; an empty list means all. `torn_bytes` are those of an append that reach the
    file before it fails, or before the process ends.

    On an event: `failover`, `freeze`, `disconnect` and `expire` are about the group of the event; the latter two
    name members by member id, instance id or client id; `release` names a fault.
    """

    at: FaultPoint | None = None
    error: str | int | None = None
    partitions: list[str] | None = None
    delay: Delay | int | str | None = None
    hold: bool = False
    drop: bool = False
    swallow: bool = False
    throttle_ms: int | None = None
    coordinator: FakeCoordinator | None = None
    fail: Literal["EIO", "ENOSPC"] | None = None
    torn_bytes: int | None = None
    crash: Literal["partition", "process"] | None = None
    failover: FailoverSpans | bool | None = None
    freeze: bool = False
    disconnect: NamePattern | None = None
    expire: NamePattern | None = None
    release: str | None = None


@wire_name("FaultRule")
class FaultRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A fault. `name`: None for one of the daemon's choice. `use`: a ready-made one, of which the fields given here
    say more. It acts from the (`skip`+1)-th match on, `times` times (once, where nothing is said; None: as long as
    it is there), each with this `probability`, drawn from a generator of its own that `seed` begins; at the latest
    until it is as old as `for`, when it also lets go of what it holds."""

    name: str | None = None
    use: str | None = None
    match: RequestMatch | None = None
    on: EventMatch | None = None
    skip: int = 0
    times: int | UnsetType | None = UNSET
    probability: float = 1.0
    seed: int = 0
    for_: DurationValue | None = field(name="for", default=None)
    do: ActionSpec | None = None


@wire_name("LastHit")
class LastHit(Struct, frozen=True, kw_only=True):
    """What a fault hit last."""

    at_ms: int
    what: str
    group_id: str | None
    api: str | None
    client_id: str | None
    member_id: str | None


@wire_name("FaultStatus")
class FaultStatus(Struct, frozen=True, kw_only=True):
    """A fault as it is: how many requests (answers, events) fitted, how often it acted, how many it holds, delays
    or has swallowed now. `state` is "active", "spent" (it has acted `times` times) or "over" (its time is up)."""

    name: str
    state: str
    rule: FaultRule
    matched: int
    hit: int
    holding: int
    last: LastHit | None
    made_ms: int
    by: str | None


_AT_REQUEST: Final = ("error", "delay", "hold", "drop", "swallow")
_ON_DISK: Final = ("fail", "delay")
ACTIONS_BY_POINT: Final[dict[FaultPoint, tuple[str, ...]]] = {
    "request": _AT_REQUEST,
    "answer": (*_AT_REQUEST, "throttle_ms", "coordinator"),
    "append": _ON_DISK,
    "sync": _ON_DISK,
    "before_append": ("crash",),
    "after_append": ("crash",),
    "after_sync": ("crash",),
    "before_answer": ("crash",),
    "event": ("failover", "freeze", "disconnect", "expire", "release"),
}
"""By where it is done."""
ACTION_KINDS: Final = tuple(dict.fromkeys(kind for kinds in ACTIONS_BY_POINT.values() for kind in kinds))

COORDINATOR_APIS: Final = [
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "LeaveGroup",
    "OffsetCommit",
    "OffsetFetch",
    "OffsetDelete",
    "DescribeGroups",
    "DeleteGroups",
]
"""What only the coordinator of a group answers."""
_UNREACHABLE: Final = FakeCoordinator(node_id=2**31 - 1, host="127.0.0.1", port=1)

LOADING_PRESET: Final = "loading"
PRESETS: Final = {
    "not-coordinator": FaultRule(
        match=RequestMatch(api=COORDINATOR_APIS),
        times=None,
        do=ActionSpec(at="request", error="NOT_COORDINATOR"),
    ),
    # What each API is told while a partition loads differs: see `error_answers.py`.
    LOADING_PRESET: FaultRule(
        match=RequestMatch(api=COORDINATOR_APIS),
        times=None,
        do=ActionSpec(at="request", error="COORDINATOR_LOAD_IN_PROGRESS"),
    ),
    # FindCoordinator goes on naming a broker that is gone.
    "stale-coordinator": FaultRule(
        match=RequestMatch(api="FindCoordinator"),
        times=None,
        do=ActionSpec(at="answer", coordinator=_UNREACHABLE),
    ),
    "lost-commit-answer": FaultRule(
        match=RequestMatch(api="OffsetCommit"), times=1, do=ActionSpec(at="answer", drop=True)
    ),
}


def apply_preset(rule: FaultRule) -> FaultRule:
    """A rule with what the ready-made one says that it uses. Raises Problem (bad-request)."""
    if rule.use is None:
        return structs.replace(rule, times=1) if rule.times is UNSET else rule
    preset = PRESETS.get(rule.use)
    if preset is None:
        detail = f"use: {printable(rule.use)} is not a ready-made fault {suggest(rule.use, PRESETS)}."
        raise Problem(ProblemKind.BAD_REQUEST, "no such ready-made fault", detail, {"pointer": "/use"})
    match = preset.match
    if rule.match is not None and match is not None:
        given = {name: value for name, value in structs.asdict(rule.match).items() if value is not None}
        match = structs.replace(match, **given)
    times = preset.times if rule.times is UNSET else rule.times
    return structs.replace(rule, match=match, do=rule.do or preset.do, times=times)
