"""A history with groups of every kind, created by hand."""

from typing import Any, Final

from protocol.error_codes import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.kafka_log.connection import Connection

OFFSET_COMMIT: Final = 1
GROUP_METADATA: Final = 2
COMMITS: Final = 60
PARTITIONS: Final = 4
SESSION_TIMEOUT_MS: Final = 60_000
REBALANCE_TIMEOUT_MS: Final = 70_000
SUBSCRIPTION: Final = b"\0\1\0\0\0\1\0\6orders\xff\xff\xff\xff\0\0\0\0"

Deleted = set[tuple[Any, ...]]
"""Type and fields of keys."""


def commit(
    connection: Connection,
    group: str,
    offsets: dict[int, int],
    member_id: str = "",
    generation: int = -1,
    metadata: str | None = None,
) -> None:
    """Commits offsets of partitions of `orders`; odd partitions with a leader epoch."""
    parts = [
        OffsetCommitRequestPartition(
            partition_index=number,
            committed_offset=offset,
            committed_leader_epoch=3 if number % 2 else -1,
            committed_metadata=metadata,
        )
        for number, offset in offsets.items()
    ]
    request = OffsetCommitRequest(
        group_id=group,
        member_id=member_id,
        generation_id_or_member_epoch=generation,
        topics=[OffsetCommitRequestTopic(name="orders", partitions=parts)],
    )
    (topic,) = connection.call(request, 9).topics
    assert {part.error_code for part in topic.partitions} == {0}, topic


def join(
    connection: Connection, group: str, instance: str | None = None, assignment: bytes = bytes(range(40))
) -> tuple[str, int]:
    """Becomes the only member of a Stable group: its id and generation."""
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
        member_id="",
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
    )
    joined = connection.call(request, 5)
    if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        request.member_id = joined.member_id
        joined = connection.call(request, 5)
    assert joined.error_code == 0, joined
    synced = connection.call(
        SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=instance,
            assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment)],
        ),
        3,
    )
    assert synced.error_code == 0, synced
    return joined.member_id, joined.generation_id


def leave(connection: Connection, group: str, member_id: str) -> None:
    """Ends a membership."""
    request = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member_id)])
    assert connection.call(request, 3).error_code == 0


def delete_group(connection: Connection, group: str) -> None:
    """Deletes an empty group."""
    (answer,) = connection.call(DeleteGroupsRequest(groups_names=[group]), 2).results
    assert answer.error_code == 0, answer


def fill(connection: Connection) -> Deleted:
    """Create groups with a dynamic member, a static one and none, a group without membership, and a deleted group.

    Return the keys of deleted records.
    """
    everywhere = dict.fromkeys(range(PARTITIONS), 1)
    dynamic, generation = join(connection, "by-hand-dynamic")
    join(connection, "by-hand-static", "instance-1")
    emptied, emptied_generation = join(connection, "by-hand-emptied")
    gone, gone_generation = join(connection, "by-hand-gone")
    commit(connection, "by-hand-gone", everywhere, gone, gone_generation)
    commit(connection, "by-hand-emptied", everywhere, emptied, emptied_generation, "größer als nichts")
    for number in range(COMMITS):
        offsets = {partition: 1000 + number + partition for partition in range(PARTITIONS)}
        commit(connection, "by-hand-simple", offsets, metadata="metadata " * (number % 20))
        commit(connection, "by-hand-dynamic", offsets, dynamic, generation)
    leave(connection, "by-hand-emptied", emptied)
    leave(connection, "by-hand-gone", gone)
    delete_group(connection, "by-hand-gone")
    forgotten = OffsetDeleteRequestTopic(
        name="orders", partitions=[OffsetDeleteRequestPartition(partition_index=1)]
    )
    request = OffsetDeleteRequest(group_id="by-hand-simple", topics=[forgotten])
    assert connection.call(request, 0).error_code == 0
    offsets_gone = {(OFFSET_COMMIT, "by-hand-gone", "orders", number) for number in range(PARTITIONS)}
    return offsets_gone | {(GROUP_METADATA, "by-hand-gone"), (OFFSET_COMMIT, "by-hand-simple", "orders", 1)}
