"""Ends transactions that no coordinator knows, which a directory may have that a broker left.

Such a transaction would keep everything behind it from consumers of committed records for ever: nobody is going
to end it. Which ones these are can be said only when every partition of `__transaction_state` was read; while one
could not be, they stay open.

Source: KIP-664, KIP-890; Kafka leaves it to `kafka-transactions.sh find-hanging` and `abort`.
"""

import logging
from functools import partial
from typing import Final

from coordinator.engine.partition import PartitionState
from coordinator.engine.runtime import Runtime
from coordinator.group.shard import Shard
from coordinator.server.marker_writer import MarkerWriter, TransactionEnd
from coordinator.server.open_transactions import OpenTransaction, open_transactions
from coordinator.topics.data_plane import DataPlane
from coordinator.transactions.shard import TransactionShard
from protocol.errors import ErrorCode

_LOG: Final = logging.getLogger("TransactionCoordinator")
_LEVEL: Final = 0
"""The epoch of the marker is that of the producer: nobody has raised it."""
_NAMED: Final = 3
"""Of the partitions that keep it from being known."""


def end_hanging(
    data_plane: DataPlane,
    groups: Runtime[Shard],
    transactions: Runtime[TransactionShard],
    writer: MarkerWriter,
) -> bool:
    """Ends what no coordinator knows. Out: False where that cannot be said yet: a partition is still being read."""
    found = open_transactions(data_plane, groups)
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
            "%d transactions are open, and whose they are is not known while %s cannot be used: they stay open",
            len(found),
            ", ".join(str(partition.name) for partition in unread[:_NAMED])
            + (f" and {len(unread) - _NAMED} more" if len(unread) > _NAMED else ""),
        )
        return True
    known = {
        (producer_id, partition)
        for part in transactions.partitions
        if part.machine is not None
        for producer_id, partition in part.machine.open_partitions()
    }
    for hanging in found:
        place = hanging.partition.topic, hanging.partition.partition
        if (hanging.producer_id, place) not in known:
            _end(hanging, writer)
    return True


def _end(hanging: OpenTransaction, writer: MarkerWriter) -> None:
    end = TransactionEnd(
        hanging.producer_id, hanging.producer_epoch, hanging.coordinator_epoch, False, _LEVEL
    )
    writer.write(hanging.partition, end, partial(_ended, hanging))


def _ended(hanging: OpenTransaction, error: ErrorCode) -> None:
    if error is ErrorCode.NONE:
        _LOG.warning(
            "Aborted a transaction of producer %d (epoch %d) that was open in %s from offset %d on, and that no "
            "coordinator knows",
            hanging.producer_id,
            hanging.producer_epoch,
            hanging.partition,
            hanging.first_offset,
        )
    else:
        _LOG.error(
            "A transaction of producer %d is open in %s from offset %d on, no coordinator knows it, and it could "
            "not be aborted: %s",
            hanging.producer_id,
            hanging.partition,
            hanging.first_offset,
            error.name,
        )
