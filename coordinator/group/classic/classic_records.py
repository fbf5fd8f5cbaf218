"""The records of classic groups in `__consumer_offsets`: encoding, decoding, and the store that replays them."""

from collections.abc import Collection, Iterator
from sys import intern
from typing import Final, Self

from coordinator.core.outcome import Fact
from coordinator.group.classic.classic_group import ClassicGroup
from coordinator.group.classic.classic_member import ClassicMember
from coordinator.group.classic.classic_state_machine import STABLE
from coordinator.group.event_details import MemberName
from coordinator.group.group_record_codec import build_fact
from protocol.records.group_record_schemas import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from protocol.records.group_record_serde import GROUP_METADATA, GROUP_METADATA_VERSION

NO_TIMESTAMP = -1


def group_metadata_record(group: ClassicGroup) -> Fact:
    """Build the record of a group. Its timestamp is the time of the last change of state."""
    return Fact(GroupMetadataKey(group=group.group_id), group_metadata(group), GROUP_METADATA_VERSION)


def new_group_record(group: ClassicGroup) -> Fact:
    """Build the record that Kafka writes when a JoinGroup creates a group: generation 0 without members, whatever
    the result of the request.
    """
    assert group.generation_id == 0, group.generation_id
    value = GroupMetadataValue(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=_timestamp(group),
        members=[],
    )
    return Fact(GroupMetadataKey(group=group.group_id), value, GROUP_METADATA_VERSION)


def group_metadata(group: ClassicGroup) -> GroupMetadataValue:
    """Return the durable part of a group. A member's subscription is the one for the selected protocol."""
    name = group.protocol_name
    assert (name is not None) == bool(group.members), (group.group_id, name)
    return GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=name,
        leader=group.leader_id,
        current_state_timestamp=_timestamp(group),
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata_for(name or ""),
                assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )


def restore_group(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """Create the group of a record: Stable with members, else Empty. A rebalance in progress is lost, because it is
    not logged.

    Raises:
        ValueError: no group can have such a record.
    """
    recorded_ms = value.current_state_timestamp
    group = ClassicGroup(group_id, None if recorded_ms == NO_TIMESTAMP else recorded_ms)
    group.generation_id = value.generation
    group.protocol_type = value.protocol_type or None
    if value.members and not (value.protocol_type and value.protocol):
        raise ValueError(f"group {group_id} has members but no protocol")
    for metadata in value.members:
        member = _restore_member(metadata, value.protocol or "")
        if member.member_id in group.members or member.group_instance_id in group.static_members:
            raise ValueError(f"group {group_id} has member {member.member_id} or its instance id twice")
        member.settled_assignment = member.assignment
        group.add_member(member, value.protocol_type)
    if value.members:
        group.state = STABLE
        group.protocol_name = value.protocol
        if value.leader in group.members:
            group.leader_id = value.leader
    return group


def _restore_member(metadata: MemberMetadata, protocol_name: str) -> ClassicMember:
    has_timeout = metadata.rebalance_timeout != -1
    if not metadata.member_id:
        raise ValueError("a member has no id")
    client_id, client_host = intern(metadata.client_id), intern(metadata.client_host)
    return ClassicMember(
        MemberName(metadata.member_id, metadata.group_instance_id, client_id, client_host),
        metadata.session_timeout,
        metadata.rebalance_timeout if has_timeout else metadata.session_timeout,
        ((intern(protocol_name), metadata.subscription),),
        metadata.assignment,
    )


def _timestamp(group: ClassicGroup) -> int:
    return NO_TIMESTAMP if group.state_timestamp_ms is None else group.state_timestamp_ms


class ClassicGroupStore:
    """The last metadata of every classic group, by group id."""

    __slots__ = ("_by_group",)

    record_types: Final = (GROUP_METADATA,)

    def __init__(self) -> None:
        self._by_group: dict[str, GroupMetadataValue] = {}

    def replay(self, key: GroupMetadataKey, value: GroupMetadataValue | None, producer_id: int) -> None:
        """Apply a record: the later one of a group wins, a tombstone removes it."""
        if value is None:
            self._by_group.pop(key.group, None)
        else:
            self._by_group[key.group] = value

    def find_metadata(self, group_id: str) -> GroupMetadataValue | None:
        """Return the metadata of a group, None without metadata."""
        return self._by_group.get(group_id)

    def group_ids(self) -> Collection[str]:
        """Return the ids of all groups with metadata."""
        return self._by_group.keys()

    def __contains__(self, group_id: str) -> bool:
        """Return whether a group has metadata."""
        return group_id in self._by_group

    def __len__(self) -> int:
        return len(self._by_group)

    def facts(self) -> Iterator[Fact]:
        """Yield a record for each group."""
        for group_id, value in self._by_group.items():
            yield build_fact(GROUP_METADATA, GroupMetadataKey(group=group_id), value)

    def copy(self) -> Self:
        """Return a copy; later records do not change it."""
        copied = type(self)()
        copied._by_group = dict(self._by_group)
        return copied
