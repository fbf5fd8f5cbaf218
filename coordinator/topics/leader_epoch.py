"""What a client knows of leader epochs, held against a partition's log. Source: KIP-101, KIP-320."""

from coordinator.cluster.ownership import Ownership
from coordinator.topics.partition import Partition
from protocol.errors import ErrorCode
from storage.leader_epochs import UNKNOWN_EPOCH
from storage.log import PartitionLog


def current_epoch(partition: Partition, ownership: Ownership) -> int:
    """The epoch that clients are told; 0 while the partition is offline. Clients believe nobody who tells them an
    earlier one than they know."""
    log = partition.log
    return ownership.leader_epoch(partition.name) if log is None else log.leader_epochs.current


def check_current_leader_epoch(epoch: int, log: PartitionLog) -> ErrorCode:
    """What a client's idea of the current epoch is answered with; -1 means that it has none."""
    current = log.leader_epochs.current
    if epoch in (UNKNOWN_EPOCH, current):
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if epoch < current else ErrorCode.UNKNOWN_LEADER_EPOCH
