"""Settings of members that do not fit each other, as far as a coordinator can see them."""

from collections.abc import Iterator
from typing import Final

from coordinator.control.waits.blocking_findings import is_ghost
from coordinator.control.waits.finding import Finding
from coordinator.control.waits.labels import named, seconds, some
from coordinator.control.waits.sight import GroupSight

_MOST = 5
_MOST_IDS = 100
_FEW_INSTANCES: Final = 2
"""So many ids of static members of one client that ran out of time are one too many to be an accident."""


def timeouts(sight: GroupSight) -> Iterator[Finding]:
    """Sessions that outlast the rebalance timeout, and rebalance timeouts of which the longest rules."""
    longer = [member for member in sight.members if member.session_timeout_ms > member.rebalance_timeout_ms]
    if longer:
        one = longer[0]
        labels = sight.labels.all(member.name for member in longer)
        yield Finding(
            kind="session_outlasts_rebalance",
            sentence=(
                f"The session of {labels} ({seconds(one.session_timeout_ms)}) is longer than the rebalance timeout "
                f"({seconds(one.rebalance_timeout_ms)}): it can be evicted from a rebalance while its session lasts"
            ),
            blocks=False,
            members=[member.name.member_id for member in longer[:_MOST_IDS]],
            hint="max.poll.interval.ms should be at least session.timeout.ms",
        )
    by_timeout: dict[int, list[str]] = {}
    for member in sight.members:
        by_timeout.setdefault(member.rebalance_timeout_ms, []).append(member.name.member_id)
    if len(by_timeout) > 1:
        parts = [
            f"{seconds(timeout_ms)} of {sight.labels.all(sight.by_id[member_id].name for member_id in member_ids)}"
            for timeout_ms, member_ids in sorted(by_timeout.items(), reverse=True)[:_MOST]
        ]
        yield Finding(
            kind="rebalance_timeouts_differ",
            sentence=(
                f"Rebalance timeouts differ ({'; '.join(parts)}): every join phase may last as long as the longest"
            ),
            blocks=False,
            hint="Give all members the same max.poll.interval.ms",
        )


def assignors(sight: GroupSight) -> Iterator[Finding]:
    """Members that offer different assignors: only one that all offer can be chosen."""
    by_protocols: dict[tuple[str, ...], list[str]] = {}
    for member in sight.all_members:
        by_protocols.setdefault(member.protocols, []).append(member.name.member_id)
    if len(by_protocols) < 2 or sight.view is None:
        return
    parts = [
        f"{{{some([named(name) for name in protocols])}}} by "
        f"{sight.labels.all(sight.by_id[member_id].name for member_id in member_ids)}"
        for protocols, member_ids in list(by_protocols.items())[:_MOST]
    ]
    chosen = f"; {named(sight.view.protocol_name)} was chosen" if sight.view.protocol_name else ""
    yield Finding(
        kind="assignors_differ",
        sentence=f"Members offer different assignors: {'; '.join(parts)}{chosen}",
        blocks=False,
        hint="Set the same partition.assignment.strategy everywhere, once all members know it",
    )


def client_ids(sight: GroupSight) -> Iterator[Finding]:
    """Several members with one client id: whoever names one has to write its member id."""
    by_client: dict[str, list[str]] = {}
    for member in sight.all_members:
        if is_ghost(sight, member):
            continue
        by_client.setdefault(member.name.client_id, []).append(member.name.member_id)
    for client_id, member_ids in by_client.items():
        if len(member_ids) > 1:
            yield Finding(
                kind="same_client_id",
                sentence=(
                    f"{len(member_ids)} members have the client id {named(client_id) or 'that is empty'}: only "
                    f"their member ids tell them apart"
                ),
                blocks=False,
                members=member_ids[:_MOST_IDS],
                hint="Give each consumer a client.id of its own",
            )


def instance_ids(sight: GroupSight) -> Iterator[Finding]:
    """Static members whose instance id is another one at each start: to the group each is a stranger."""
    current = {named(member.name.group_instance_id or "") for member in sight.all_members}
    expired: dict[tuple[str, str], list[str]] = {}
    for one in sight.remembered.expired_instances.values():
        if one.group_instance_id not in current:
            expired.setdefault((one.client_id, one.client_host), []).append(one.group_instance_id)
    for member in sight.all_members:
        reach = sight.reach.get(member.name.member_id)
        if member.name.group_instance_id is not None and reach is not None and not reach.is_connected:
            client = (named(member.name.client_id), named(member.name.client_host))
            expired.setdefault(client, []).append(named(member.name.group_instance_id))
    alive = {
        (named(member.name.client_id), named(member.name.client_host)): named(member.name.group_instance_id)
        for member in sight.all_members
        if member.name.group_instance_id is not None
        and ((reach := sight.reach.get(member.name.member_id)) is None or reach.is_connected)
    }
    for client, instance_ids in expired.items():
        if client in alive and len(instance_ids) >= _FEW_INSTANCES:
            yield Finding(
                kind="instance_ids_change",
                sentence=(
                    f"{client[0] or 'A client without a name'} came under {len(instance_ids) + 1} instance ids "
                    f"({some([*instance_ids, alive[client]])}) and left all but the last to expire: its "
                    f"group.instance.id changes at each start, so that nothing is kept for it"
                ),
                blocks=False,
                hint="A static member needs the same group.instance.id at each start",
            )
