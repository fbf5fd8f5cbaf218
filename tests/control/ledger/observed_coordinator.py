"""A coordinator that sends its events to a ledger, a stream and the metrics, with members by short names.

It has a topic "orders" of six partitions; the first member leads and gives each its part.
"""

from collections.abc import Sequence

from coordinator.broker.broker_metrics import BrokerMetrics
from coordinator.control.event_stream import EventStream
from coordinator.control.ledger.ledger_entry import LedgerEntry, MemberTimeline
from coordinator.control.ledger.rebalance_ledger import RebalanceLedger
from coordinator.control.ledger.rebalance_triggers import LedgerClocks
from coordinator.control.operator_actions import ActionLog
from coordinator.core import clock
from coordinator.core.outcome import Outcome
from coordinator.group.classic.classic_group import ClassicGroup
from coordinator.group.group_config import GroupConfig
from coordinator.group.group_event_types import OffsetsCommitted
from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
    encode_assignment,
    encode_subscription,
)
from protocol.error_codes import ErrorCode
from tests.group.config import group_config
from tests.group.coordinator import GROUP, Coordinator

TOPIC = "orders"
PARTITIONS = 6
MANY_BYTES = 1 << 30
SUBSCRIPTION = encode_subscription(ConsumerProtocolSubscription(topics=[TOPIC]), 1)
RANGE = (("range", SUBSCRIPTION),)
CLOSED_MS = 305
HEARD_MS = 2310
SESSION_MS = 10_000


class KnownConnections:
    """Every connection has been closed for so long, and nothing came over it for so long."""

    def silent_ms(self, connection_id: int) -> int | None:
        return HEARD_MS

    def connection_closed_ms_ago(self, connection_id: int) -> int | None:
        return CLOSED_MS


def assignment(*partitions: int, topic: str = TOPIC) -> bytes:
    """Bytes that assign these partitions."""
    owned = [TopicPartitions(topic=topic, partitions=list(partitions))]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=owned), 1)


class ObservedCoordinator(Coordinator):
    """`member_ids` are by short name, the leader first. `generation` is the last one that `form` completed."""

    def __init__(
        self,
        config: GroupConfig | None = None,
        ledger_bytes: int = MANY_BYTES,
        stream: EventStream | None = None,
        *,
        is_moved: bool = False,
    ) -> None:
        """Create a coordinator with a ledger. With `is_moved` time passes by clock advances instead of the
        process's clock.
        """
        self.acts = ActionLog()
        self.ledger = RebalanceLedger(
            self.acts,
            KnownConnections(),
            lambda topic: PARTITIONS if topic == TOPIC else None,
            LedgerClocks(
                lambda _: self.now,
                clock.monotonic_ns if is_moved else lambda: self.now.monotonic_ms * 1_000_000,
                lambda: self._turn,
            ),
            ledger_bytes,
        )
        self.stream = stream or EventStream()
        self.metrics = BrokerMetrics()
        self.member_ids: dict[str, str] = {}
        self.instances: dict[str, str | None] = {}
        self.generation = 0
        self.subscriptions: dict[str, bytes] = {}
        self._number = self._turn = 0
        super().__init__(config or group_config(group_initial_rebalance_delay_ms=0))

    def take(self, outcome: Outcome) -> None:
        self._turn = self._number
        for event in outcome.events:
            self.metrics.count_event(event)
            if not isinstance(event, OffsetsCommitted):
                self.ledger.on_event(0, event, self._number, self.now)
                self.stream.on_event(0, event, self._number, self.now)
            self._number += 1
        super().take(outcome)

    # Members

    def come(self, name: str, *, instance: str | None = None) -> None:
        """A member joins, or a static one is restarted."""
        ask = self.join(version=3, instance=instance, client_id=name, protocols=self._protocols(name))
        members = self.describe().members
        self.member_ids[name] = members[-1].member_id if ask.is_parked else ask.joined.member_id
        if instance is not None:
            found = [member for member in members if member.group_instance_id == instance]
            self.member_ids[name] = found[0].member_id
        self.instances[name] = instance

    def rejoin(self, *names: str) -> None:
        """Members join again, with the ids that they have."""
        for name in names:
            self.join(
                self.member_ids[name],
                instance=self.instances[name],
                client_id=name,
                protocols=self._protocols(name),
            )

    def beat(self, *names: str) -> list[ErrorCode]:
        """Members send heartbeats."""
        return [
            self.heartbeat(self.member_ids[name], self.generation_now, instance=self.instances[name])
            for name in names
        ]

    def ask(self, *names: str) -> None:
        """Members ask for their assignment; the leader does not bring it."""
        for name in names:
            self.sync(self.member_ids[name], self.generation_now, instance=self.instances[name])

    def lead(self, assigned: dict[str, bytes] | None = None) -> None:
        """Let the leader assign: the given bytes, or a part to each member."""
        leader = self.leader
        if assigned is None:
            names = list(self.member_ids)
            assigned = {
                name: assignment(*range(number, PARTITIONS, len(names))) for number, name in enumerate(names)
            }
        by_id = {self.member_ids[name]: data for name, data in assigned.items()}
        self.sync(self.member_ids[leader], self.generation_now, by_id, instance=self.instances[leader])

    def part(self, name: str) -> None:
        """Forget a member that has left or expired."""
        del self.member_ids[name], self.instances[name]

    @property
    def generation_now(self) -> int:
        """That of the group."""
        group = self.shard._groups.by_id.get(GROUP)
        return 0 if group is None else group.generation_id

    @property
    def classic_group(self) -> ClassicGroup:
        """The group, which exists."""
        group = self.shard._groups.find_typed_group(ClassicGroup, GROUP)
        assert group is not None, GROUP
        return group

    @property
    def leader(self) -> str:
        """The short name of the leader."""
        leader_id = self.classic_group.leader_id
        return next(name for name, member_id in self.member_ids.items() if member_id == leader_id)

    def settle(self) -> None:
        """Everyone rejoins if that is awaited, and gets its assignment."""
        if self.state() == "PreparingRebalance":
            waiting = [member.member_id for member in self.classic_group.members.values()
                       if not member.is_awaiting_join]  # fmt: skip
            names = [name for name, member_id in self.member_ids.items() if member_id in waiting]
            self.beat(*names)
            self.rejoin(*names)
            self.advance(0)
        if self.state() == "CompletingRebalance":
            leader = self.leader
            self.ask(*(name for name in self.member_ids if name != leader))
            self.lead()
        assert self.state() in ("Stable", "Empty"), self.state()

    def formed(self, *names: str) -> None:
        """A Stable group of these dynamic members."""
        for name in names:
            self.come(name)
            self.settle()

    def pass_with_heartbeats(self, duration_ms: int, *names: str, step_ms: int = 3_000) -> None:
        """Time passes, in which these members send heartbeats."""
        while duration_ms > 0:
            self.beat(*names)
            self.advance(min(step_ms, duration_ms))
            duration_ms -= step_ms

    def _protocols(self, name: str) -> Sequence[tuple[str, bytes]]:
        return [("range", self.subscriptions.get(name, SUBSCRIPTION))]

    # What the ledger says

    @property
    def entries(self) -> list[LedgerEntry]:
        return self.ledger.list_entries(GROUP, limit=10_000)

    @property
    def last(self) -> LedgerEntry:
        return self.entries[-1]


def story_of(entry: LedgerEntry, client_id: str) -> MemberTimeline:
    """Return the part of an entry about the member of a client."""
    (story,) = [story for story in entry.members if story.client_id == client_id]
    return story


def with_bob_dead(group: ObservedCoordinator) -> ObservedCoordinator:
    """Alice (the leader), bob and carol have two partitions each; bob has died and is found out just now."""
    group.formed("alice", "bob", "carol")
    group.lead()
    group.beat("bob")
    for _ in range(4):
        group.beat("alice", "carol")
        group.advance(SESSION_MS // 4)
    group.part("bob")
    return group
