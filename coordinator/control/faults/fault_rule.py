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
"""One or several names, in which `*` matches any characters. One of them must match."""
NumberPattern: TypeAlias = int | str
"""A number, or a comparison such as "<5", "<=5", ">3" or ">=3"."""
DurationValue: TypeAlias = int | str
"""Milliseconds, or text such as "45s"."""

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
"""The point at which a fault acts."""


@wire_name("Match")
class RequestMatch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Conditions on the attributes of a request. All of them must match, and a missing attribute never matches.
    An empty list is not a condition.

    - `state` and `members` (their number): attributes of the group at the arrival of the request.
    - `role`: the role of the sender in the group.
    - `generation`: the generation in the request, or else the generation of the group.
    - `first_join`: whether the sender of a JoinGroup is not a member yet.
    - `connection` "first": the first connection of the client since the fault was created.
    - `error`: an error in the response, at `answer` and `before_answer`.
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
    """Conditions on the event of a group. `event` has names of its class, such as GroupStabilized. An empty list
    is not a condition, but `event` needs at least one name."""

    event: NamePattern
    group: NamePattern | None = None
    generation: NumberPattern | None = None
    client_id: NamePattern | None = None
    member_id: NamePattern | None = None
    group_instance_id: NamePattern | None = None


@wire_name("Delay")
class Delay(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A delay of `ms` milliseconds and a random part of up to `jitter_ms`, from the generator of the rule."""

    ms: int
    jitter_ms: int = 0


@wire_name("ToldCoordinator")
class FakeCoordinator(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The coordinator that a fault puts into a response to FindCoordinator."""

    node_id: int
    host: str
    port: int


@wire_name("FailoverSpans")
class FailoverSpans(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The durations for which clients get NOT_COORDINATOR and then COORDINATOR_LOAD_IN_PROGRESS, and the new
    coordinator if there are several brokers."""

    not_coordinator: DurationValue = 0
    loading: DurationValue = 0
    to: int | None = None


@wire_name("Do")
class ActionSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The action of a fault. Exactly one action must be set.

    - `partitions` ("orders-0", "orders-*") limits an `error`. Other partitions get their normal result; an empty
      list means all partitions.
    - `torn_bytes`: the number of bytes of an append that reach the file before the append fails or the process
      ends.
    - `failover`, `freeze`, `disconnect` and `expire` follow an event and act on its group. `disconnect` and
      `expire` name members by member id, instance id or client id.
    - `release` names the fault to release.
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
    """A fault.

    - `name`: by default groupd chooses one.
    - `use`: a preset, which the other fields override.
    - `skip`: the number of matches to skip.
    - `times`: the number of hits, by default 1, null for no limit.
    - `probability`: the probability of a hit, from a generator with the seed `seed`.
    - `for`: the duration after which the fault ends and releases its held requests.
    """

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
    """The last hit of a fault."""

    at_ms: int
    what: str
    group_id: str | None
    api: str | None
    client_id: str | None
    member_id: str | None


@wire_name("FaultStatus")
class FaultStatus(Struct, frozen=True, kw_only=True):
    """The current status of a fault.

    - `state`: "active", "spent" (it has acted `times` times) or "over" (its duration has ended).
    - `matched`: the number of matching requests, responses or events.
    - `hit`: the number of hits.
    - `holding`: the number of requests and responses that it holds, delays or has swallowed now.
    - `made_ms`: the Unix time of its creation. `by` is the operator that created it.
    """

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
"""The actions that are possible at each point."""
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
"""The APIs that only the coordinator of a group serves."""
_UNREACHABLE: Final = FakeCoordinator(node_id=2**31 - 1, host="127.0.0.1", port=1)

LOADING_PRESET: Final = "loading"
PRESETS: Final = {
    "not-coordinator": FaultRule(
        match=RequestMatch(api=COORDINATOR_APIS),
        times=None,
        do=ActionSpec(at="request", error="NOT_COORDINATOR"),
    ),
    # The error during a load depends on the API: see `error_answers.py`.
    LOADING_PRESET: FaultRule(
        match=RequestMatch(api=COORDINATOR_APIS),
        times=None,
        do=ActionSpec(at="request", error="COORDINATOR_LOAD_IN_PROGRESS"),
    ),
    # FindCoordinator still returns a broker that does not exist any more.
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
    """Return a rule with the fields of the preset that it uses. Raises Problem (bad-request)."""
    if rule.use is None:
        return structs.replace(rule, times=1) if rule.times is UNSET else rule
    preset = PRESETS.get(rule.use)
    if preset is None:
        detail = f"use: {printable(rule.use)} is not a preset {suggest(rule.use, PRESETS)}."
        raise Problem(ProblemKind.BAD_REQUEST, "the preset does not exist", detail, {"pointer": "/use"})
    match = preset.match
    if rule.match is not None and match is not None:
        given = {name: value for name, value in structs.asdict(rule.match).items() if value is not None}
        match = structs.replace(match, **given)
    times = preset.times if rule.times is UNSET else rule.times
    return structs.replace(rule, match=match, do=rule.do or preset.do, times=times)
