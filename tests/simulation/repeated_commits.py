"""Sends a repeated OffsetCommit to the shard as a daemon does: as the repetition of an answered one."""

from collections.abc import Hashable, Iterator

from coordinator.core.outcome import Outcome
from coordinator.group.group_requests import PreparedCommit, RepeatedCommit
from coordinator.group.group_shard import GroupShard
from protocol.error_codes import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
)
from tests.simulation.network import Connection


class RepeatedCommits:
    """The prepared commits of all connections. They outlive a reload of the partition, as in a daemon."""

    def __init__(self) -> None:
        self._prepared: dict[Hashable, PreparedCommit] = {}

    def replace_request(
        self, connection: Connection, request: OffsetCommitRequest, version: int
    ) -> OffsetCommitRequest | RepeatedCommit:
        """Return the repetition that stands for a request, or the request if its connection sends it first."""
        prepared = self._prepared.get(_describe_shape(connection, request, version))
        if prepared is None:
            return request
        partitions = list(_list_partitions(request))
        return RepeatedCommit(
            prepared,
            [partition.committed_offset for partition in partitions],
            [partition.committed_leader_epoch for partition in partitions],
            [partition.committed_metadata or "" for partition in partitions],
        )

    def prepare_repetition(
        self,
        shard: GroupShard,
        connection: Connection,
        request: OffsetCommitRequest,
        version: int,
        outcome: Outcome,
    ) -> None:
        """Prepare the repetitions of a request that `outcome` has accepted."""
        for _, response in outcome.replies:
            if isinstance(response, OffsetCommitResponse) and all(
                partition.error_code == ErrorCode.NONE
                for topic in response.topics
                for partition in topic.partitions
            ):
                prepared = shard.prepare_commit(request, version)
                if prepared is not None:
                    self._prepared[_describe_shape(connection, request, version)] = prepared


def _list_partitions(request: OffsetCommitRequest) -> Iterator[OffsetCommitRequestPartition]:
    for topic in request.topics:
        yield from topic.partitions


def _describe_shape(connection: Connection, request: OffsetCommitRequest, version: int) -> Hashable:
    """Return everything of a request that is equal in its repetitions."""
    return (
        connection,
        version,
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        request.retention_time_ms,
        tuple(
            (topic.name, partition.partition_index, len(partition.committed_metadata or ""))
            for topic in request.topics
            for partition in topic.partitions
        ),
    )
