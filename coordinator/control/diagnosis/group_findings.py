"""Findings about a group, each with a sentence and an optional hint.

There are three kinds: members that block the group (disconnected, silent, refused, or abandoned by their own
client), unusual assignments and subscriptions, and settings of members that conflict.
"""

from collections.abc import Iterator
from typing import Final

from coordinator.control.diagnosis.group_snapshot import ConnectionState, GroupSnapshot
from coordinator.control.diagnosis.member_labels import (
    format_list,
    format_name,
    format_ranges,
)
from coordinator.control.diagnosis.state_description import describe_disconnection
from coordinator.control.group_finding import FindingAction, FindingOperation, GroupFinding
from coordinator.core.message_text import format_seconds
from coordinator.group.event_details import AwaitedMember, AwaitedRequest, MemberName
from coordinator.group.group_view import MemberView

_MAX_FINDINGS = 5
"""The maximum number of findings of one kind."""
HEARTBEAT_INTERVAL_MS: Final = 3_500
"""Clients send heartbeats every 3 s by default. A client with a shorter silence may get its response soon."""


def is_ghost(snapshot: GroupSnapshot, member: MemberView) -> bool:
    """Return whether a client has abandoned a member id: its connection has joined again under a new one."""
    return _find_successor(snapshot, member) is not None


def _find_successor(snapshot: GroupSnapshot, member: MemberView) -> MemberView | None:
    if not member.connection_id or member.is_awaiting_join or member.is_awaiting_sync:
        return None
    latest = snapshot.latest_of_connection[member.connection_id, member.name.client_id]
    return None if latest is member else latest


def find_ghosts(snapshot: GroupSnapshot) -> Iterator[GroupFinding]:
    """Yield a finding for each member id that its client has abandoned."""
    found = [
        (member, successor)
        for member in snapshot.all_members
        if (successor := _find_successor(snapshot, member)) is not None
    ]
    for member, successor in found[:_MAX_FINDINGS]:
        ghost, label = snapshot.labels.find_label(member.name), snapshot.labels.find_label(successor.name)
        yield GroupFinding(
            kind="ghost",
            sentence=(
                f"{ghost} is a ghost: the same connection has joined again under a new member id, {label}. The old "
                f"id's session ends in {format_seconds(member.session_left_ms)}"
            ),
            blocks=True,
            members=[member.name.member_id],
            hint=f"Expire the old member id of {label} to end its session now",
            action=_expire_action(snapshot, member.name, f"Expire the old {label}"),
        )


def find_awaited_members(snapshot: GroupSnapshot) -> Iterator[GroupFinding]:
    """Yield the members that a rebalance waits for, with the likely activity of each."""
    view = snapshot.view
    if view is None or view.rebalance is None:
        return
    for one in view.rebalance.awaited[:_MAX_FINDINGS]:
        finding = _explain_awaited(snapshot, one, view.rebalance.phase_ms)
        if finding is not None:
            yield finding


def _explain_awaited(snapshot: GroupSnapshot, one: AwaitedMember, phase_ms: int) -> GroupFinding | None:
    member_id, label = one.member.member_id, snapshot.labels.find_label(one.member)
    ends = f"Expire {label} to end the wait for it"
    action = _expire_action(snapshot, one.member)
    if one.request is AwaitedRequest.FIRST_JOIN:
        return GroupFinding(
            kind="pending",
            sentence=(
                f"{label} asked for a member id {format_seconds(one.silent_ms)} ago and never joined with it: "
                f"its client closed or gave up in between"
            ),
            blocks=True,
            members=[member_id],
            hint=f"In {format_seconds(one.session_left_ms)} the member id of {label} is forgotten",
            action=action,
        )
    connection = snapshot.connections.get(member_id)
    session_ms = one.silent_ms + one.session_left_ms
    if connection is not None and _is_gone(connection, one.silent_ms, session_ms):
        return GroupFinding(
            kind="gone",
            sentence=(
                f"{label} {describe_disconnection(connection)}: its process has ended or lost its network. The "
                f"rebalance waits for its {one.request.value}; its session ends in "
                f"{format_seconds(one.session_left_ms)}"
            ),
            blocks=True,
            members=[member_id],
            hint=ends,
            action=action,
        )
    if one.request is not AwaitedRequest.JOIN:
        return GroupFinding(
            kind="not_synced",
            sentence=f"{label} is connected, is in the new generation and does not send its SyncGroup: it is busy",
            blocks=True,
            members=[member_id],
            hint=f"{label} got its JoinGroup response: its assignor is slow, or its process is stopped. {ends}",
            action=action,
        )
    told_ms = snapshot.history.told_to_rejoin.get(member_id)
    if told_ms is None and not _is_late(one.silent_ms, session_ms):
        return None
    if told_ms is None:
        return GroupFinding(
            kind="not_told",
            sentence=(
                f"{label} is connected, but sent no heartbeat in the {format_seconds(phase_ms)} of this join "
                f"phase, so it does not know of the rebalance: its heartbeat interval is long, or it is stopped, "
                f"starved or held by a fault"
            ),
            blocks=True,
            members=[member_id],
            hint=f"{label} is connected and silent: its process is stopped, or heartbeat.interval.ms is "
            f"long. {ends}",
            action=action,
        )
    return GroupFinding(
        kind="told_and_silent",
        sentence=(
            f"groupd asked {label} to rejoin {format_seconds(max(0, snapshot.now.monotonic_ms - told_ms))} ago. It "
            f"is connected and does not send its JoinGroup: it is busy in its poll loop or a callback"
        ),
        blocks=True,
        members=[member_id],
        hint=f"{label} is connected and knows of the rebalance: it is blocked in a callback or between "
        f"two polls. {ends}",
        action=action,
    )


def _is_gone(connection: ConnectionState, silent_ms: int, session_ms: int) -> bool:
    """Return whether a member has lost its connection. After a restart or a move of the coordinator its client
    needs time to reconnect, so the member is then gone only if its heartbeat is late."""
    return not connection.is_connected and (connection.is_heard or _is_late(silent_ms, session_ms))


def _is_late(silent_ms: int, session_ms: int) -> bool:
    """Return whether a heartbeat of a member is overdue."""
    return silent_ms >= min(HEARTBEAT_INTERVAL_MS, session_ms // 3)


def find_disconnected_members(snapshot: GroupSnapshot) -> Iterator[GroupFinding]:
    """Yield members of a settled group that have no connection. Their sessions have not ended yet."""
    waited = {one.member.member_id for one in snapshot.awaited}
    found = 0
    for member in snapshot.members:
        connection = snapshot.connections.get(member.name.member_id)
        if connection is None or not _is_gone(connection, member.silent_ms, member.session_timeout_ms):
            continue
        if member.name.member_id in waited or member.is_awaiting_join:
            continue
        found += 1
        if found > _MAX_FINDINGS:
            return
        label = snapshot.labels.find_label(member.name)
        last_heard = (
            f", and was last heard {format_seconds(member.silent_ms)} ago" if connection.is_heard else ""
        )
        static = (
            ""
            if member.name.group_instance_id is None
            else f" (static {format_name(member.name.group_instance_id)})"
        )
        yield GroupFinding(
            kind="gone",
            sentence=(
                f"{label}{static} {describe_disconnection(connection)}{last_heard}; its session ends in "
                f"{format_seconds(member.session_left_ms)}{_format_unread(snapshot, member)}"
            ),
            blocks=True,
            members=[member.name.member_id],
            hint=f"Expire {label} to end its session now",
            action=_expire_action(snapshot, member.name),
        )


def _format_unread(snapshot: GroupSnapshot, member: MemberView) -> str:
    """Return the partitions that a lost member holds, such as `, and until then orders-2..3 has no reader`."""
    partitions = snapshot.assignments.get(member.name.member_id, {})
    held = [format_ranges(topic, numbers) for topic, numbers in sorted(partitions.items()) if numbers]
    if not held:
        return ""
    is_one = sum(map(len, partitions.values())) == 1
    return f", and until then {format_list(held)} {'has' if is_one else 'have'} no reader"


def find_silent_members(snapshot: GroupSnapshot) -> Iterator[GroupFinding]:
    """Yield connected members of a settled group that have been silent for over a third of their session."""
    if not snapshot.is_settled:
        return
    found = 0
    for member in snapshot.members:
        member_id = member.name.member_id
        connection = snapshot.connections.get(member_id)
        if (
            connection is None
            or not connection.is_connected
            or 3 * member.silent_ms <= member.session_timeout_ms
        ):
            continue
        found += 1
        if found > _MAX_FINDINGS:
            return
        label = snapshot.labels.find_label(member.name)
        yield GroupFinding(
            kind="silent",
            sentence=(
                f"{label} is connected and was last heard {format_seconds(member.silent_ms)} ago, more than a "
                f"third of its session of {format_seconds(member.session_timeout_ms)}: its heartbeats are too "
                f"far apart, or it is stopped or starved; its session ends in "
                f"{format_seconds(member.session_left_ms)}"
            ),
            blocks=True,
            members=[member_id],
            hint=f"heartbeat.interval.ms of {label} should be at most a third of its session.timeout.ms",
            action=_expire_action(snapshot, member.name),
        )


def find_refused_joins(snapshot: GroupSnapshot) -> Iterator[GroupFinding]:
    """Yield clients with a refused JoinGroup that have not joined since."""
    for client, joins in list(snapshot.history.refused_joins.items())[-_MAX_FINDINGS:]:
        times = "" if joins.count == 1 else f" {joins.count} times"
        ago = format_seconds(max(0, snapshot.now.monotonic_ms - joins.at_ms))
        yield GroupFinding(
            kind="join_refused",
            sentence=(
                f"The JoinGroup of {client or 'a client without a name'} was refused{times}, the last time {ago} "
                f"ago: {joins.reason}"
            ),
            blocks=True,
        )


def find_pending_members(snapshot: GroupSnapshot) -> Iterator[GroupFinding]:
    """Yield a finding for each client that got a member id from an idle group and has not joined."""
    view = snapshot.view
    if view is None or any(one.request is AwaitedRequest.FIRST_JOIN for one in snapshot.awaited):
        return
    labels = [snapshot.labels.find_label(one.name) for one in view.pending]
    if labels:
        yield GroupFinding(
            kind="pending",
            sentence=f"{format_list(labels)} asked for a member id and has not joined with it",
            blocks=True,
            members=[one.name.member_id for one in view.pending[:_MAX_FINDINGS]],
            action=_expire_action(snapshot, view.pending[0].name) if len(labels) == 1 else None,
        )


def _expire_action(snapshot: GroupSnapshot, name: MemberName, label: str | None = None) -> FindingAction:
    """Return the action that expires a member or a pending member id."""
    return FindingAction(
        operation=FindingOperation.EXPIRE_MEMBER,
        label=f"Expire {snapshot.labels.find_label(name)}" if label is None else label,
        arguments={"group": snapshot.group_id, "member": snapshot.labels.find_reference(name)},
    )


def find_members_left_out(snapshot: GroupSnapshot) -> Iterator[GroupFinding]:
    """Yield members that are missing from the leader's assignment."""
    view = snapshot.view
    if view is None or not snapshot.is_stable:
        return
    members = [member for member in snapshot.members if not member.assignment and member.consumer is None]
    if members:
        leader = "the leader" if view.leader_id is None else snapshot.labels.find_label_by_id(view.leader_id)
        labels = snapshot.labels.format_labels(member.name for member in members)
        yield GroupFinding(
            kind="left_out",
            sentence=(
                f"{labels} {'was' if len(members) == 1 else 'were'} left out of the assignment that {leader} "
                f"handed in ({format_name(view.protocol_name or 'no protocol')})"
            ),
            blocks=True,
            members=[member.name.member_id for member in members[:100]],
            hint=f"The assignor of {leader} omits members: check whether it is a custom assignor",
        )


def find_unknown_assignees(snapshot: GroupSnapshot) -> Iterator[GroupFinding]:
    """Yield ids of the assignment that do not belong to a member."""
    view, history = snapshot.view, snapshot.history
    if view is None or not history.unknown_assignees or history.assigned_generation != view.generation_id:
        return
    leader = "the leader" if view.leader_id is None else snapshot.labels.find_label_by_id(view.leader_id)
    ids, verb = (
        format_list(history.unknown_assignees),
        "is" if len(history.unknown_assignees) == 1 else "are",
    )
    yield GroupFinding(
        kind="strangers",
        sentence=(
            f"The assignment of {leader} names {ids}, which {verb} not in the group: the partitions assigned there "
            f"have no owner"
        ),
        blocks=True,
        hint=f"{leader} assigned partitions to members of an earlier generation: its assignor keeps old ids",
    )


def find_missing_topics(snapshot: GroupSnapshot) -> Iterator[GroupFinding]:
    """Yield subscribed topics that do not exist."""
    unknown = [
        topic for topic in sorted(snapshot.subscribed) if snapshot.cluster.count_partitions(topic) is None
    ]
    for topic in unknown[:_MAX_FINDINGS]:
        similar = snapshot.cluster.find_similar_topics(topic)
        like = f" Is {format_list([format_name(one) for one in similar])} meant?" if similar else ""
        yield GroupFinding(
            kind="no_such_topic",
            sentence=f"{_format_readers(snapshot, topic)} to {format_name(topic)}, which does not exist",
            blocks=True,
            topics=[topic],
            hint=f"Topic {format_name(topic)} does not exist.{like}",
            action=FindingAction(
                operation=FindingOperation.CREATE_TOPIC,
                label=f"Create topic {format_name(topic)}",
                arguments={"topic": topic},
            ),
        )


def find_ownership_errors(snapshot: GroupSnapshot) -> Iterator[GroupFinding]:
    """Yield partitions of subscribed topics without an owner or with several, in a Stable group."""
    if not snapshot.is_settled or not snapshot.are_assignments_read:
        return
    topics = sorted(snapshot.subscribed)
    for topic in [topic for topic in topics if snapshot.find_unowned(topic)][:_MAX_FINDINGS]:
        partitions = snapshot.find_unowned(topic)
        has = "has" if len(partitions) == 1 else "have"
        yield GroupFinding(
            kind="unowned",
            sentence=(
                f"{format_ranges(topic, partitions)} {has} no owner, though "
                f"{_format_readers(snapshot, topic)} to {format_name(topic)}"
            ),
            blocks=True,
            topics=[topic],
        )
    twice = [(topic, partition) for topic in topics for partition in snapshot.find_owned_twice(topic)]
    for topic, partition in twice[:_MAX_FINDINGS]:
        owners = snapshot.labels.format_labels(member.name for member in snapshot.owners[topic, partition])
        yield GroupFinding(
            kind="owned_twice",
            sentence=f"{format_name(topic)}-{partition} was assigned to several members at once: {owners}",
            blocks=True,
            topics=[topic],
        )


def _format_readers(snapshot: GroupSnapshot, topic: str) -> str:
    """Return the members that subscribe to a topic, such as `alice, bob subscribe`."""
    readers = [
        member.name
        for member in snapshot.all_members
        if topic in snapshot.subscriptions.get(member.name.member_id, ())
    ]
    return f"{snapshot.labels.format_labels(readers)} {'subscribes' if len(readers) == 1 else 'subscribe'}"


def find_different_subscriptions(snapshot: GroupSnapshot) -> Iterator[GroupFinding]:
    """Yield different subscriptions in one group. Often two services share a group id by mistake."""
    by_topics: dict[frozenset[str], list[str]] = {}
    for member_id, topics in snapshot.subscriptions.items():
        by_topics.setdefault(topics, []).append(member_id)
    if len(by_topics) < 2:
        return
    parts = []
    for topics, member_ids in list(by_topics.items())[:_MAX_FINDINGS]:
        who = snapshot.labels.format_labels(snapshot.by_id[member_id].name for member_id in member_ids)
        parts.append(
            f"{{{format_list([format_name(topic) for topic in sorted(topics)])}}} by "
            f"{who}{_format_exclusive(snapshot, topics, member_ids)}"
        )
    more = f"; and {len(by_topics) - _MAX_FINDINGS} more" if len(by_topics) > _MAX_FINDINGS else ""
    yield GroupFinding(
        kind="different_subscriptions",
        sentence=f"{len(by_topics)} subscriptions in one group: {'; '.join(parts)}{more}",
        blocks=False,
        members=[member_id for member_ids in by_topics.values() for member_id in member_ids][:100],
        topics=sorted(snapshot.subscribed)[:100],
        hint="Two services that read different topics need a group id each",
    )


def _format_exclusive(snapshot: GroupSnapshot, topics: frozenset[str], member_ids: list[str]) -> str:
    """Return the topics to which only one member subscribes, as text."""
    if len(member_ids) != 1:
        return ""
    others = [found for member_id, found in snapshot.subscriptions.items() if member_id != member_ids[0]]
    partitions = snapshot.assignments.get(member_ids[0], {})
    owned = [
        format_ranges(topic, partitions[topic])
        for topic in sorted(topics)
        if partitions.get(topic) and not any(topic in found for found in others)
    ]
    return f", the only owner of {', '.join(owned)}" if owned else ""


def find_idle_members(snapshot: GroupSnapshot) -> Iterator[GroupFinding]:
    """Yield members without any assigned partition, and the reason."""
    if not snapshot.is_settled or not snapshot.are_consumers:
        return
    members = [
        member
        for member in snapshot.members
        if (member.assignment or member.consumer is not None)
        and not any(snapshot.assignments.get(member.name.member_id, {"": [0]}).values())
    ]
    subscribed: frozenset[str] = frozenset().union(
        *(snapshot.subscriptions.get(member.name.member_id, frozenset()) for member in members)
    )
    topics = [topic for topic in sorted(subscribed) if snapshot.cluster.count_partitions(topic) is not None]
    if not topics:
        return
    labels = snapshot.labels.format_labels(member.name for member in members)
    idles, them = ("idles", "it") if len(members) == 1 else ("idle", "them")
    partitions, readers = (
        sum(snapshot.cluster.count_partitions(topic) or 0 for topic in topics),
        len(snapshot.members),
    )
    of = format_list([format_name(topic) for topic in topics])
    why = f"nothing of {of} was assigned to {them}"
    if partitions < readers:
        why = f"{readers} members share the {partitions} partition{'' if partitions == 1 else 's'} of {of}"
    yield GroupFinding(
        kind="idle",
        sentence=(
            f"{labels} {idles}: {why}"
            if len(members) <= _MAX_FINDINGS
            else f"{len(members)} members idle: {why} ({labels})"
        ),
        blocks=False,
        members=[member.name.member_id for member in members[:100]],
        topics=topics[:100],
    )


_MAX_IDS = 100
_MIN_INSTANCES: Final = 2
"""The number of expired instance ids of one client from which the ids are considered generated at each start."""


def find_timeout_conflicts(snapshot: GroupSnapshot) -> Iterator[GroupFinding]:
    """Yield sessions longer than the rebalance timeout, and different rebalance timeouts, of which the longest
    counts."""
    longer = [
        member for member in snapshot.members if member.session_timeout_ms > member.rebalance_timeout_ms
    ]
    if longer:
        one = longer[0]
        labels = snapshot.labels.format_labels(member.name for member in longer)
        yield GroupFinding(
            kind="session_outlasts_rebalance",
            sentence=(
                f"The session of {labels} ({format_seconds(one.session_timeout_ms)}) is longer than the "
                f"rebalance timeout ({format_seconds(one.rebalance_timeout_ms)}): it can be evicted from a "
                f"rebalance while its session lasts"
            ),
            blocks=False,
            members=[member.name.member_id for member in longer[:_MAX_IDS]],
            hint="max.poll.interval.ms should be at least session.timeout.ms",
        )
    by_timeout: dict[int, list[str]] = {}
    for member in snapshot.members:
        by_timeout.setdefault(member.rebalance_timeout_ms, []).append(member.name.member_id)
    if len(by_timeout) > 1:
        parts = [
            f"{format_seconds(timeout_ms)} of "
            f"{snapshot.labels.format_labels(snapshot.by_id[member_id].name for member_id in member_ids)}"
            for timeout_ms, member_ids in sorted(by_timeout.items(), reverse=True)[:_MAX_FINDINGS]
        ]
        yield GroupFinding(
            kind="rebalance_timeouts_differ",
            sentence=(
                f"Rebalance timeouts differ ({'; '.join(parts)}): every join phase may last as long as the longest"
            ),
            blocks=False,
            hint="Give all members the same max.poll.interval.ms",
        )


def find_assignor_conflicts(snapshot: GroupSnapshot) -> Iterator[GroupFinding]:
    """Yield members that offer different assignors. The group can only use an assignor that all members offer."""
    by_protocols: dict[tuple[str, ...], list[str]] = {}
    for member in snapshot.all_members:
        by_protocols.setdefault(member.protocols, []).append(member.name.member_id)
    if len(by_protocols) < 2 or snapshot.view is None:
        return
    parts = [
        f"{{{format_list([format_name(name) for name in protocols])}}} by "
        f"{snapshot.labels.format_labels(snapshot.by_id[member_id].name for member_id in member_ids)}"
        for protocols, member_ids in list(by_protocols.items())[:_MAX_FINDINGS]
    ]
    chosen = f"; {format_name(snapshot.view.protocol_name)} was chosen" if snapshot.view.protocol_name else ""
    yield GroupFinding(
        kind="assignors_differ",
        sentence=f"Members offer different assignors: {'; '.join(parts)}{chosen}",
        blocks=False,
        hint="Set the same partition.assignment.strategy everywhere, once all members know it",
    )


def find_shared_client_ids(snapshot: GroupSnapshot) -> Iterator[GroupFinding]:
    """Yield client ids of several members. A reference to one of them must be a member id."""
    by_client: dict[str, list[str]] = {}
    for member in snapshot.all_members:
        if is_ghost(snapshot, member):
            continue
        by_client.setdefault(member.name.client_id, []).append(member.name.member_id)
    for client_id, member_ids in by_client.items():
        if len(member_ids) > 1:
            yield GroupFinding(
                kind="same_client_id",
                sentence=(
                    f"{len(member_ids)} members have the client id "
                    f"{format_name(client_id) or 'that is empty'}: only their member ids tell them apart"
                ),
                blocks=False,
                members=member_ids[:_MAX_IDS],
                hint="Give each consumer a client.id of its own",
            )


def find_changing_instance_ids(snapshot: GroupSnapshot) -> Iterator[GroupFinding]:
    """Yield static members that change their instance id at each start, so that the group does not know them."""
    current = {format_name(member.name.group_instance_id or "") for member in snapshot.all_members}
    expired: dict[tuple[str, str], list[str]] = {}
    for one in snapshot.history.expired_instances.values():
        if one.group_instance_id not in current:
            expired.setdefault((one.client_id, one.client_host), []).append(one.group_instance_id)
    for member in snapshot.all_members:
        connection = snapshot.connections.get(member.name.member_id)
        if (
            member.name.group_instance_id is not None
            and connection is not None
            and not connection.is_connected
        ):
            client = (format_name(member.name.client_id), format_name(member.name.client_host))
            expired.setdefault(client, []).append(format_name(member.name.group_instance_id))
    alive = {
        (format_name(member.name.client_id), format_name(member.name.client_host)): format_name(
            member.name.group_instance_id
        )
        for member in snapshot.all_members
        if member.name.group_instance_id is not None
        and (
            (connection := snapshot.connections.get(member.name.member_id)) is None or connection.is_connected
        )
    }
    for client, instance_ids in expired.items():
        if client in alive and len(instance_ids) >= _MIN_INSTANCES:
            yield GroupFinding(
                kind="instance_ids_change",
                sentence=(
                    f"{client[0] or 'A client without a name'} came under {len(instance_ids) + 1} instance ids "
                    f"({format_list([*instance_ids, alive[client]])}) and left all but the last to expire: its "
                    f"group.instance.id changes at each start, so that nothing is kept for it"
                ),
                blocks=False,
                hint="A static member needs the same group.instance.id at each start",
            )
