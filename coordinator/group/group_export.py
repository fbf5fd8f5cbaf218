"""Export of one group's state from its shard, and import into a shard without this group.

The groups of a shard share only the config, the topics, and requests or timers about many groups. All other state
is kept by group id, in the durable and the soft half of the shard.

The import replays the durable half, as the records that a load would read. It then copies three orders that the
records do not contain: the order of the members of a consumer group, which depends on the number of members that
ever existed; the order of its assignors; and the order in which records of open transactions arrived.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from coordinator.core.outcome import NO_PRODUCER_ID, Context, Fact, Now, Work
from coordinator.group.classic.classic_group import ClassicGroup
from coordinator.group.consumer.consumer_group import ConsumerGroup
from coordinator.group.consumer.durable_consumer_group import DurableConsumerGroup
from coordinator.group.consumer.regex_resolution import REGEX_WORK
from coordinator.group.consumer.target_assignment import TARGET_WORK, PendingTarget
from coordinator.group.durable_groups import OffsetKey
from coordinator.group.group_requests import GroupConfigsChanged
from coordinator.group.group_shard import GroupShard
from protocol.records.group_record_schemas import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

NumberedOffsets = Mapping[OffsetKey, tuple[int, OffsetCommitValue]]

_NO_CLIENT: Final = Context(0, 0, "", "")
_NO_TIME: Final = Now(0, 0)


@dataclass(slots=True, kw_only=True)
class DurableGroupState:
    """The logged state of one group.

    The shard numbers the offset records by arrival. `pending` has the offsets of open transactions with their
    numbers, by producer id. `newest` has the number of the effective record of a partition, and `pending_records`
    is the last number of the shard.
    """

    metadata: GroupMetadataValue | None
    is_taken_over: bool
    consumer: DurableConsumerGroup | None
    offsets: Mapping[str, Mapping[int, OffsetCommitValue]]
    pending: Mapping[int, NumberedOffsets]
    newest: Mapping[OffsetKey, int]
    pending_records: int


@dataclass(slots=True, kw_only=True)
class SoftGroupState:
    """The soft state of a group. `consumer` has the fields of `ConsumerGroup.export_soft_state`. `loaded_ms`,
    `transactional` and `is_told` are the group's entries in `CommitKinds`; `is_told`: its commits are mixed."""

    overrides: Mapping[str, str] | None
    classic: ClassicGroup | None
    consumer: Mapping[str, Any] | None
    awaited: PendingTarget | None
    loaded_ms: int | None
    transactional: set[tuple[str, int]] | None
    is_told: bool


@dataclass(slots=True, kw_only=True)
class ExportedGroup:
    """The state of a group between two calls of its shard."""

    durable: DurableGroupState
    soft: SoftGroupState


def has_group_state(shard: GroupShard, group_id: str) -> bool:
    """Return whether a shard has any state of a group. A group without members and offsets may still have configs,
    or a request that waits for a target.
    """
    groups = shard._groups
    found = (groups.by_id, groups.durable, groups.pending_targets, groups.overrides)
    return any(group_id in one for one in found)


def export_durable(shard: GroupShard, group_id: str) -> DurableGroupState:
    """Export the logged state of a group. The shard still owns the values: encode them before its next call."""
    durable = shard._groups.durable
    pending = durable.offsets.pending
    return DurableGroupState(
        metadata=durable.metadata.find_metadata(group_id),
        is_taken_over=durable.is_taken_over(group_id),
        consumer=durable.consumers.find_group(group_id),
        offsets=durable.offsets.find_group_offsets(group_id),
        pending=pending.select_records(lambda place: place[0] == group_id),
        newest=pending.select_newest(lambda place: place[0] == group_id),
        pending_records=pending.last_number,
    )


def export_group(shard: GroupShard, group_id: str) -> ExportedGroup:
    """Export a group. The shard still owns the values: encode them before its next call."""
    groups = shard._groups
    consumer, kinds = groups.find_typed_group(ConsumerGroup, group_id), groups.commit_kinds
    soft = SoftGroupState(
        overrides=shard.find_overrides(group_id),
        classic=groups.find_typed_group(ClassicGroup, group_id),
        consumer=None if consumer is None else consumer.export_soft_state(),
        awaited=groups.pending_targets.get(group_id),
        loaded_ms=kinds.find_loaded_ms(group_id),
        transactional=kinds.transactional.get(group_id),
        is_told=kinds.is_mixed(group_id),
    )
    return ExportedGroup(durable=export_durable(shard, group_id), soft=soft)


def list_work(soft: SoftGroupState) -> list[Work]:
    """Return the background work in progress for a group: first its target assignment, then its expressions."""
    found = [] if soft.awaited is None else [Work(TARGET_WORK, soft.awaited.work)]
    resolving = None if soft.consumer is None else soft.consumer["resolving"]
    return found if resolving is None else [*found, Work(REGEX_WORK, resolving)]


def iterate_records(group_id: str, state: DurableGroupState) -> Iterator[tuple[Fact, int]]:
    """Yield the records of a group, each with its producer id, in an order in which a log may have them."""
    metadata = [] if state.metadata is None else [Fact(GroupMetadataKey(group=group_id), state.metadata)]
    consumer = [] if state.consumer is None else list(state.consumer.facts())
    # The later records decide the type of the group.
    for fact in consumer + metadata if state.is_taken_over else metadata + consumer:
        yield fact, NO_PRODUCER_ID
    for topic, partitions in state.offsets.items():
        for partition, value in partitions.items():
            yield _offset_record((group_id, topic, partition), value), NO_PRODUCER_ID
    for producer_id, records in state.pending.items():
        for place, (_, value) in records.items():
            yield _offset_record(place, value), producer_id


def _offset_record(place: OffsetKey, value: OffsetCommitValue) -> Fact:
    group_id, topic, partition = place
    return Fact(OffsetCommitKey(group=group_id, topic=topic, partition=partition), value)


def import_durable(shard: GroupShard, group_id: str, state: DurableGroupState) -> None:
    """Replay the records of a group on a shard that has no state of it, and copy the orders.

    Raises:
        ValueError: the orders have other keys than the records.
    """
    for fact, producer_id in iterate_records(group_id, state):
        shard.replay(fact, producer_id)
    durable = shard._groups.durable
    if state.consumer is not None:
        group = durable.consumers.find_group(group_id)
        if group is None:
            raise ValueError(f"consumer group {group_id} has no records")
        group.adopt_orders(state.consumer)
    durable.offsets.pending.adopt_arrivals(state.pending, state.newest, state.pending_records)


def import_overrides(shard: GroupShard, group_id: str, overrides: Mapping[str, str] | None) -> None:
    """Set the configs of a group."""
    if overrides is not None:
        shard.handle(GroupConfigsChanged(group_id, overrides), _NO_CLIENT, _NO_TIME)


def import_group(shard: GroupShard, group_id: str, state: ExportedGroup) -> None:
    """Create a group in a shard that has no state of it.

    Raises:
        ValueError: the orders have other keys than the records.
    """
    assert not has_group_state(shard, group_id), group_id
    import_durable(shard, group_id, state.durable)
    groups, soft = shard._groups, state.soft
    import_overrides(shard, group_id, soft.overrides)
    if soft.classic is not None:
        groups.add_group(soft.classic)
    if soft.consumer is not None:
        groups.create_consumer_group(group_id).import_soft_state(soft.consumer)
    if soft.awaited is not None:
        groups.pending_targets[group_id] = soft.awaited
    kinds = groups.commit_kinds
    if soft.loaded_ms is not None:
        kinds.on_group_loaded(group_id, soft.loaded_ms)
    if soft.transactional is not None:
        kinds.record_transactional_commit((group_id, *place) for place in soft.transactional)
    if soft.is_told:
        kinds.mark_mixed(group_id)
