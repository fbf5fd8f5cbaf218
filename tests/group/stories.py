"""Groups in the states with which most tests begin."""

from tests.group.coordinator import RANGE, Coordinator


def joined_member(coordinator: Coordinator, instance: str | None = None) -> str:
    """Let a member join, and return its id; it waits in the join phase. A dynamic member first gets its id
    (KIP-394).
    """
    before = coordinator.join(instance=instance)
    if instance is not None:
        assert before.is_parked
        return _newest(coordinator)
    member_id = before.joined.member_id
    assert coordinator.join(member_id).is_parked
    return member_id


def _newest(coordinator: Coordinator) -> str:
    return coordinator.describe().members[-1].member_id


def new_generation(coordinator: Coordinator, size: int = 2, static: int = 0) -> list[str]:
    """Create a group in CompletingRebalance, generation 1. Return its members, dynamic ones first; the first one
    leads.
    """
    members = [joined_member(coordinator) for _ in range(size - static)]
    members += [joined_member(coordinator, f"instance-{number}") for number in range(static)]
    coordinator.advance(2 * coordinator.config.group_initial_rebalance_delay_ms)
    assert coordinator.state() == "CompletingRebalance"
    return members


def sync_all(coordinator: Coordinator, members: list[str], generation: int) -> None:
    """Send a SyncGroup of every member, that of the leader (the first one) last."""
    syncs = [coordinator.sync(member, generation) for member in members[1:]]
    syncs.append(
        coordinator.sync(members[0], generation, {member: b"for " + member.encode() for member in members})
    )
    assert [ask.synced.error_code for ask in syncs] == [0] * len(members)


def stable_group(coordinator: Coordinator, size: int = 2, static: int = 0) -> list[str]:
    """Create a Stable group of generation 1. Return its members, dynamic ones first; the first one leads."""
    members = new_generation(coordinator, size, static)
    sync_all(coordinator, members, 1)
    assert coordinator.state() == "Stable"
    return members


CHANGED = [("range", RANGE[0][1] + b"changed")]
