"""Clients that follow the group protocol by themselves, one request at a time and always in the same order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from protocol.error_codes import ErrorCode
from protocol.messages.join_group import JoinGroupResponse
from tests.group.ask import Ask
from tests.group.consumer.members import Members, read_response


@dataclass
class ConsumerClient:
    """A client of the consumer protocol. It revokes lost partitions at once; `owned` is by topic id."""

    member_id: str
    names: Sequence[str] | None = ("foo",)
    regex: str | None = None
    instance: str | None = None
    epoch: int = 0
    owned: Mapping[bytes, Sequence[int]] = field(default_factory=dict)

    def step(self, group: Members) -> None:
        """Send a full heartbeat."""
        ask = group.beat(
            self.member_id,
            self.epoch,
            names=self.names,
            regex=self.regex,
            owned=self.owned,
            instance=self.instance,
            rebalance=60_000,
        )
        epoch, given = read_response(ask)
        if isinstance(epoch, ErrorCode):
            assert epoch in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH), given
            self.epoch, self.owned = 0, {}
            return
        assert isinstance(epoch, int)
        self.epoch = epoch
        if isinstance(given, dict):
            self.owned = given

    def leave(self, group: Members, epoch: int = -1) -> None:
        """Send a leave heartbeat; a removed member gets an error."""
        group.beat(self.member_id, epoch, instance=self.instance)


@dataclass
class ClassicClient:
    """A client of the classic protocol. It keeps its partitions while it rejoins, and assigns them as leader."""

    member_id: str = ""
    names: Sequence[str] = ("foo",)
    partitions: int = 3
    generation: int = -1
    owned: Sequence[int] = ()
    joining: Ask | None = None
    joined: JoinGroupResponse | None = None

    def step(self, group: Members) -> None:
        """Send one request or handle the previous response."""
        if self.joining is None and self.joined is None:
            error = ErrorCode.REBALANCE_IN_PROGRESS
            if self.generation >= 0:
                error = group.heartbeat(self.member_id, self.generation)
            if error is ErrorCode.REBALANCE_IN_PROGRESS:
                self._join(group)
            elif error is not ErrorCode.NONE:
                self._forget(error)
        if self.joining is not None and not self.joining.is_parked:
            answer, self.joining = self.joining, None
            if answer.error is ErrorCode.NONE:
                self.joined = answer.joined
                self.member_id, self.generation = self.joined.member_id, self.joined.generation_id
            elif answer.error is not ErrorCode.REBALANCE_IN_PROGRESS:
                self._forget(answer.error)
        if self.joined is not None:
            self._sync(group, self.joined)

    def lose_connection(self) -> None:
        """Drop the pending request, which gets no response."""
        self.joining = None

    def _join(self, group: Members) -> None:
        owned = [TopicPartitions(topic="foo", partitions=list(self.owned))]
        subscription = ConsumerProtocolSubscription(topics=list(self.names), owned_partitions=owned)
        protocols = [("range", encode_subscription(subscription, 1))]
        ask = group.join(self.member_id, protocols=protocols)
        if not ask.is_parked and ask.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = ask.joined.member_id
            ask = group.join(self.member_id, protocols=protocols)
        self.joining = ask

    def _sync(self, group: Members, joined: JoinGroupResponse) -> None:
        members = [one.member_id for one in joined.members]
        ask = group.sync(self.member_id, self.generation, self._deal(members))
        if ask.is_parked:
            return
        self.joined = None
        if ask.error is ErrorCode.NONE:
            topics = decode_assignment(ask.synced.assignment).assigned_partitions
            self.owned = [number for topic in topics for number in topic.partitions]
        elif ask.error is ErrorCode.REBALANCE_IN_PROGRESS:
            self._join(group)
        else:
            self._forget(ask.error)

    def _forget(self, error: ErrorCode) -> None:
        self.generation, self.owned = -1, ()
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""

    def _deal(self, members: Sequence[str]) -> dict[str, bytes]:
        dealt: dict[str, bytes] = {}
        for at, member_id in enumerate(members):
            numbers = list(range(at, self.partitions, len(members)))
            assigned = [TopicPartitions(topic="foo", partitions=numbers)]
            dealt[member_id] = encode_assignment(ConsumerProtocolAssignment(assigned_partitions=assigned), 1)
        return dealt
