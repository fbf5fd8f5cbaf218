"""The five states of a classic group, and the transitions between them.

A group rebalances in two phases. In the first, **PreparingRebalance**, every member must send a JoinGroup. The
coordinator responds when all members have joined, or when the rebalance timeout has removed the others. All
responses have a new generation number, and the response of one member, the leader, lists all members. In the
second phase, **CompletingRebalance**, the leader computes the assignment and sends it with SyncGroup; the
coordinator then responds to the SyncGroups of the other members. Now the group is **Stable**.

Every change of the members or their subscriptions starts again with PreparingRebalance; members learn of it from
the error of their next heartbeat. A group without members is **Empty** and keeps its offsets until they expire. A
**Dead** group is deleted, or this process no longer coordinates it.

The response to each request, by state:

| request | Empty | PreparingRebalance | CompletingRebalance | Stable | Dead |
|---|---|---|---|---|---|
| JoinGroup, new member | starts a rebalance | waits | starts a rebalance | starts a rebalance | 15 |
| JoinGroup, member, nothing changed | 25 | waits | answered | follower answered, leader starts one | 15 |
| JoinGroup, member, protocols changed | 25 | waits | starts a rebalance | starts a rebalance | 15 |
| SyncGroup | 25 | 27 | waits for the leader | its assignment | 15 |
| Heartbeat | 25 | 27 | 0 | 0 | 15 |
| LeaveGroup | 25 | 0 | 0, starts a rebalance | 0, starts a rebalance | 15 |
| OffsetCommit, member | 25 | 0 | 27 | 0 | 15 |
| OffsetCommit, no member | 0 | 25 | 25 | 25 | 15 |

`TRANSITIONS` is the only list of transitions: `ClassicGroup.transition_to` asserts it, and the diagram in the
documentation is generated from it. Source: Kafka's ClassicGroupState.
"""

from enum import Enum
from typing import Final


class ClassicGroupState(Enum):
    """A state; its value is its name in DescribeGroups and ListGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EMPTY: Final = ClassicGroupState.EMPTY
PREPARING_REBALANCE: Final = ClassicGroupState.PREPARING_REBALANCE
COMPLETING_REBALANCE: Final = ClassicGroupState.COMPLETING_REBALANCE
STABLE: Final = ClassicGroupState.STABLE
DEAD: Final = ClassicGroupState.DEAD

MEANINGS: Final[dict[ClassicGroupState, str]] = {
    EMPTY: "no members; may hold offsets",
    PREPARING_REBALANCE: "waiting for the JoinGroup of every member",
    COMPLETING_REBALANCE: "waiting for the SyncGroup of the leader",
    STABLE: "every member's assignment is known",
    DEAD: "deleted, or coordinated elsewhere",
}

TRANSITIONS: Final[dict[tuple[ClassicGroupState, ClassicGroupState], str]] = {
    (EMPTY, PREPARING_REBALANCE): "the first member joins",
    (EMPTY, DEAD): "DeleteGroups, nothing left to keep, or unloading",
    (PREPARING_REBALANCE, COMPLETING_REBALANCE): "all members joined, or the rebalance timeout passed",
    (PREPARING_REBALANCE, EMPTY): "the join phase ends with no member",
    (PREPARING_REBALANCE, DEAD): "unloading",
    (COMPLETING_REBALANCE, STABLE): "the leader's SyncGroup",
    (COMPLETING_REBALANCE, PREPARING_REBALANCE): "a member joins, changes, leaves, expires or never syncs",
    (COMPLETING_REBALANCE, DEAD): "unloading",
    (
        STABLE,
        PREPARING_REBALANCE,
    ): "a member joins, changes, leaves, expires or never syncs; the leader rejoins",
    (STABLE, DEAD): "unloading",
    (DEAD, DEAD): "unloading again",
}

REBALANCE_MAY_START: Final = frozenset(
    source for source, target in TRANSITIONS if target is PREPARING_REBALANCE
)
