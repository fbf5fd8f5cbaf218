"""Group members that behave as Kafka's clients do: members of the consumer protocol and of the classic protocol.

Each member tracks its partitions and treats them as owned until it revokes them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from uuid import UUID

from protocol.consumer_protocol import (
    ConsumerProtocolSubscription,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.sync_group import SyncGroupRequestAssignment
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.simulation.client import (
    REQUEST_TIMEOUT_MS,
    RETRY_MS,
    Client,
    Settings,
    commit_request,
    error_of,
)
from tests.simulation.consumers.topics import Topics
from tests.simulation.network import Receiver, Weather
from tests.simulation.world import World

Owned: TypeAlias = frozenset[tuple[bytes, int]]
HEARTBEAT_MS: Final = 1_500
COMMIT_VERSION: Final = 9
TXN_COMMIT_VERSION: Final = 5
IN_TRANSACTION: Final = 0.3
"""The share of commits in transactions."""
OWNED_VERSION: Final = 1
"""The subscription version that introduced owned partitions."""
_ABANDON: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)


@dataclass
class MemberSettings(Settings):
    """The configuration of a member. `speaks_classic`: it uses the classic protocol; `is_cooperative`: it then
    keeps its partitions while it rejoins. `regex` and `assignor` are for the consumer protocol. `lag_ms` is the
    time until it revokes partitions.
    """

    speaks_classic: bool = False
    is_cooperative: bool = False
    regex: str | None = None
    assignor: str | None = None
    lag_ms: int = 0


class Member(Client):
    """A group member of either protocol.

    `owns` holds the partitions that the member treats as its own. The member calls `grown` when `owns` grows.
    """

    settings: MemberSettings

    def __init__(
        self,
        world: World,
        far: Receiver,
        weather: Weather,
        name: str,
        settings: MemberSettings,
        ended: Callable[[Client], None],
        topics: Topics,
        grown: Callable[["Member"], None],
    ) -> None:
        self.topics = topics
        self.grown = grown
        super().__init__(world, far, weather, name, settings, ended)

    @property
    def partitions(self) -> Mapping[str, int]:
        return self.topics.counts

    @property
    def owns(self) -> Owned:
        """Partitions by topic id."""
        raise NotImplementedError

    def commit_in_transaction(self, place: tuple[str, int]) -> None:
        """Commit the next offset of a partition in a transaction that soon ends in a commit or an abort."""
        topic, number = place
        producer_id = self.world.new_value()
        offset = TxnOffsetCommitRequestPartition(
            partition_index=number, committed_offset=self.world.new_value(), committed_metadata=""
        )
        request = TxnOffsetCommitRequest(
            transactional_id=f"t{producer_id}",
            group_id=self.settings.group_id,
            producer_id=producer_id,
            producer_epoch=0,
            generation_id_or_member_epoch=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.settings.group_instance_id,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[offset])],
        )

        def end(response: Any) -> None:
            topics = getattr(response, "topics", [])
            is_accepted = bool(topics) and topics[0].partitions[0].error_code == ErrorCode.NONE
            is_committed = is_accepted and self.world.chance(0.8)
            far: Any = self._far
            delay_ms = self.world.random.choice([0, 100, 2_000])
            self.world.after(delay_ms, lambda: far.end_transaction(producer_id, is_committed))

        self.call(request, TXN_COMMIT_VERSION, end, REQUEST_TIMEOUT_MS)

    def agree(self) -> None:
        """Adopt the assignor of all other members.

        With a tied vote, a group may start a new epoch at every heartbeat, as in Kafka.
        """

    def may_repeat(self, message: Any) -> bool:
        return not isinstance(message, JoinGroupRequest | ConsumerGroupHeartbeatRequest)


class ClassicMember(Member):
    """A member that revokes all partitions before each rejoin (eager protocol).

    It omits recreated topics from its owned partitions, because a name cannot identify one of several topics.
    """

    @property
    def owns(self) -> Owned:
        by_name, reborn = self.topics.image.by_name, self.topics.reborn
        return frozenset(
            (by_name[name].topic_id, number)
            for name, number in self.assigned
            if name in by_name and name not in reborn
        )

    def join(self, forget_id: bool = False) -> None:
        self.assigned = []
        super().join(forget_id)

    def _commit(self) -> None:
        if self.assigned and self.world.chance(IN_TRANSACTION):
            self.commit_in_transaction(self.world.random.choice(self.assigned))
            self._later(self.world.random.randint(100, 3_000), self._commit)
        else:
            super()._commit()

    def _assign(self, response: Any) -> list[SyncGroupRequestAssignment]:
        """Assign a partition only after its previous owner has revoked it."""
        owners = {
            (topic.topic, number): member.member_id
            for member in response.members
            for topic in decode_subscription(member.metadata).owned_partitions
            for number in topic.partitions
        }
        assignments = super()._assign(response)
        for one in assignments:
            assignment = decode_assignment(one.assignment)
            for topic in assignment.assigned_partitions:
                topic.partitions = [
                    number
                    for number in topic.partitions
                    if owners.get((topic.topic, number), one.member_id) == one.member_id
                ]
            one.assignment = encode_assignment(assignment, 1)
        return assignments

    def _on_sync(self, response: Any) -> None:
        super()._on_sync(response)
        self.grown(self)


class CooperativeMember(ClassicMember):
    """A member that keeps its partitions while it rejoins (cooperative protocol).

    It reports them as owned, revokes the partitions missing from its assignment, and rejoins to release them.
    """

    def subscription(self) -> bytes:
        numbers: dict[str, list[int]] = {}
        for topic, number in self.assigned:
            numbers.setdefault(topic, []).append(number)
        owned = [TopicPartitions(topic=topic, partitions=numbers[topic]) for topic in numbers]
        topics = self.settings.topics
        return encode_subscription(
            ConsumerProtocolSubscription(topics=topics, owned_partitions=owned), OWNED_VERSION
        )

    def join(self, forget_id: bool = False) -> None:
        if forget_id:
            self.assigned = []
        Client.join(self, forget_id)

    def _rejoin_after(self, error: ErrorCode) -> None:
        if error not in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NOT_COORDINATOR):
            self.assigned = []
        super()._rejoin_after(error)

    def _on_sync(self, response: Any) -> None:
        had = set(self.assigned)
        super()._on_sync(response)
        if self.stable and had - set(self.assigned):
            self.join()


class ConsumerMember(Member):
    """A member of the consumer protocol: a heartbeat carries its id and partitions and returns its assignment."""

    def __init__(self, world: World, *rest: Any) -> None:
        self._owned: Owned = frozenset()
        self._given: Owned = frozenset()
        self._said: Owned | None = None
        self._says_all = True
        self._uuid = UUID(int=world.new_value())
        super().__init__(world, *rest)
        self._commit()

    @property
    def owns(self) -> Owned:
        return self._owned

    def join(self, forget_id: bool = False) -> None:
        self.member_id = str(self._uuid)
        self._abandon()
        self._beat()

    def _abandon(self) -> None:
        self.generation_id = 0
        self._owned = self._given = frozenset()
        self._says_all = True

    # --- heartbeats

    def _beat(self) -> None:
        if not self.alive:
            return
        self._life += 1
        settings = self.settings
        request = ConsumerGroupHeartbeatRequest(
            group_id=settings.group_id,
            member_id=self.member_id,
            member_epoch=self.generation_id,
            instance_id=settings.group_instance_id,
        )
        if self._says_all:
            request.rebalance_timeout_ms = settings.rebalance_timeout_ms
            request.subscribed_topic_names = [] if settings.regex is not None else settings.topics
            request.subscribed_topic_regex = settings.regex or ""
            request.server_assignor = settings.assignor
        if self._says_all or self._owned != self._said:
            numbers: dict[bytes, list[int]] = {}
            for topic_id, number in sorted(self._owned):
                numbers.setdefault(topic_id, []).append(number)
            request.topic_partitions = [
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in numbers.items()
            ]
        self._said, self._says_all = self._owned, False
        self._ask(request, 1, self._on_beat, REQUEST_TIMEOUT_MS)

    def _on_beat(self, response: Any) -> None:
        error = error_of(response)
        if error is ErrorCode.NOT_COORDINATOR:
            self._says_all = True
            self._later(RETRY_MS, self._beat)
        elif error in _ABANDON:
            self.world.say(self.name, f"abandons all: {error.name}")
            self._abandon()
            self._later(RETRY_MS, self._beat)
        elif error is not ErrorCode.NONE:
            self.world.say(self.name, f"gives up: {error.name} {response.error_message}")
            self.alive = False
            self._ended(self)
        else:
            self.generation_id = response.member_epoch
            if response.assignment is not None:
                self._take(
                    frozenset(
                        (topic.topic_id, number)
                        for topic in response.assignment.topic_partitions
                        for number in topic.partitions
                    )
                )
            self._later(HEARTBEAT_MS, self._beat)

    def _take(self, given: Owned) -> None:
        """Take new partitions at once and revoke the others after a delay."""
        has_more = bool(given - self._owned)
        self._given = given
        self._owned |= given
        self.world.say(self.name, f"has {len(self._owned)}, {len(self._owned - given)} to give up")
        if has_more:
            self.grown(self)
        if self._owned != given or has_more:
            lag_ms = self.settings.lag_ms if self._owned != given else 0
            self.world.after(lag_ms, self._reconcile)

    def _reconcile(self) -> None:
        if self.alive and (self._owned != self._given or self._owned != self._said):
            self._owned = self._given
            self._beat()

    # --- the rest

    def _commit(self) -> None:
        if not self.alive:
            return
        names = {
            topic_id: self.topics.image.by_id[topic_id].name
            for topic_id, _ in self._owned
            if topic_id in self.topics.image.by_id
        }
        places = [(names[topic_id], number) for topic_id, number in sorted(self._owned) if topic_id in names]
        if places and self.generation_id > 0:
            topic, number = self.world.random.choice(places)
            self.assigned = [(topic, number)]
            if self.world.chance(IN_TRANSACTION):
                self.commit_in_transaction((topic, number))
            request = commit_request(self.settings.group_id, [(topic, number, self.world.new_value())])
            request.generation_id_or_member_epoch = self.generation_id
            request.member_id = self.member_id
            request.group_instance_id = self.settings.group_instance_id
            self.call(request, COMMIT_VERSION, lambda _: None, REQUEST_TIMEOUT_MS)
            if self.world.chance(0.3):
                self.fetch()
        self.world.after(self.world.random.randint(300, 3_000), self._commit)

    def subscribe(self, topics: list[str]) -> None:
        self.world.say(self.name, f"subscribes to {', '.join(topics)}")
        self.settings.topics, self.settings.regex = topics, None
        self._says_all = True

    def agree(self) -> None:
        if self.settings.assignor is not None:
            self.settings.assignor, self._says_all = "uniform", True

    def leave(self) -> None:
        """Leave the group; a static member mostly leaves temporarily."""
        self.world.say(self.name, "closes")
        is_static = self.settings.group_instance_id is not None
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.settings.group_id,
            member_id=self.member_id,
            member_epoch=-2 if is_static and self.world.chance(0.7) else -1,
            instance_id=self.settings.group_instance_id,
        )
        self.call(request, 1, lambda _: None, REQUEST_TIMEOUT_MS)
        self.alive = False
