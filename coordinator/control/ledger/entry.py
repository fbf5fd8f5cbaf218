"""An entry of the ledger: one generation of one group, or one that failed.

Durations are group time, but for those under `real`. Members are those of the generation, and those that were lost
on the way to it; of a large group only some are named (`members_left_out` counts the others).
"""

from msgspec import Struct


class RealTimes(Struct, frozen=True, kw_only=True):
    """What the rebalance took on a clock that nobody moves; null while it is open."""

    join_ms: int
    sync_ms: int
    total_ms: int


class ActorSeen(Struct, frozen=True, kw_only=True):
    """The same of whoever began a rebalance: how long nothing had been heard of it, and its connection closed."""

    last_heard_ms_ago: int | None
    connection_closed_ms_ago: int | None


class Actor(Struct, frozen=True, kw_only=True):
    """The member whose doing a rebalance is."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    last_heard_ms_ago: int | None
    real: ActorSeen


class AlsoActed(Struct, frozen=True, kw_only=True):
    """Something that was done on purpose meanwhile, or shortly before: `acts.py`."""

    kind: str
    what: str
    by: str | None


class MemberStory(Struct, frozen=True, kw_only=True):
    """What a member did in a rebalance. Times are from its start; null: it never did. `told_after_ms`: when it
    learned that it has to rejoin; `awaited_ms`: how long the group waited for it; `gained` and `lost`: partitions
    ("orders-2") against its last Stable generation; `gone`: why it is no member any more."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    told_after_ms: int | None
    rejoined_after_ms: int | None
    synced_after_ms: int | None
    awaited_ms: int
    gained: list[str]
    lost: list[str]
    commits_refused: int
    gone: str | None


class AwaitedLongest(Struct, frozen=True, kw_only=True):
    """Whom the group waited for longest, how long, and why that took so long, in words."""

    member_id: str
    client_id: str
    ms: int
    because: str


class LedgerEntry(Struct, frozen=True, kw_only=True):
    """See the top of this file. `seq` is the number of its last event, so that entries and the stream can be put in
    one order; `result` is "open", "stable", "empty" or "failed" (the groups were unloaded meanwhile, or the group
    is gone); `cause` is a word of `RebalanceCause`, `reason` Kafka's sentence; `attempts` counts how often it began
    again; `started_ms` is Unix time, `group_time_ms` what the group's clock said then."""

    seq: int
    group_id: str
    generation_id: int
    result: str
    cause: str
    reason: str
    client_reason: str
    actor: Actor | None
    also: list[AlsoActed]
    attempts: int
    started_ms: int
    group_time_ms: int
    join_ms: int
    sync_ms: int
    total_ms: int
    real: RealTimes | None
    from_state: str
    protocol_name: str | None
    leader: str | None
    members: list[MemberStory]
    members_left_out: int
    members_count: int
    awaited_longest: AwaitedLongest | None
    unowned: list[str]
