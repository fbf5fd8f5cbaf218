"""One group cut out of its shard, and put into an empty one: what the shard answers for it depends on nothing else.

A group touches the others of its shard nowhere. What it shares with them is the config, the topics, and one
request or timer now and then that is about many groups (`inputs.py`). The rest of a shard is kept by group id, the
log's half as the soft one; offsets that wait for the end of a transaction are kept by producer, each with a number
that says what came before what, and the number is kept too.

The log's half is not read from records: the order in which Kafka goes through the members of a consumer group
depends on how many there ever were, and of a load that is forgotten.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.consumer.awaited_target import AwaitedTarget
from coordinator.group.consumer.durable_group import DurableConsumerGroup
from coordinator.group.consumer.regular_expressions import REGEX_WORK
from coordinator.group.consumer.target import TARGET_WORK
from coordinator.group.groups import Groups
from coordinator.group.offsets.offset_map import Place
from coordinator.group.shard import Shard
from coordinator.machine.outcome import Fact, Work
from protocol.records import GroupMetadataValue, OffsetCommitKey, OffsetCommitValue

Numbered = Mapping[Place, tuple[int, OffsetCommitValue]]


@dataclass(slots=True, kw_only=True)
class DurableCut:
    """What the log says of one group. `pending` are offsets by producer, `newest` the numbers of the records that
    stand for their partitions, `pending_records` the last number."""

    metadata: GroupMetadataValue | None
    is_taken_over: bool
    consumer: DurableConsumerGroup | None
    offsets: Mapping[str, Mapping[int, OffsetCommitValue]]
    pending: Mapping[int, Numbered]
    newest: Mapping[Place, int]
    pending_records: int


@dataclass(slots=True, kw_only=True)
class SoftCut:
    """The rest. `consumer` has the fields of a group of the consumer protocol; `loaded_ms`, `transactional` and
    `is_told` are what is known of how its offsets came."""

    overrides: Mapping[str, str] | None
    classic: ClassicGroup | None
    consumer: Mapping[str, Any] | None
    awaited: AwaitedTarget | None
    loaded_ms: int | None
    transactional: set[tuple[str, int]] | None
    is_told: bool


@dataclass(slots=True, kw_only=True)
class Cut:
    """A group between two inputs."""

    durable: DurableCut
    soft: SoftCut


_CONSUMER_FIELDS = (
    *("metadata_deadline_ms", "resolved_version", "resolving", "sessions"),
    *("topic_changes", "unresolved_ms", "is_dead"),
)


def groups_of(shard: Shard) -> Groups:
    """What a shard holds."""
    return shard._groups


def has_pending(shard: Shard, group_id: str, producer_id: int) -> bool:
    """Whether a producer has offsets of a group in its transaction."""
    pending = groups_of(shard).durable.offsets.pending.by_producer
    return any(place[0] == group_id for place in pending.get(producer_id, ()))


def is_empty(shard: Shard, group_id: str) -> bool:
    """Whether a shard knows nothing of a group: of one that has neither members nor offsets yet, somebody may wait
    for a target, and it may have configs."""
    groups = groups_of(shard)
    found = (groups.by_id, groups.durable, groups.targets, groups.overrides)
    return not any(group_id in one for one in found)


def cut_durable(shard: Shard, group_id: str) -> DurableCut:
    """What the log says of a group. It is still the shard's: write it down before that goes on."""
    durable = groups_of(shard).durable
    pending = durable.offsets.pending
    of_group = {
        producer_id: {place: one for place, one in records.items() if place[0] == group_id}
        for producer_id, records in pending.by_producer.items()
    }
    return DurableCut(
        metadata=durable.metadata.get(group_id),
        is_taken_over=group_id in durable._taken_over,
        consumer=durable.consumers.get(group_id),
        offsets=durable.offsets.of_group(group_id),
        pending={producer_id: records for producer_id, records in of_group.items() if records},
        newest={place: number for place, number in pending._newest.items() if place[0] == group_id},
        pending_records=pending._records,
    )


def cut(shard: Shard, group_id: str) -> Cut:
    """A group. It is still the shard's: write it down before that goes on."""
    groups = groups_of(shard)
    consumer, kinds = groups.consumers.get(group_id), groups.commit_kinds
    soft = SoftCut(
        overrides=groups.overrides.get(group_id),
        classic=groups.find_classic(group_id),
        consumer=None if consumer is None else {name: getattr(consumer, name) for name in _CONSUMER_FIELDS},
        awaited=groups.targets.get(group_id),
        loaded_ms=kinds._unknown_until_ms.get(group_id),
        transactional=kinds.transactional.get(group_id),
        is_told=kinds.is_told(group_id),
    )
    return Cut(durable=cut_durable(shard, group_id), soft=soft)


def works_of(soft: SoftCut) -> list[Work]:
    """What is being done for the group somewhere else, in a fixed order."""
    found = [] if soft.awaited is None else [Work(TARGET_WORK, soft.awaited.work)]
    resolving = None if soft.consumer is None else soft.consumer["resolving"]
    return found if resolving is None else [*found, Work(REGEX_WORK, resolving)]


def put_durable(shard: Shard, group_id: str, what: DurableCut) -> None:
    """Has the log of a shard that knows nothing of the group say this of it."""
    durable = groups_of(shard).durable
    if what.metadata is not None:
        durable.metadata._by_group[group_id] = what.metadata
    if what.consumer is not None:
        durable.consumers.by_group[group_id] = what.consumer
    if what.is_taken_over:
        durable._taken_over.add(group_id)
    for topic, partitions in what.offsets.items():
        for partition, value in partitions.items():
            durable.replay(Fact(OffsetCommitKey(group=group_id, topic=topic, partition=partition), value))
    pending, waiting = durable.offsets.pending, durable.offsets._waiting
    for producer_id, records in what.pending.items():
        pending.by_producer[producer_id] = dict(records)
        for place in records:
            pending._producers_of.setdefault(place, set()).add(producer_id)
            waiting.put(place, None)
    pending._newest.update(what.newest)
    pending._records = what.pending_records


def put(shard: Shard, group_id: str, what: Cut) -> None:
    """Makes a group in a shard that knows nothing of it."""
    put_durable(shard, group_id, what.durable)
    groups, soft = groups_of(shard), what.soft
    if soft.overrides is not None:
        groups.overrides[group_id] = soft.overrides
    if soft.classic is not None:
        soft.classic.counted_in = None
        groups.add_classic(soft.classic)
    if soft.consumer is not None:
        group = groups.add_consumer(group_id)
        for name in _CONSUMER_FIELDS:
            setattr(group, name, soft.consumer[name])
    if soft.awaited is not None:
        groups.targets[group_id] = soft.awaited
    if soft.loaded_ms is not None:
        groups.commit_kinds.loaded(group_id, soft.loaded_ms)
    if soft.transactional is not None:
        groups.commit_kinds.transactional[group_id] = soft.transactional
    if soft.is_told:
        groups.commit_kinds.told(group_id)
