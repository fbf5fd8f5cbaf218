"""The state of one group: export it from its shard, and import it into an empty shard.

The groups of a shard share only the config, the topics, and requests or timers about many groups
(`group_recording.py`). All other state is kept by group id, in the durable and the soft part of a shard.
Pending offsets of transactions are kept by producer, with numbers that order them; these numbers are exported
too.

The durable part is exported, not read from records. Kafka's order of the members of a consumer group depends on the
number of members that ever existed, and a load does not have that number.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coordinator.core.outcome import Fact, Work
from coordinator.group.classic.classic_group import ClassicGroup
from coordinator.group.consumer.consumer_group import ConsumerGroup
from coordinator.group.consumer.durable_consumer_group import DurableConsumerGroup
from coordinator.group.consumer.regex_resolution import REGEX_WORK
from coordinator.group.consumer.target_assignment import TARGET_WORK, PendingTarget
from coordinator.group.durable_groups import OffsetKey
from coordinator.group.group_shard import GroupShard
from coordinator.group.shard_groups import ShardGroups
from protocol.records.group_record_schemas import GroupMetadataValue, OffsetCommitKey, OffsetCommitValue

NumberedOffsets = Mapping[OffsetKey, tuple[int, OffsetCommitValue]]


@dataclass(slots=True, kw_only=True)
class DurableGroupState:
    """What the log says of one group. `pending` are offsets by producer, `newest` the numbers of the records that
    stand for their partitions, `pending_records` the last number."""

    metadata: GroupMetadataValue | None
    is_taken_over: bool
    consumer: DurableConsumerGroup | None
    offsets: Mapping[str, Mapping[int, OffsetCommitValue]]
    pending: Mapping[int, NumberedOffsets]
    newest: Mapping[OffsetKey, int]
    pending_records: int


@dataclass(slots=True, kw_only=True)
class SoftGroupState:
    """The soft state of a group. `consumer` has the fields of a consumer group. `loaded_ms`, `transactional`
    and `is_told` describe the origin of its offsets."""

    overrides: Mapping[str, str] | None
    classic: ClassicGroup | None
    consumer: Mapping[str, Any] | None
    awaited: PendingTarget | None
    loaded_ms: int | None
    transactional: set[tuple[str, int]] | None
    is_told: bool


@dataclass(slots=True, kw_only=True)
class ExportedGroup:
    """A group between two inputs."""

    durable: DurableGroupState
    soft: SoftGroupState


_CONSUMER_FIELDS = (
    *("metadata_deadline_ms", "resolved_version", "resolving", "sessions"),
    *("topic_changes", "unresolved_ms", "is_dead"),
)


def get_groups(shard: GroupShard) -> ShardGroups:
    """What a shard holds."""
    return shard._groups


def has_pending(shard: GroupShard, group_id: str, producer_id: int) -> bool:
    """Whether a producer has offsets of a group in its transaction."""
    pending = get_groups(shard).durable.offsets.pending.by_producer
    return any(place[0] == group_id for place in pending.get(producer_id, ()))


def is_empty(shard: GroupShard, group_id: str) -> bool:
    """Return whether a shard has no state of a group.

    A group without members and offsets may still have configs, or a request that waits for a target.
    """
    groups = get_groups(shard)
    found = (groups.by_id, groups.durable, groups.pending_targets, groups.overrides)
    return not any(group_id in one for one in found)


def export_durable(shard: GroupShard, group_id: str) -> DurableGroupState:
    """What the log says of a group. It is still the shard's: write it down before that goes on."""
    durable = get_groups(shard).durable
    pending = durable.offsets.pending
    of_group = {
        producer_id: {place: one for place, one in records.items() if place[0] == group_id}
        for producer_id, records in pending.by_producer.items()
    }
    return DurableGroupState(
        metadata=durable.metadata.find_metadata(group_id),
        is_taken_over=group_id in durable._taken_over,
        consumer=durable.consumers.find_group(group_id),
        offsets=durable.offsets.find_group_offsets(group_id),
        pending={producer_id: records for producer_id, records in of_group.items() if records},
        newest={place: number for place, number in pending._newest.items() if place[0] == group_id},
        pending_records=pending._last_number,
    )


def export_group(shard: GroupShard, group_id: str) -> ExportedGroup:
    """A group. It is still the shard's: write it down before that goes on."""
    groups = get_groups(shard)
    consumer, kinds = groups.find_typed_group(ConsumerGroup, group_id), groups.commit_kinds
    soft = SoftGroupState(
        overrides=groups.overrides.get(group_id),
        classic=groups.find_typed_group(ClassicGroup, group_id),
        consumer=None if consumer is None else {name: getattr(consumer, name) for name in _CONSUMER_FIELDS},
        awaited=groups.pending_targets.get(group_id),
        loaded_ms=kinds._unknown_until_ms.get(group_id),
        transactional=kinds.transactional.get(group_id),
        is_told=kinds.is_mixed(group_id),
    )
    return ExportedGroup(durable=export_durable(shard, group_id), soft=soft)


def list_work(soft: SoftGroupState) -> list[Work]:
    """What is being done for the group somewhere else, in a fixed order."""
    found = [] if soft.awaited is None else [Work(TARGET_WORK, soft.awaited.work)]
    resolving = None if soft.consumer is None else soft.consumer["resolving"]
    return found if resolving is None else [*found, Work(REGEX_WORK, resolving)]


def import_durable(shard: GroupShard, group_id: str, state: DurableGroupState) -> None:
    """Has the log of a shard that knows nothing of the group say this of it."""
    durable = get_groups(shard).durable
    if state.metadata is not None:
        durable.metadata._by_group[group_id] = state.metadata
    if state.consumer is not None:
        durable.consumers.add_group(state.consumer)
    if state.is_taken_over:
        durable._taken_over.add(group_id)
    for topic, partitions in state.offsets.items():
        for partition, value in partitions.items():
            durable.replay(Fact(OffsetCommitKey(group=group_id, topic=topic, partition=partition), value))
    pending, waiting = durable.offsets.pending, durable.offsets._waiting
    for producer_id, records in state.pending.items():
        pending.by_producer[producer_id] = dict(records)
        for place in records:
            pending._producers_by_key.setdefault(place, set()).add(producer_id)
            waiting.set_value(place, None)
    pending._newest.update(state.newest)
    pending._last_number = state.pending_records


def import_group(shard: GroupShard, group_id: str, state: ExportedGroup) -> None:
    """Makes a group in a shard that knows nothing of it."""
    import_durable(shard, group_id, state.durable)
    groups, soft = get_groups(shard), state.soft
    if soft.overrides is not None:
        groups.overrides[group_id] = soft.overrides
    if soft.classic is not None:
        soft.classic.counted_in = None
        groups.add_group(soft.classic)
    if soft.consumer is not None:
        group = groups.create_consumer_group(group_id)
        for name in _CONSUMER_FIELDS:
            setattr(group, name, soft.consumer[name])
    if soft.awaited is not None:
        groups.pending_targets[group_id] = soft.awaited
    if soft.loaded_ms is not None:
        groups.commit_kinds.on_group_loaded(group_id, soft.loaded_ms)
    if soft.transactional is not None:
        groups.commit_kinds.transactional[group_id] = soft.transactional
    if soft.is_told:
        groups.commit_kinds.mark_mixed(group_id)
