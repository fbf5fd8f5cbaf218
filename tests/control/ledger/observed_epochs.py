"""A coordinator of consumer groups that sends its events to a ledger, and the clients of such a group."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from coordinator.control.ledger.ledger_entry import LedgerEntry
from coordinator.control.ledger.rebalance_ledger import RebalanceLedger
from coordinator.control.ledger.rebalance_triggers import LedgerClocks
from coordinator.control.operator_actions import ActionLog
from coordinator.core.outcome import Outcome
from coordinator.group.group_event_types import OffsetsCommitted
from coordinator.group.topics_image import TopicImage, TopicsImage
from protocol.error_codes import ErrorCode
from tests.control.ledger.observed_coordinator import MANY_BYTES, KnownConnections
from tests.group.consumer.members import Members, read_response
from tests.group.coordinator import GROUP

REBALANCE_MS = 60_000
INTERVAL_MS = 1_000
"""Between two targets."""


def topic(name: str, number: int, partitions: int = 6) -> TopicImage:
    """A topic with an id of that number."""
    return TopicImage(name, bytes(15) + bytes([number]), partitions)


ORDERS = topic("orders", 1)


class ObservedEpochs(Members):
    """It has the topic "orders" of six partitions."""

    def __init__(self, *topics: TopicImage, ledger_bytes: int = MANY_BYTES) -> None:
        self._turn = self._number = 0
        self.acts = ActionLog()
        self.topics = TopicsImage(topics or (ORDERS,), version=1)
        self.ledger = RebalanceLedger(
            self.acts,
            KnownConnections(),
            lambda _: None,
            LedgerClocks(lambda _: self.now, lambda: self.now.monotonic_ms * 1_000_000, lambda: self._turn),
            ledger_bytes,
            topics=lambda: self.topics,
        )
        super().__init__(self.topics)

    def take(self, outcome: Outcome) -> None:
        self._turn = self._number
        for event in outcome.events:
            if not isinstance(event, OffsetsCommitted):
                self.ledger.on_event(0, event, self._number, self.now)
            self._number += 1
        super().take(outcome)

    def entries(self, after: int = -1) -> list[LedgerEntry]:
        """Those of the group."""
        return self.ledger.list_entries(GROUP, after, limit=10_000)

    @property
    def last(self) -> LedgerEntry:
        """The newest."""
        return self.entries()[-1]

    def settle(self, *clients: "Client") -> None:
        """Everybody sends heartbeats until all have their target."""
        for _ in range(20):
            for client in clients:
                client.step(self)
            if self.epochs()[0] == "Stable":
                return
            self.advance(INTERVAL_MS)
        raise AssertionError(self.described())


@dataclass
class Client:
    """A member of the consumer protocol. `owned` is by topic id. It revokes partitions at once, unless it
    `keeps` them."""

    name: str
    names: Sequence[str] | None = ("orders",)
    regex: str | None = None
    instance: str | None = None
    assignor: str | None = None
    member_id: str = ""
    keeps: bool = False
    epoch: int = 0
    owned: Mapping[bytes, Sequence[int]] = field(default_factory=dict)

    def step(self, group: Members) -> None:
        """Send a full heartbeat."""
        self.member_id = self.member_id or f"{self.name}-id"
        epoch, given = read_response(
            group.beat(
                self.member_id,
                self.epoch,
                names=self.names,
                regex=self.regex,
                owned=self.owned,
                instance=self.instance,
                assignor=self.assignor,
                rebalance=REBALANCE_MS,
                client_id=self.name,
            )
        )
        assert isinstance(epoch, int), (self, epoch, given)
        assert not isinstance(epoch, ErrorCode), (self, epoch, given)
        self.epoch = epoch
        if isinstance(given, dict) and not self.keeps:
            self.owned = given

    def leave(self, group: Members, epoch: int = -1) -> None:
        """Leave with a heartbeat of this epoch."""
        group.beat(self.member_id, epoch, instance=self.instance, client_id=self.name)
