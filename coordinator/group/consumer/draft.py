"""What a heartbeat, or a classic JoinGroup, comes to, until it is written."""

from dataclasses import dataclass, field

from coordinator.group.consumer.durable_group import DurableConsumerGroup
from coordinator.group.events import Event
from coordinator.machine.outcome import Fact


@dataclass(slots=True)
class Draft:
    """What a heartbeat comes to, until it is written. `epoch` is the group's; `topics_seen` says that its topics
    were looked at."""

    group: DurableConsumerGroup
    epoch: int
    metadata_hash: int
    is_homogeneous: bool | None = None
    topics_seen: bool = False
    facts: list[Fact] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
