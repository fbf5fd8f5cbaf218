"""What keeps a group waiting, or a part of it from working: members that are gone, silent or ghosts, and those who
were sent away.
"""

from collections.abc import Iterator
from typing import Final

from coordinator.control.waits.finding import Finding
from coordinator.control.waits.labels import named, seconds, some
from coordinator.control.waits.sight import GroupSight, Reach
from coordinator.control.waits.situation import no_connection
from coordinator.group.rebalance_facts import Awaited, AwaitedRequest
from coordinator.group.view import MemberView

_MOST = 5
"""Findings of a kind."""
HEARTBEAT_INTERVAL_MS: Final = 3_500
"""Clients send heartbeats every 3 s unless told otherwise: who was silent for less may well be told soon."""


def is_ghost(sight: GroupSight, member: MemberView) -> bool:
    """Whether the connection of a member has joined again under a new id: its client has forgotten the old one."""
    return _successor(sight, member) is not None


def _successor(sight: GroupSight, member: MemberView) -> MemberView | None:
    if not member.connection_id or member.is_awaiting_join or member.is_awaiting_sync:
        return None
    latest = sight.latest_of_connection[member.connection_id, member.name.client_id]
    return None if latest is member else latest


def ghosts(sight: GroupSight) -> Iterator[Finding]:
    """Members whose client has forgotten them."""
    found = [
        (member, heir) for member in sight.all_members if (heir := _successor(sight, member)) is not None
    ]
    for member, heir in found[:_MOST]:
        ghost, label = sight.labels.of(member.name), sight.labels.of(heir.name)
        yield Finding(
            kind="ghost",
            sentence=(
                f"{ghost} is a ghost: the same connection has joined again under a new member id, {label}. The old "
                f"id's session ends in {seconds(member.session_left_ms)}"
            ),
            blocks=True,
            members=[member.name.member_id],
            hint=f"{_expire(sight, member.name.member_id)} ends the old member id of {label}",
        )


def awaited(sight: GroupSight) -> Iterator[Finding]:
    """Members that a rebalance waits for: what each is likely to be doing."""
    view = sight.view
    if view is None or view.rebalance is None:
        return
    for one in view.rebalance.awaited[:_MOST]:
        finding = _awaited(sight, one, view.rebalance.phase_ms)
        if finding is not None:
            yield finding


def _awaited(sight: GroupSight, one: Awaited, phase_ms: int) -> Finding | None:
    member_id, label = one.member.member_id, sight.labels.of(one.member)
    ends = f"{_expire(sight, member_id)} ends the wait for it"
    if one.request is AwaitedRequest.FIRST_JOIN:
        return Finding(
            kind="pending",
            sentence=(
                f"{label} asked for a member id {seconds(one.silent_ms)} ago and never joined with it: its client "
                f"closed or gave up in between"
            ),
            blocks=True,
            members=[member_id],
            hint=f"In {seconds(one.session_left_ms)} the member id of {label} is forgotten",
        )
    reach = sight.reach.get(member_id)
    session_ms = one.silent_ms + one.session_left_ms
    if reach is not None and _is_gone(reach, one.silent_ms, session_ms):
        return Finding(
            kind="gone",
            sentence=f"{label} {no_connection(reach)}: its process is gone or cut off",
            blocks=True,
            members=[member_id],
            hint=f"{label} would be out when its session ends, in {seconds(one.session_left_ms)}; {ends}",
        )
    if one.request is not AwaitedRequest.JOIN:
        return Finding(
            kind="not_synced",
            sentence=f"{label} is connected, is in the new generation and does not send its SyncGroup: it is busy",
            blocks=True,
            members=[member_id],
            hint=f"{label} has had its answer to JoinGroup: is its assignor slow, or its process stopped? {ends}",
        )
    told_ms = sight.remembered.told.get(member_id)
    if told_ms is None and not _is_late(one.silent_ms, session_ms):
        return None
    if told_ms is None:
        return Finding(
            kind="not_told",
            sentence=(
                f"{label} is connected and was told nothing in the {seconds(phase_ms)} of this join phase, since "
                f"no heartbeat of it came: its heartbeats are rare, or it is stopped, starved or held"
            ),
            blocks=True,
            members=[member_id],
            hint=f"{label} is connected and silent: is its process stopped, or heartbeat.interval.ms long? {ends}",
        )
    return Finding(
        kind="told_and_silent",
        sentence=(
            f"{label} was told to rejoin {seconds(max(0, sight.now.monotonic_ms - told_ms))} ago, is connected and "
            f"does not send its JoinGroup: it is busy in its poll loop or a callback"
        ),
        blocks=True,
        members=[member_id],
        hint=f"{label} is connected and was told: is it blocked in a callback, or between two polls? {ends}",
    )


def _is_gone(reach: Reach, silent_ms: int, session_ms: int) -> bool:
    """Whether a member has lost its connection. After a restart, or a move of the coordinator, its client needs a
    moment to connect: then a member is gone only once its heartbeat is late."""
    return not reach.is_connected and (reach.is_heard or _is_late(silent_ms, session_ms))


def _is_late(silent_ms: int, session_ms: int) -> bool:
    """Whether a member should have sent a heartbeat by now."""
    return silent_ms >= min(HEARTBEAT_INTERVAL_MS, session_ms // 3)


def gone(sight: GroupSight) -> Iterator[Finding]:
    """Members of a group at rest that have no connection: it does not know yet that they are dead."""
    waited = {one.member.member_id for one in sight.awaited}
    found = 0
    for member in sight.members:
        reach = sight.reach.get(member.name.member_id)
        if reach is None or not _is_gone(reach, member.silent_ms, member.session_timeout_ms):
            continue
        if member.name.member_id in waited or member.is_awaiting_join:
            continue
        found += 1
        if found > _MOST:
            return
        label = sight.labels.of(member.name)
        heard = f", and was last heard {seconds(member.silent_ms)} ago" if reach.is_heard else ""
        kept = (
            ""
            if member.name.group_instance_id is None
            else f" (static {named(member.name.group_instance_id)})"
        )
        yield Finding(
            kind="gone",
            sentence=(
                f"{label}{kept} {no_connection(reach)}{heard}; its session ends in "
                f"{seconds(member.session_left_ms)}"
            ),
            blocks=True,
            members=[member.name.member_id],
            hint=f"{_expire(sight, member.name.member_id)} ends the session of {label} now",
        )


def silent(sight: GroupSight) -> Iterator[Finding]:
    """Members of a group at rest that are connected and let more than a third of their session pass."""
    if not sight.is_settled:
        return
    found = 0
    for member in sight.members:
        member_id = member.name.member_id
        reach = sight.reach.get(member_id)
        if reach is None or not reach.is_connected or 3 * member.silent_ms <= member.session_timeout_ms:
            continue
        found += 1
        if found > _MOST:
            return
        label = sight.labels.of(member.name)
        yield Finding(
            kind="silent",
            sentence=(
                f"{label} is connected and was last heard {seconds(member.silent_ms)} ago, more than a third of "
                f"its session of {seconds(member.session_timeout_ms)}: its heartbeats are too far apart, or it is "
                f"stopped or starved; its session ends in {seconds(member.session_left_ms)}"
            ),
            blocks=True,
            members=[member_id],
            hint=f"heartbeat.interval.ms of {label} should be at most a third of its session.timeout.ms",
        )


def refused(sight: GroupSight) -> Iterator[Finding]:
    """Clients whose JoinGroup was refused, and that have not joined since."""
    for client, joins in list(sight.remembered.refused.items())[-_MOST:]:
        times = "" if joins.count == 1 else f" {joins.count} times"
        ago = seconds(max(0, sight.now.monotonic_ms - joins.at_ms))
        yield Finding(
            kind="join_refused",
            sentence=(
                f"The JoinGroup of {client or 'a client without a name'} was refused{times}, the last time {ago} "
                f"ago: {joins.why}"
            ),
            blocks=True,
        )


def expecting(sight: GroupSight) -> Iterator[Finding]:
    """Who was given a member id by a group at rest, and has not come back."""
    view = sight.view
    if view is None or any(one.request is AwaitedRequest.FIRST_JOIN for one in sight.awaited):
        return
    labels = [sight.labels.of(one.name) for one in view.pending]
    if labels:
        yield Finding(
            kind="pending",
            sentence=f"{some(labels)} asked for a member id and has not joined with it",
            blocks=True,
            members=[one.name.member_id for one in view.pending[:_MOST]],
        )


def _expire(sight: GroupSight, member_id: str) -> str:
    return f"POST /v1/groups/{sight.name}/members/{named(member_id)}/expire"
