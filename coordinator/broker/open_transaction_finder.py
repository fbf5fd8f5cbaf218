"""Finds the open transactions in the partitions of a server, with or without a coordinator."""

from collections.abc import Iterator
from typing import NamedTuple

from coordinator.group.group_shard import GroupShard
from coordinator.runtime.runtime import Runtime
from coordinator.topics.data_plane import DataPlane
from storage.producers.producer_state import ProducerState
from storage.topic_partition import TopicPartition


class OpenTransaction(NamedTuple):
    """An open transaction in a partition."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    first_offset: int


def find_open_transactions(data_plane: DataPlane, groups: Runtime[GroupShard]) -> list[OpenTransaction]:
    """Return the open transactions of all partitions."""
    found: list[OpenTransaction] = []
    for hosted in data_plane.catalogue.iterate_hosted():
        if hosted.producers is not None:
            found += _iterate_open(hosted.name, hosted.producers.state)
    for partition in groups.partitions:
        if partition.producers is not None:
            found += _iterate_open(partition.name, partition.producers.state)
    return found


def _iterate_open(partition: TopicPartition, state: ProducerState) -> Iterator[OpenTransaction]:
    for producer_id, first_offset in state.open_transactions.items():
        entry = state.find_entry(producer_id)
        assert entry is not None, producer_id
        yield OpenTransaction(
            partition, producer_id, entry.epoch, max(0, entry.coordinator_epoch), first_offset
        )
