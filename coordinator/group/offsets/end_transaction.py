"""The end of a producer's transaction: its pending offsets are committed or dropped.

Source: Kafka's OffsetMetadataManager.replayEndTransactionMarker.
"""

from itertools import islice
from typing import Final

from coordinator.group.events import OffsetsSkipped, SkippedOffset, TransactionEnded
from coordinator.group.groups import Groups
from coordinator.group.offsets.offset_map import Place
from coordinator.group.requests import EndTransaction
from coordinator.machine.outcome import Context, Marker
from coordinator.machine.turn import Turn
from protocol.errors import ErrorCode
from protocol.records import OffsetCommitValue

SKIPPED_OFFSETS_TOLD: Final = 10

Offsets = list[tuple[Place, OffsetCommitValue]]


def end_transaction(groups: Groups, request: EndTransaction, context: Context, turn: Turn) -> None:
    """Answer an EndTransaction with NONE, once its marker is durable. An offset is committed unless the record of
    the one that is there is the later one."""
    offsets, producer_id = groups.durable.offsets, request.producer_id
    counts: dict[str, int] = {}
    for group_id, _, _ in offsets.pending.by_producer.get(producer_id, ()):
        counts[group_id] = counts.get(group_id, 0) + 1
    ended = groups.durable.end_transaction(producer_id, is_committed=request.is_committed)
    groups.commit_kinds.committed(place for place, _ in ended.counting)
    skipped: dict[str, Offsets] = {}
    for place, value in ended.superseded:
        skipped.setdefault(place[0], []).append((place, value))
    for group_id, count in counts.items():
        in_vain = skipped.get(group_id, [])
        real = count - len(in_vain)
        turn.tell(TransactionEnded(group_id, producer_id, request.is_committed, real))
        if in_vain:
            turn.tell(OffsetsSkipped(group_id, producer_id, len(in_vain), _first(groups, in_vain)))
    turn.marker = Marker(producer_id, request.producer_epoch, request.coordinator_epoch, request.is_committed)
    turn.reply(context.waiter, ErrorCode.NONE)


def _first(groups: Groups, skipped: Offsets) -> tuple[SkippedOffset, ...]:
    """The first of them, with what counts instead."""
    offsets = groups.durable.offsets
    return tuple(
        SkippedOffset(topic, partition, value.offset, current.offset)
        for (group_id, topic, partition), value in islice(skipped, SKIPPED_OFFSETS_TOLD)
        for current in [offsets.get(group_id, topic, partition)]
        if current is not None
    )
