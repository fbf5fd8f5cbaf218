"""Aborts hanging transactions, which no coordinator knows. A directory of a former Kafka broker may contain some.

Such a transaction would hide all later records from `read_committed` consumers for ever. groupd can identify the
hanging ones only after every partition of `__transaction_state` is loaded. If one fails to load, all stay open.

Source: KIP-664, KIP-890; Kafka leaves this to `kafka-transactions.sh find-hanging` and `abort`.
"""

import logging
from functools import partial
from typing import Final

from coordinator.apis.transaction_markers import LocalMarkerWriter, TransactionEnd
from coordinator.broker.open_transaction_finder import OpenTransaction, find_open_transactions
from coordinator.group.group_shard import GroupShard
from coordinator.runtime.partition_lifecycle import PartitionState
from coordinator.runtime.runtime import Runtime
from coordinator.topics.data_plane import DataPlane
from coordinator.transactions.transaction_shard import TransactionShard
from protocol.error_codes import ErrorCode

_LOG: Final = logging.getLogger("TransactionCoordinator")
_LEVEL: Final = 0
"""The transaction version of the marker. In this version the marker has the unchanged producer epoch."""
_MAX_NAMED: Final = 3
"""Maximum number of unusable partitions in the log line."""


def end_hanging_transactions(
    data_plane: DataPlane,
    groups: Runtime[GroupShard],
    transactions: Runtime[TransactionShard],
    writer: LocalMarkerWriter,
) -> bool:
    """Abort the transactions that no coordinator knows. Return False while a partition is still loading."""
    found = find_open_transactions(data_plane, groups)
    if not found:
        return True
    unread = [
        partition
        for runtime in (transactions, groups)
        for partition in runtime.partitions
        if partition.state is not PartitionState.OWNED
    ]
    if any(partition.state is PartitionState.LOADING for partition in unread):
        return False
    if unread:
        _LOG.warning(
            "%d open transactions cannot be resolved while %s is unavailable: they stay open",
            len(found),
            ", ".join(str(partition.name) for partition in unread[:_MAX_NAMED])
            + (f" and {len(unread) - _MAX_NAMED} more" if len(unread) > _MAX_NAMED else ""),
        )
        return True
    known = {
        (producer_id, partition)
        for part in transactions.partitions
        if part.machine is not None
        for producer_id, partition in part.machine.iterate_open_partitions()
    }
    for hanging in found:
        partition_key = hanging.partition.topic, hanging.partition.partition
        if (hanging.producer_id, partition_key) not in known:
            _end_transaction(hanging, writer)
    return True


def _end_transaction(hanging: OpenTransaction, writer: LocalMarkerWriter) -> None:
    end = TransactionEnd(
        hanging.producer_id, hanging.producer_epoch, hanging.coordinator_epoch, False, _LEVEL
    )
    writer.write_marker(hanging.partition, end, partial(_on_ended, hanging))


def _on_ended(hanging: OpenTransaction, error: ErrorCode) -> None:
    if error is ErrorCode.NONE:
        _LOG.warning(
            "Aborted a hanging transaction of producer %d (epoch %d) in %s, open since offset %d: no coordinator "
            "knows it",
            hanging.producer_id,
            hanging.producer_epoch,
            hanging.partition,
            hanging.first_offset,
        )
    else:
        _LOG.error(
            "Failed to abort a hanging transaction of producer %d in %s, open since offset %d, which no "
            "coordinator knows: %s",
            hanging.producer_id,
            hanging.partition,
            hanging.first_offset,
            error.name,
        )
