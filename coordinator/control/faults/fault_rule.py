"""A fault as people write it. Unknown fields are refused: a misspelt one must never be a test that passes.

{"name": "slow-sync", "match": {"api": "SyncGroup", "group": "billing", "role": "follower"}, "times": 1,
 "do": {"at": "request", "hold": true}}
"""

from typing import Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType, field

Text: TypeAlias = str | list[str]
"""A name, in which `*` stands for anything, or several: one of them has to fit."""
Number: TypeAlias = int | str
"""A number, or "<5", "<=5", ">3", ">=3"."""
Duration: TypeAlias = int | str
"""Milliseconds, or "45s"."""

At = Literal[
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


class Match(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a request has to be; all of it must fit, and what a request does not carry never does. An empty list is
    no condition.

    `state`, `members` and `role` are the group's, and the sender's in it, when the request is reached; `generation`
    is the one that the request names, else the group's. `first_join`: the sender of a JoinGroup is no member yet.
    `connection` "first": the first on which the client is seen since the rule was made. `error`: an error that the
    answer has, at `answer` and `before_answer`.
    """

    api: Text | None = None
    version: Number | None = None
    group: Text | None = None
    topic: Text | None = None
    client_id: Text | None = None
    member_id: Text | None = None
    group_instance_id: Text | None = None
    role: Literal["leader", "follower"] | None = None
    state: Text | None = None
    generation: Number | None = None
    members: Number | None = None
    first_join: bool | None = None
    host: Text | None = None
    connection: Literal["first"] | None = None
    error: Text | None = None


class OnEvent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What has to happen in a group: an event by the name of its class, such as GroupStabilized. An empty list is
    no condition, except for `event`, which names at least one."""

    event: Text
    group: Text | None = None
    generation: Number | None = None
    client_id: Text | None = None
    member_id: Text | None = None
    group_instance_id: Text | None = None


class Delay(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """So long, and up to `jitter_ms` more, drawn from the rule's own generator."""

    ms: int
    jitter_ms: int = 0


class ToldCoordinator(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whom FindCoordinator names."""

    node_id: int
    host: str
    port: int


class FailoverSpans(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For how long an offsets partition is told to be elsewhere, and then to be loading; the broker, of several,
    that coordinates it then."""

    not_coordinator: Duration = 0
    loading: Duration = 0
    to: int | None = None


class Do(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a fault does: one thing. `partitions` ("orders-0", "orders-*") are those that an `error` is about, the
    others are answered as ever; an empty list means all. `torn_bytes` are those of an append that reach the
    file before it fails, or before the process ends.

    On an event: `failover`, `freeze`, `disconnect` and `expire` are about the group of the event; the latter two
    name members by member id, instance id or client id; `release` names a fault.
    """

    at: At | None = None
    error: str | int | None = None
    partitions: list[str] | None = None
    delay: Delay | int | str | None = None
    hold: bool = False
    drop: bool = False
    swallow: bool = False
    throttle_ms: int | None = None
    coordinator: ToldCoordinator | None = None
    fail: Literal["EIO", "ENOSPC"] | None = None
    torn_bytes: int | None = None
    crash: Literal["partition", "process"] | None = None
    failover: FailoverSpans | bool | None = None
    freeze: bool = False
    disconnect: Text | None = None
    expire: Text | None = None
    release: str | None = None


class FaultRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A fault. `name`: None for one of the daemon's choice. `use`: a ready-made one, of which the fields given here
    say more. It acts from the (`skip`+1)-th match on, `times` times (once, where nothing is said; None: as long as
    it is there), each with this `probability`, drawn from a generator of its own that `seed` begins; at the latest
    until it is as old as `for`, when it also lets go of what it holds."""

    name: str | None = None
    use: str | None = None
    match: Match | None = None
    on: OnEvent | None = None
    skip: int = 0
    times: int | UnsetType | None = UNSET
    probability: float = 1.0
    seed: int = 0
    for_: Duration | None = field(name="for", default=None)
    do: Do | None = None


class LastHit(Struct, frozen=True, kw_only=True):
    """What a fault hit last."""

    at_ms: int
    what: str
    group_id: str | None
    api: str | None
    client_id: str | None
    member_id: str | None


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
