"""A consumer group in service: what the log says of it, and what is soft beside that (deadlines, work under way).

Source: Kafka's `ConsumerGroup`.
"""

from dataclasses import dataclass
from typing import Final

from coordinator.group.consumer.durable_group import DurableConsumerGroup
from coordinator.group.consumer.events import TopicChange
from coordinator.group.consumer.state import ConsumerGroupState, state_of
from coordinator.group.consumer.store import ConsumerGroupStore

NEVER: Final = -(2**63)
METADATA_LASTS_MS: Final = 2**31 - 1
"""Until the topics are looked at again by themselves."""


@dataclass(slots=True)
class Session:
    """Of one member, in monotonic time. `deadline_ms` is when it counts as lost unless it is heard before;
    `timer_ms` is when the timer outside fires, which may be earlier: a heartbeat moves only the former. `heard_ms`
    is when it was heard last, which gave it `timeout_ms`; who keeps it alive may have moved its deadline further.
    `rebalance_ms` is until when it has to give its partitions up, None where it has none
    to give up, and `rebalance_epoch` its epoch when that began. `join_ms` and `sync_ms` are until when a member of
    the classic protocol has to join again, and to ask for its assignment, None where it has not to. `connection_id`
    is the one over which it was heard last, 0 when that was before a restart."""

    heard_ms: int
    deadline_ms: int
    timeout_ms: int = 0
    timer_ms: int | None = None
    rebalance_ms: int | None = None
    rebalance_epoch: int = 0
    rebalance_timeout_ms: int = 0
    join_ms: int | None = None
    sync_ms: int | None = None
    connection_id: int = 0


class ConsumerGroup:
    """The soft half, beside what the store has of it. `metadata_deadline_ms` (monotonic) is when the topics are to
    be looked at again; `sessions` has every member; `resolving` is the work, while its expressions are held against
    the topics somewhere else, `resolved_version` the version of the topics against which they were held last, 0
    where that was before a load, and `unresolved_ms` (wall) when that came to nothing last. `topic_changes` is what
    has happened to its topics since they were looked at."""

    __slots__ = (
        "_store",
        "group_id",
        "is_dead",
        "metadata_deadline_ms",
        "resolved_version",
        "resolving",
        "sessions",
        "topic_changes",
        "unresolved_ms",
    )

    def __init__(self, group_id: str, store: ConsumerGroupStore) -> None:
        self.group_id = group_id
        self._store = store
        self.metadata_deadline_ms = NEVER
        self.sessions: dict[str, Session] = {}
        self.resolving: object | None = None
        self.resolved_version = 0
        self.unresolved_ms = NEVER
        self.topic_changes: dict[str, TopicChange] = {}
        self.is_dead = False

    @property
    def durable(self) -> DurableConsumerGroup:
        """What the log says of it. Between two records of a turn that may be nothing: a member that subscribed to
        nothing can be all that there is."""
        durable = self._store.by_group.get(self.group_id)
        return DurableConsumerGroup(self.group_id) if durable is None else durable

    @property
    def state(self) -> ConsumerGroupState:
        """One of the five."""
        return ConsumerGroupState.DEAD if self.is_dead else state_of(self.durable)

    @property
    def state_name(self) -> str:
        """Its state, as ListGroups and ConsumerGroupDescribe call it."""
        return self.state.value

    @property
    def generation_id(self) -> int:
        """Its epoch."""
        return self.durable.epoch

    def topics_seen(self, now_ms: int) -> None:
        """Its topics have just been looked at (monotonic)."""
        self.metadata_deadline_ms = now_ms + METADATA_LASTS_MS
        self.topic_changes.clear()

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.durable.members

    def holder_of(self, group_instance_id: str) -> str | None:
        """The id of the static member that has this instance id; None when there is none."""
        return self.durable.static_members.get(group_instance_id)
