"""The requests of `request_cost.py`, and the state of the server before each.

Every client is the only member of a group, has a connection of its own, and sends one request in each round. The 50
groups lie on the 50 partitions of the offsets topic, so that requests of a round share no partition of it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from msgspec import Struct

from benchmarks.commit import COMMIT_VERSION, commit_request
from benchmarks.connection import encode_frame
from benchmarks.groups import CONNECTIONS, group_names
from benchmarks.in_process import InProcessClient, InProcessServer, complete
from benchmarks.member import REBALANCE_TIMEOUT_MS, SESSION_TIMEOUT_MS, SUBSCRIPTION, TOPIC, Member
from benchmarks.produce_fetch import produce_request
from benchmarks.producer import PRODUCE_VERSION, TIMEOUT_MS
from protocol.apis import APIS
from protocol.codec import decode
from protocol.error_codes import ErrorCode
from protocol.framing import response_body_position
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.schema import message_info

PARTITIONS: Final = 12
"""Of the topic. A client that commits another partition in each round needs as many."""
JOIN_DELAY_MS: Final = 3_000
"""Kafka's default of `group.initial.rebalance.delay.ms`."""
FIRST_OFFSET: Final = 1_000_000
HEARTBEAT_VERSION, JOIN_VERSION, LEAVE_VERSION = 4, 9, 5
OFFSET_FETCH_VERSION, FETCH_VERSION = 9, 17
ADD_OFFSETS_VERSION, TXN_COMMIT_VERSION, END_VERSION = 4, 4, 4
"""The newest with which the producer adds the group itself."""
_TRANSACTION: Final = 1
_MANY_BYTES: Final = 1 << 20


class Request(NamedTuple):
    """A message and the version in which it is sent."""

    message: Any
    version: int

    def encode(self) -> bytes:
        """Return the frame, size included."""
        return encode_frame(self.message, self.version)

    def decode_answer(self, frame: bytes) -> Any:
        """Return the response in a frame that comes with its size."""
        key = message_info(type(self.message)).api_key
        position = response_body_position(key, self.version, frame[4:])
        return decode(APIS[key].response, self.version, frame[4:], position)

    def check_answer(self, frame: bytes) -> None:
        """Raises ValueError when the response in a frame has an error code other than NONE."""
        response = self.decode_answer(frame)
        if any(_error_codes(response)):
            raise ValueError(f"{type(self.message).__name__} was refused: {response}")


def _error_codes(value: object) -> Iterator[int]:
    if isinstance(value, Struct):
        for field in value.__struct_fields__:
            part = getattr(value, field)
            if field == "error_code":
                yield part
            else:
                yield from _error_codes(part)
    elif isinstance(value, list):
        for part in value:
            yield from _error_codes(part)


class RequestKind(ABC):
    """One kind of request, or a sequence of requests that belong together, on a server of its own."""

    name: ClassVar[str]
    properties: ClassVar[Mapping[str, str]] = {
        "log.flush": "os",
        "group.initial.rebalance.delay.ms": "0",
    }
    """Of the server."""
    passing_ms: ClassVar[int] = 0
    """The time after which the request is answered."""

    def __init__(self, server: InProcessServer) -> None:
        """Prepare the server. It has the topic."""
        self.server = server
        self.groups = group_names(CONNECTIONS)
        self.clients = [InProcessClient(server, number) for number in range(CONNECTIONS)]

    def prepare_round(self, clients: int) -> None:  # noqa: B027 - most kinds need no preparation
        """Prepare a round of the first `clients`, uncounted."""

    @abstractmethod
    def requests(self, client: int, round_number: int) -> Sequence[Request]:
        """Return the requests of a client in a round. All clients send the first, then all send the second."""

    def call(self, client: int, request: Request) -> Any:
        """Send a request that is not counted. Return the response."""
        return request.decode_answer(complete(self.clients[client].exchange(request.encode())))


class _MemberRequest(RequestKind):
    """A request of a member of a Stable group that has committed an offset of each partition."""

    def __init__(self, server: InProcessServer) -> None:
        super().__init__(server)
        self.members = [
            Member(client, group) for client, group in zip(self.clients, self.groups, strict=True)
        ]
        for client, member in enumerate(self.members):
            complete(member.join())
            self.call(client, self.commit(client, range(PARTITIONS), FIRST_OFFSET))

    def commit(self, client: int, partitions: Sequence[int], offset: int) -> Request:
        """Return a commit of one offset for each of some partitions."""
        return Request(commit_request(self.members[client], partitions, offset), COMMIT_VERSION)


class Heartbeat(_MemberRequest):
    """The same heartbeat in each round."""

    name = "Heartbeat"

    def requests(self, client: int, round_number: int) -> Sequence[Request]:
        return [Request(self.members[client].heartbeat_request(), HEARTBEAT_VERSION)]


class OffsetCommit(_MemberRequest):
    """Another offset of the same partition in each round, `log.flush=os`."""

    name = "OffsetCommit"

    def requests(self, client: int, round_number: int) -> Sequence[Request]:
        return [self.commit(client, [0], FIRST_OFFSET + 1 + round_number)]


class OffsetCommitOfOtherPartitions(_MemberRequest):
    """An offset of another partition in each round, `log.flush=os`."""

    name = "OffsetCommit, other partitions"

    def requests(self, client: int, round_number: int) -> Sequence[Request]:
        assert round_number < PARTITIONS, "the partitions would repeat"
        return [self.commit(client, [round_number], FIRST_OFFSET + 1 + round_number)]


class DurableOffsetCommit(OffsetCommit):
    """As `OffsetCommit`, with `log.flush=always`: the answer waits for a sync, which is counted too."""

    name = "OffsetCommit, always"
    properties: ClassVar[Mapping[str, str]] = {**RequestKind.properties, "log.flush": "always"}


class OffsetFetch(_MemberRequest):
    """The committed offset of one partition."""

    name = "OffsetFetch"

    def requests(self, client: int, round_number: int) -> Sequence[Request]:
        topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
        groups = [OffsetFetchRequestGroup(group_id=self.groups[client], topics=topics)]
        return [Request(OffsetFetchRequest(groups=groups), OFFSET_FETCH_VERSION)]


class JoinGroup(RequestKind):
    """The first member joins an empty group and gets its answer after the initial rebalance delay. It has its
    member id already; before the next round it leaves."""

    name = "JoinGroup"
    properties: ClassVar[Mapping[str, str]] = {
        **RequestKind.properties,
        "group.initial.rebalance.delay.ms": str(JOIN_DELAY_MS),
    }
    passing_ms = JOIN_DELAY_MS + 100

    def __init__(self, server: InProcessServer) -> None:
        super().__init__(server)
        self._member_ids = [""] * CONNECTIONS

    def prepare_round(self, clients: int) -> None:
        for client in range(clients):
            if self._member_ids[client]:
                self._leave(client)
            asked = self.call(client, self._join(client))
            assert asked.error_code == ErrorCode.MEMBER_ID_REQUIRED, asked
            self._member_ids[client] = asked.member_id

    def requests(self, client: int, round_number: int) -> Sequence[Request]:
        return [self._join(client)]

    def _join(self, client: int) -> Request:
        message = JoinGroupRequest(
            group_id=self.groups[client],
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self._member_ids[client],
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
        )
        return Request(message, JOIN_VERSION)

    def _leave(self, client: int) -> None:
        members = [MemberIdentity(member_id=self._member_ids[client])]
        message = LeaveGroupRequest(group_id=self.groups[client], members=members)
        left = self.call(client, Request(message, LEAVE_VERSION))
        assert not any(_error_codes(left)), left
        self._member_ids[client] = ""


def _produce(client: int) -> Request:
    return Request(produce_request(client % PARTITIONS, timestamp_ms=0), PRODUCE_VERSION)


class Produce(RequestKind):
    """Ten records of 100 bytes to one partition, from a producer without an id, `log.flush=os`."""

    name = "Produce"

    def requests(self, client: int, round_number: int) -> Sequence[Request]:
        return [_produce(client)]


class Fetch(RequestKind):
    """The ten records of 100 bytes of one partition, outside of a fetch session."""

    name = "Fetch"

    def __init__(self, server: InProcessServer) -> None:
        super().__init__(server)
        topic = server.server.data_plane.catalogue.find_topic(TOPIC)
        assert topic is not None
        self._topic_id = topic.topic_id
        for client in range(PARTITIONS):
            self.call(client, _produce(client))

    def requests(self, client: int, round_number: int) -> Sequence[Request]:
        partition = FetchPartition(
            partition=client % PARTITIONS, fetch_offset=0, partition_max_bytes=_MANY_BYTES
        )
        message = FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=_MANY_BYTES,
            topics=[FetchTopic(topic_id=self._topic_id, partitions=[partition])],
        )
        return [Request(message, FETCH_VERSION)]


class OffsetsOfTransaction(_MemberRequest):
    """A transaction of one offset: AddOffsetsToTxn, TxnOffsetCommit, EndTxn, and its marker. `log.flush=os`."""

    name = "AddOffsetsToTxn to EndTxn"

    def __init__(self, server: InProcessServer) -> None:
        super().__init__(server)
        self._producers: list[Mapping[str, Any]] = []
        for client, group in enumerate(self.groups):
            transactional_id = f"transactional-{group}"
            find = FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=[transactional_id])
            found = self.call(client, Request(find, 4))
            assert not any(_error_codes(found)), found
            init = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS)
            producer = self.call(client, Request(init, 4))
            assert not any(_error_codes(producer)), producer
            self._producers.append(
                {
                    "transactional_id": transactional_id,
                    "producer_id": producer.producer_id,
                    "producer_epoch": producer.producer_epoch,
                }
            )

    def requests(self, client: int, round_number: int) -> Sequence[Request]:
        producer, member = self._producers[client], self.members[client]
        offsets = [
            TxnOffsetCommitRequestPartition(
                partition_index=0,
                committed_offset=FIRST_OFFSET + 1 + round_number,
                committed_leader_epoch=0,
                committed_metadata="",
            )
        ]
        add = AddOffsetsToTxnRequest(**producer, group_id=member.group_id)
        commit = TxnOffsetCommitRequest(
            **producer,
            group_id=member.group_id,
            generation_id_or_member_epoch=member.generation_id,
            member_id=member.member_id,
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=offsets)],
        )
        return [
            Request(add, ADD_OFFSETS_VERSION),
            Request(commit, TXN_COMMIT_VERSION),
            Request(EndTxnRequest(**producer, committed=True), END_VERSION),
        ]


KINDS: Final[Mapping[str, type[RequestKind]]] = {
    kind.name: kind
    for kind in (
        Heartbeat,
        OffsetCommit,
        OffsetCommitOfOtherPartitions,
        DurableOffsetCommit,
        OffsetFetch,
        JoinGroup,
        Produce,
        Fetch,
        OffsetsOfTransaction,
    )
}
"""By name, in the order of the tables."""
