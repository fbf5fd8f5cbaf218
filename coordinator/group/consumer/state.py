"""The states of a consumer group, which follow from its members. Source: Kafka's `ConsumerGroupState`."""

from enum import Enum

from coordinator.group.consumer.durable_group import DurableConsumerGroup


class ConsumerGroupState(Enum):
    """A state; its value is the name that ListGroups and ConsumerGroupDescribe give it."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """Its epoch is ahead of its target's."""
    RECONCILING = "Reconciling"
    """Members are on their way to the target."""
    STABLE = "Stable"
    DEAD = "Dead"
    """Coordinated elsewhere, or removed; nobody is told."""


def state_of(group: DurableConsumerGroup) -> ConsumerGroupState:
    """The state of a group that is served."""
    if not group.members:
        return ConsumerGroupState.EMPTY
    if group.epoch > group.assignment_epoch:
        return ConsumerGroupState.ASSIGNING
    return ConsumerGroupState.STABLE if group.is_reconciled else ConsumerGroupState.RECONCILING
