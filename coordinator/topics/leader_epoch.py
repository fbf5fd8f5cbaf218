"""Leader epochs of a log that has had one leader only: epoch 0, from offset 0 on. Source: KIP-101,
KIP-320.
"""

from typing import Final

from coordinator.topics.partition import LEADER_EPOCH
from protocol.errors import ErrorCode
from storage.log import PartitionLog

UNKNOWN_EPOCH: Final = -1
UNKNOWN_OFFSET: Final = -1


def check_current_leader_epoch(epoch: int) -> ErrorCode:
    """What a client's idea of the current epoch is answered with; -1 means that it has none."""
    if epoch in (UNKNOWN_EPOCH, LEADER_EPOCH):
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if epoch < LEADER_EPOCH else ErrorCode.UNKNOWN_LEADER_EPOCH


def end_offset_for_epoch(epoch: int, log: PartitionLog) -> tuple[int, int]:
    """The greatest epoch not above `epoch` that the log has, and where it ends; (-1, -1) where that is not
    known.
    """
    if epoch == LEADER_EPOCH:
        return LEADER_EPOCH, log.log_end_offset
    if epoch == UNKNOWN_EPOCH or epoch > LEADER_EPOCH:
        return UNKNOWN_EPOCH, UNKNOWN_OFFSET
    return epoch, log.log_start_offset
