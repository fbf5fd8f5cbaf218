"""A consumer that behaves as Kafka's clients do: join in two steps, sync, heartbeat, commit, rejoin on request."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from protocol.codec import encode
from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from protocol.error_codes import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.simulation.network import Connection, Receiver, Request, Weather
from tests.simulation.world import World

PARTITIONS: Final = {"orders": 4, "payments": 3}
REQUEST_TIMEOUT_MS: Final = 3_000
RETRY_MS: Final = 100
_FRESH_START: Final = (ErrorCode.UNKNOWN_MEMBER_ID,)
_FATAL: Final = (
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
)


@dataclass(frozen=True)
class Versions:
    """The versions of the requests of a client library."""

    join: int
    sync: int
    heartbeat: int
    leave: int
    commit: int
    fetch: int = 9


OLD: Final = Versions(2, 1, 1, 1, 3)
MIDDLE: Final = Versions(5, 3, 3, 3, 7)
NEW: Final = Versions(9, 5, 4, 5, 9)


@dataclass
class Settings:
    """The configuration of a client."""

    group_id: str
    versions: Versions = NEW
    group_instance_id: str | None = None
    topics: list[str] = field(default_factory=lambda: ["orders"])
    protocols: tuple[str, ...] = ("range",)
    session_timeout_ms: int = 6_000
    rebalance_timeout_ms: int = 8_000

    @property
    def subscription(self) -> bytes:
        """Return the encoded subscription."""
        return encode_subscription(ConsumerProtocolSubscription(topics=self.topics), 1)


class Caller:
    """Any sender of requests with its own connection, which retries when the connection breaks."""

    def __init__(self, world: World, far: Receiver, weather: Weather, name: str) -> None:
        self.world = world
        self.name = name
        self.alive = True
        self._far = far
        self._weather = weather
        self._connection: Connection | None = None

    def call(self, message: Any, version: int, then: Callable[[Any], None], timeout_ms: int) -> None:
        """Send a request; `then` gets the response, NotCoordinator, or None if no response arrives in time."""
        if self._connection is None or not self._connection.open:
            self._connection = Connection(self.world, self._far, self._weather, lambda _: None)
        connection, done = self._connection, [False]

        def finish(response: Any) -> None:
            if not done[0]:
                done[0] = True
                then(response)

        def give_up() -> None:
            if not done[0]:
                connection.close()
                finish(None)

        request = Request(type(message), version, encode(message, version), self.name, finish)
        request.may_repeat = self.may_repeat(message)
        connection.send(request)
        self.world.after(timeout_ms, give_up)

    def may_repeat(self, message: Any) -> bool:
        """Return whether the network may deliver a request twice."""
        return True

    def vanish(self) -> None:
        """Kill the process of the client."""
        self.alive = False
        if self._connection is not None:
            self._connection.close()
        self.world.say(self.name, "is killed")


def error_of(response: Any) -> ErrorCode:
    """Return the error of a response; a missing response or a wrong coordinator counts as a retriable error."""
    return ErrorCode(getattr(response, "error_code", ErrorCode.NOT_COORDINATOR))


class Client(Caller):
    """A member of a group; `life` distinguishes responses to its present life from late ones."""

    def __init__(
        self,
        world: World,
        far: Receiver,
        weather: Weather,
        name: str,
        settings: Settings,
        ended: Callable[["Client"], None],
    ) -> None:
        super().__init__(world, far, weather, name)
        self.settings = settings
        self.member_id = ""
        self.generation_id = -1
        self.stable = False
        self.assigned: list[tuple[str, int]] = []
        self._protocol_name: str | None = None
        self._joined_with: list[str] = []
        self._life = 0
        self._ended = ended
        self.join()

    @property
    def partitions(self) -> Mapping[str, int]:
        """The topics that the client knows, with their numbers of partitions."""
        return PARTITIONS

    # --- join and sync

    def subscription(self) -> bytes:
        """Return the member's subscription in its JoinGroup."""
        return self.settings.subscription

    def join(self, forget_id: bool = False) -> None:
        """Join or rejoin the group."""
        if not self.alive:
            return
        self._life += 1
        self.stable = False
        if forget_id:
            self.member_id, self.generation_id = "", -1
        settings = self.settings
        self._joined_with = settings.topics
        request = JoinGroupRequest(
            group_id=settings.group_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=settings.group_instance_id,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=self.subscription())
                for name in settings.protocols
            ],
        )
        self._ask(request, settings.versions.join, self._on_join, settings.rebalance_timeout_ms + 5_000)

    def _ask(self, message: Any, version: int, then: Callable[[Any], None], timeout_ms: int) -> None:
        life = self._life

        def current(response: Any) -> None:
            if self.alive and life == self._life:
                then(response)

        self.call(message, version, current, timeout_ms)

    def _on_join(self, response: Any) -> None:
        error = error_of(response)
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self.join()
        elif error is not ErrorCode.NONE:
            self._rejoin_after(error)
        else:
            self.member_id, self.generation_id = response.member_id, response.generation_id
            self._protocol_name = response.protocol_name
            leads = response.leader == self.member_id and not response.skip_assignment
            self.world.say(self.name, f"joined {self.generation_id} as {self.member_id}{' to lead' * leads}")
            self._sync(self._assign(response) if leads else [])

    def _rejoin_after(self, error: ErrorCode) -> None:
        """Join again in the way that the error requires; give up if it is fatal."""
        if error in _FATAL:
            self.world.say(self.name, f"gives up: {error.name}")
            self.alive = False
            self._ended(self)
            return
        self._life += 1
        self.stable = False
        self.world.say(self.name, f"rejoins: {error.name}")
        self.world.after(RETRY_MS, lambda: self.join(forget_id=error in _FRESH_START))

    def _assign(self, response: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """Distribute the partitions of each topic among its subscribers."""
        readers = {
            member.member_id: decode_subscription(member.metadata).topics for member in response.members
        }
        parts: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in readers}
        for topic, count in self.partitions.items():
            ids = sorted(member_id for member_id, topics in readers.items() if topic in topics)
            for partition in range(count if ids else 0):
                parts[ids[partition % len(ids)]].setdefault(topic, []).append(partition)
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=_encoded(part))
            for member_id, part in parts.items()
        ]

    def _sync(self, assignments: list[SyncGroupRequestAssignment]) -> None:
        request = SyncGroupRequest(
            group_id=self.settings.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.settings.group_instance_id,
            protocol_type="consumer",
            protocol_name=self._protocol_name,
            assignments=assignments,
        )
        timeout_ms = self.settings.rebalance_timeout_ms + 5_000
        self._ask(request, self.settings.versions.sync, self._on_sync, timeout_ms)

    def _on_sync(self, response: Any) -> None:
        error = error_of(response)
        if error is not ErrorCode.NONE:
            self._rejoin_after(error)
            return
        if self._joined_with != self.settings.topics:
            self.join()
            return
        data = response.assignment
        topics = decode_assignment(data).assigned_partitions if data else []
        self.assigned = [(topic.topic, number) for topic in topics for number in topic.partitions]
        self.stable = True
        self.world.say(self.name, f"has {' '.join(f'{topic}:{number}' for topic, number in self.assigned)}")
        self._later(self.settings.session_timeout_ms // 3, self._heartbeat)
        self._later(self.world.random.randint(10, 2_000), self._commit)
        if self.assigned:
            self.fetch()

    # --- steady life

    def _later(self, delay_ms: int, action: Callable[[], None]) -> None:
        life = self._life

        def act() -> None:
            if self.alive and life == self._life:
                action()

        self.world.after(delay_ms, act)

    def _heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.settings.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.settings.group_instance_id,
        )
        self._ask(request, self.settings.versions.heartbeat, self._on_heartbeat, REQUEST_TIMEOUT_MS)

    def _on_heartbeat(self, response: Any) -> None:
        error = error_of(response)
        if error in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR):
            self._later(
                self.settings.session_timeout_ms // 3 if error is ErrorCode.NONE else RETRY_MS,
                self._heartbeat,
            )
        else:
            self._rejoin_after(error)

    def _commit(self) -> None:
        if self.assigned:
            topic, number = self.world.random.choice(self.assigned)
            request = commit_request(self.settings.group_id, [(topic, number, self.world.new_value())])
            request.generation_id_or_member_epoch = self.generation_id
            request.member_id = self.member_id
            request.group_instance_id = self.settings.group_instance_id
            self._ask(request, self.settings.versions.commit, self._on_commit, REQUEST_TIMEOUT_MS)
        else:
            self._later(1_000, self._commit)

    def _on_commit(self, response: Any) -> None:
        topics = getattr(response, "topics", [])
        error = ErrorCode(topics[0].partitions[0].error_code) if topics else ErrorCode.NOT_COORDINATOR
        if error in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR, ErrorCode.REBALANCE_IN_PROGRESS):
            self._later(self.world.random.randint(100, 3_000), self._commit)
            if self.world.chance(0.2):
                self.fetch()
        else:
            self._rejoin_after(error)

    def fetch(self) -> None:
        """Fetch the committed offsets of the member's partitions."""
        numbers: dict[str, list[int]] = {}
        for topic, number in self.assigned or [("orders", 0)]:
            numbers.setdefault(topic, []).append(number)
        topics = [OffsetFetchRequestTopics(name=name, partition_indexes=numbers[name]) for name in numbers]
        group = OffsetFetchRequestGroup(group_id=self.settings.group_id, topics=topics)
        request = OffsetFetchRequest(groups=[group], require_stable=self.world.chance(0.5))
        self.call(request, self.settings.versions.fetch, lambda _: None, REQUEST_TIMEOUT_MS)

    # --- changes

    def subscribe(self, topics: list[str]) -> None:
        """Change the subscription, and rejoin."""
        self.world.say(self.name, f"subscribes to {', '.join(topics)}")
        self.settings.topics = topics
        if self.stable:
            self.join()

    def leave(self) -> None:
        """Close cleanly: a dynamic member sends LeaveGroup, a static one remains a member of the group."""
        self.world.say(self.name, "closes")
        if self.settings.group_instance_id is None and self.member_id:
            request = LeaveGroupRequest(
                group_id=self.settings.group_id,
                member_id=self.member_id,
                members=[MemberIdentity(member_id=self.member_id, reason="the consumer is being closed")],
            )
            self.call(request, self.settings.versions.leave, lambda _: None, REQUEST_TIMEOUT_MS)
        self.alive = False


def commit_request(group_id: str, offsets: list[tuple[str, int, int]]) -> OffsetCommitRequest:
    """Build a commit of (topic, partition, offset) without a member id."""
    return OffsetCommitRequest(
        group_id=group_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[OffsetCommitRequestPartition(partition_index=number, committed_offset=offset)],
            )
            for topic, number, offset in offsets
        ],
    )


def _encoded(part: dict[str, list[int]]) -> bytes:
    owned = [TopicPartitions(topic=topic, partitions=part[topic]) for topic in part]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=owned), 1)
