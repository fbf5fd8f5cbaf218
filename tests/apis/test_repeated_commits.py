"""A server that caches repeated commits answers, writes and reports what a server does that decodes all of them."""

import asyncio
import inspect
import textwrap
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import count
from random import Random
from types import SimpleNamespace
from typing import Any, Final
from uuid import UUID

import pytest

from coordinator.apis import group_handlers, repeated_commits
from coordinator.apis.api_authorization import ApiAuthorization
from coordinator.apis.broker_handlers import encode_unsupported_api_versions
from coordinator.apis.repeated_commits import CommitRepeater
from coordinator.broker.server import Server
from coordinator.cluster.daemon.refresh_unknown_topics import UnknownTopicRefresh
from coordinator.core.interceptors import InterceptorRank
from coordinator.core.outcome import Context, Now, Outcome
from coordinator.group.group_requests import RepeatedCommit, Request
from coordinator.group.group_shard import GroupShard, ShardDecorator
from coordinator.network import repeated_requests
from coordinator.network.client_connection import Connection
from coordinator.network.repeated_requests import MAX_CACHED, MAX_CACHED_BYTES, MAX_UNREPEATED
from coordinator.network.request_context import RequestContext
from coordinator.network.request_routes import Handler, Routes
from coordinator.runtime.coordinator_partition import CoordinatorPartition
from coordinator.runtime.partition_lifecycle import PartitionState
from coordinator.security.core.acl import AclOperation, AclPermissionType, ResourceType
from coordinator.topics import topic as topic_module
from protocol.apis import ApiKey
from protocol.codec import decode
from protocol.error_codes import ErrorCode
from protocol.error_response import build_error_response
from protocol.framing import encode_request
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.leave_group import LeaveGroupRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.schema import ZERO_UUID
from tests.apis.authorized_clients import ADMIN, AUTHORIZER, acl, change
from tests.broker.harness import Client, heartbeat_request, join_alone, serving
from tests.network.requests import trust_client_ids
from tests.network.test_repeated_requests import connect, fed
from tests.runtime.held_clock import HeldClock
from tests.storage.faulty_files import FaultyFiles

CLASSIC, CONSUMERS, SIMPLE = "classic", "consumers", "simple"
USERS: Final = ("alice", "bob")
METADATA: Final = {"": ("",), "ab": ("ab", "cd", "é"), "longer": ("longer",)}
STEPS, SEEDS = 90, range(6)
RESPONSE_HEADER_BYTES: Final = 9
"""Size, correlation id and tags."""
START: Final = Now(1_000_000, 1_700_000_000_000)
RIGHTS: Final = (
    (ResourceType.TOPIC, "orders"),
    (ResourceType.TOPIC, "secret"),
    (ResourceType.GROUP, CLASSIC),
    (ResourceType.GROUP, CONSUMERS),
    (ResourceType.GROUP, SIMPLE),
)


class Repetitions:
    """Counts the repeated commits that reach a group."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        handle = GroupShard.handle

        def counted(shard: GroupShard, request: Request, context: Context, now: Now) -> Outcome:
            self.count += type(request) is RepeatedCommit
            return handle(shard, request, context, now)

        monkeypatch.setattr(GroupShard, "handle", counted)


class WatchedShard(ShardDecorator):
    """Notes the commits that a machine gets."""

    __slots__ = ("seen",)

    def __init__(self, inner: GroupShard, seen: list[str]) -> None:
        super().__init__(inner)
        self.seen = seen

    def handle(self, request: Request, context: Context, now: Now) -> Outcome:
        if isinstance(request, OffsetCommitRequest | RepeatedCommit):
            self.seen.append(repr(request))
        return super().handle(request, context, now)


class Play:
    """A random sequence of requests and changes, and everything that a server makes of it."""

    def __init__(self, server: Server, seed: int, *, repeats: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server = server
        self.random = Random(seed)
        self.answers: list[Any] = []
        """Of the clients, and the commits that intercepted machines got."""
        self.written: defaultdict[str, list[str]] = defaultdict(list)
        """Records and events of each partition. Partitions load in any order."""
        (endpoint,) = server.endpoints
        if not repeats:
            handlers = {key: endpoint.routes.get_handler(key) for key in endpoint.routes._handlers}
            endpoint.routes = Routes(handlers, {}, encode_unsupported_api_versions)
        self.routes = endpoint.routes
        self.connections = [connect(endpoint) for _ in USERS]
        self.numbers = count(1)
        self.member = ("", -1)
        self.epoch = 0
        self.commits: list[tuple[OffsetCommitRequest, int, int]] = []
        self.denied: set[tuple[ResourceType, str]] = set()
        self.interceptor: Callable[[Handler], Handler] | None = None
        self.decorator: Callable[[GroupShard], GroupShard] | None = None
        self._watch(monkeypatch)

    def _watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        buffer = CoordinatorPartition.buffer_outcome

        def noted(partition: Any, outcome: Outcome) -> None:
            self.written[str(partition.name)] += [repr(fact) for fact in outcome.records]
            buffer(partition, outcome)

        monkeypatch.setattr(CoordinatorPartition, "buffer_outcome", noted)
        uuids = count(1)
        monkeypatch.setattr(group_handlers, "uuid4", lambda: UUID(int=next(uuids)))
        self.server.engine.observers.append(
            lambda partition, events, _, now: self.written[str(partition.name)].extend(
                f"{event!r} {now}" for event in events
            )
        )

    async def run(self) -> tuple[list[Any], dict[str, list[str]]]:
        """Play. Return the answers, and the records and events, in their order."""
        async with Client(self.server, ADMIN) as admin:
            self.admin = admin
            granted = [acl(user, AclOperation.READ, *right) for user in USERS for right in RIGHTS]
            await change(self.server, added=granted)
            await self.join()
            await self.beat()
            steps: list[Callable[[], Any]] = [self.commit] * 40
            steps += [self.join, self.beat, self.change_right, self.change_topic]
            steps += [self.intercept_api, self.intercept_machine, self.reload, self.advance, self.advance]
            for _ in range(STEPS):
                await self.random.choice(steps)()
                if self.random.random() < 0.3:
                    await self.restore()
        return self.answers, self.written

    async def commit(self) -> None:
        """Commits in one read, perhaps with a heartbeat between them."""
        random = self.random
        number = random.randrange(len(USERS))
        data = b""
        for _ in range(random.choice((1, 1, 1, 2, 5))):
            request, version = self.create_commit(number)
            data += self.frame(number, ApiKey.OFFSET_COMMIT, request, version)
            if random.random() < 0.1:
                data += self.frame(number, ApiKey.HEARTBEAT, heartbeat_request(CLASSIC, *self.member), 3)
        await self.feed(number, data)

    def frame(self, number: int, key: ApiKey, request: object, version: int) -> bytes:
        return bytes(encode_request(key, version, next(self.numbers), USERS[number], request))

    async def feed(self, number: int, data: bytes) -> None:
        connection, sent = self.connections[number]
        answers = await fed(connection, sent, [data])
        self.answers.append((number, connection._is_closing, answers))

    def create_commit(self, number: int) -> tuple[OffsetCommitRequest, int]:
        """Return a commit like one of the last ones, or another one, and its version."""
        random = self.random
        mine = [commit for commit in self.commits if commit[2] == number]
        if len(mine) < 2 or random.random() < 0.15:
            self.commits = [*mine[-2:], *(each for each in self.commits if each[2] != number)]
            self.commits.append((self.invent_commit(), random.choice((5, 6, 8, 9, 9, 9, 10, 10, 10)), number))
            mine = self.commits[-1:]
        request, version, _ = random.choice(mine)
        for topic in request.topics:
            for part in topic.partitions:
                part.committed_offset = random.randrange(100)
                part.committed_leader_epoch = random.choice((-1, 3))
                (part.committed_metadata,) = random.choices(
                    next(texts for texts in METADATA.values() if part.committed_metadata in texts)
                )
        return request, version

    def invent_commit(self) -> OffsetCommitRequest:
        random = self.random
        group = random.choice((CLASSIC, CLASSIC, CONSUMERS, CONSUMERS, SIMPLE))
        member_id, epoch = "", -1
        if group == CLASSIC and random.random() < 0.9:
            member_id, epoch = self.member
            epoch -= random.random() < 0.1
        elif group == CONSUMERS and random.random() < 0.9:
            member_id, epoch = "m", self.epoch
        topics = []
        for name in random.choice((["orders"], ["orders"], ["orders", "secret"], ["orders", "gone"])):
            found = self.server.data_plane.catalogue.find_topic(name)
            partitions = [
                OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=0,
                    committed_metadata=random.choice(("", "", "ab", "longer")),
                )
                for index in range(random.choice((1, 1, 2)))
            ]
            topic_id = ZERO_UUID if found is None else found.topic_id
            topics.append(OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=partitions))
        return OffsetCommitRequest(
            group_id=group, generation_id_or_member_epoch=epoch, member_id=member_id, topics=topics
        )

    async def join(self) -> None:
        """The member of the classic group leaves, and another one joins."""
        if self.member[0]:
            await self.admin.call(LeaveGroupRequest(group_id=CLASSIC, member_id=self.member[0]), 2)
        self.member = await join_alone(self.admin, CLASSIC)

    async def beat(self) -> None:
        """The member of the consumer group joins again: its epoch grows."""
        for epoch in (-1, 0):
            request = ConsumerGroupHeartbeatRequest(
                group_id=CONSUMERS,
                member_id="m",
                member_epoch=epoch,
                rebalance_timeout_ms=-1 if epoch else 60_000,
                subscribed_topic_names=None if epoch else ["orders"],
                topic_partitions=None if epoch else [],
            )
            answer = await self.admin.call(request, 1)
        self.epoch = answer.member_epoch

    async def change_right(self, right: tuple[ResourceType, str] | None = None) -> None:
        """A right is denied, or granted again."""
        right = right or self.random.choice(RIGHTS)
        denials = [acl(user, AclOperation.READ, *right, permission=AclPermissionType.DENY) for user in USERS]
        if right in self.denied:
            self.denied.remove(right)
            await change(self.server, removed=denials)
        else:
            self.denied.add(right)
            await change(self.server, added=denials)

    async def change_topic(self) -> None:
        """A topic is deleted, or created again with another id."""
        if self.server.data_plane.catalogue.find_topic("secret") is None:
            secret = CreatableTopic(
                name="secret", num_partitions=2, replication_factor=1, assignments=[], configs=[]
            )
            await self.admin.call(CreateTopicsRequest(topics=[secret], timeout_ms=1000), 7)
        else:
            await self.admin.call(DeleteTopicsRequest(topic_names=["secret"], timeout_ms=1000), 5)

    async def intercept_api(self) -> None:
        """An interceptor refuses every second commit, or does so no longer."""
        chain = self.routes.get_interceptors(ApiKey.OFFSET_COMMIT)
        if self.interceptor is not None:
            chain.remove(self.interceptor)
            self.interceptor = None
            return
        turns = count()

        def intercept(handler: Handler) -> Handler:
            def refuse(request: Any, context: RequestContext) -> object:
                if next(turns) % 2:
                    return handler(request, context)
                return build_error_response(request, context.api_version, ErrorCode.COORDINATOR_NOT_AVAILABLE)

            return refuse

        self.interceptor = intercept
        chain.add(InterceptorRank.FAULTS, intercept)

    async def intercept_machine(self) -> None:
        """An interceptor notes the requests of the machines, or does so no longer."""
        partitions = self.server.runtime.partitions
        if self.decorator is not None:
            for partition in partitions:
                partition.interceptors.remove(self.decorator)
            self.decorator = None
            return
        noted: list[str] = []
        self.answers.append(noted)
        self.decorator = lambda inner: WatchedShard(inner, noted)
        for partition in partitions:
            partition.interceptors.add(InterceptorRank.RECORDER, self.decorator)

    async def reload(self) -> None:
        """The partitions are loaded again, with a commit in the meantime."""
        for partition in self.server.runtime.partitions:
            self.server.runtime.lifecycle.reload_partition(partition)
        await self.commit()
        while any(part.state is not PartitionState.OWNED for part in self.server.runtime.partitions):  # noqa: ASYNC110
            await asyncio.sleep(0)

    async def restore(self) -> None:
        """Most of the time nothing is in the way of commits."""
        if self.interceptor is not None:
            await self.intercept_api()
        if self.decorator is not None:
            await self.intercept_machine()
        if self.denied:
            await self.change_right(self.random.choice(sorted(self.denied)))

    async def advance(self) -> None:
        held = self.server.group_clock
        assert isinstance(held, HeldClock)
        held.advance(self.random.choice((0, 5, 300, 3_000)))
        await asyncio.sleep(0)


async def play(seed: int, flush: str, *, repeats: bool) -> tuple[object, int]:
    """Play a sequence on a new server. Return its results, and the number of repeated commits."""
    held = HeldClock()
    held._held = START
    properties = AUTHORIZER | {
        "group.initial.rebalance.delay.ms": "0",
        "log.flush": flush,
        "offset.metadata.max.bytes": "4",
        "group.consumer.assignment.interval.ms": "0",
    }
    topics = [("orders", 3), ("secret", 2)]
    with pytest.MonkeyPatch.context() as monkeypatch:
        trust_client_ids(monkeypatch)
        topic_ids = count(1)
        random_source = SimpleNamespace(urandom=lambda size: next(topic_ids).to_bytes(size, "big"))
        monkeypatch.setattr(topic_module, "os", random_source)
        monkeypatch.setattr(repeated_requests, "MISSES_UNTIL_RESET", 3)  # a short time without preparations
        repetitions = Repetitions(monkeypatch)
        files = FaultyFiles()
        async with serving("/data", properties, topics=topics, files=files, group_clock=held) as server:
            seen = await Play(server, seed, repeats=repeats, monkeypatch=monkeypatch).run()
    return seen, repetitions.count


@pytest.mark.parametrize("flush", ["always", "os"])
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_cache_of_commits_changes_no_answer_record_or_event(seed: int, flush: str) -> None:
    expected, none = await play(seed, flush, repeats=False)
    seen, repetitions = await play(seed, flush, repeats=True)
    assert seen == expected
    assert none == 0
    assert repetitions > 0  # fewer on a slow machine, where guards take a turn in the run queue


FAULTS: Final = [
    (CommitRepeater, "repeat", "find_topic(name) is not topic", "False"),
    (CommitRepeater, "repeat", "partition.machine is not partition.plain_machine", "False"),
    (ApiAuthorization, "guard_repetitions", "if index.epoch == epoch else", "if True else"),
    (Routes, "_begin_epoch", "self.epoch = object()", "pass"),
    (repeated_commits, "find_gaps", "encode(request, version) != body", "False"),
    (Connection, "_repeat_with_changes", "changes[0]", "0"),
]


@pytest.mark.parametrize(("owner", "name", "check", "fault"), FAULTS)
async def test_a_cache_without_one_of_its_checks_is_found(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, check: str, fault: str
) -> None:
    function = getattr(owner, name)
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(check) == 1
    namespace = dict(function.__globals__)
    exec(compile(source.replace(check, fault), "planted", "exec"), namespace)
    monkeypatch.setattr(owner, name, namespace[name])
    for seed in range(20):
        expected, _ = await play(seed, "os", repeats=False)
        try:
            seen, _ = await play(seed, "os", repeats=True)
        except Exception:  # noqa: BLE001 - any failure shows the fault
            return
        if seen != expected:
            return
    raise AssertionError("no sequence shows the fault")


class Commits:
    """A client without a group membership that commits one partition over a connection of its own."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.connection, self.sent = connect(server.endpoints[0])
        self.number = 0

    def frame(self, offset: int, metadata: str = "", version: int = 9, partition: int = 0) -> bytes:
        """Return the frame of a commit."""
        part = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=metadata
        )
        topics = [OffsetCommitRequestTopic(name="orders", partitions=[part])]
        self.number += 1
        request = OffsetCommitRequest(group_id=SIMPLE, topics=topics)
        return bytes(encode_request(ApiKey.OFFSET_COMMIT, version, self.number, "client", request))

    async def send(self, *frames: bytes) -> bytes:
        """Send frames in one read, and return the answers."""
        return await fed(self.connection, self.sent, [b"".join(frames)])


async def test_the_cache_knows_a_commit_by_all_bytes_around_its_gaps() -> None:
    async with serving() as server:
        client = Commits(server)
        frame = client.frame(7, "text", partition=1)
        await client.send(frame)
        cache = client.connection._repeated_requests
        assert cache.find_request(frame) is not None
        known = set()
        for position, byte in enumerate(frame):
            other = frame[:position] + bytes([byte ^ 1]) + frame[position + 1 :]
            if cache.find_request(other) is not None:
                known.add(position)
        fields = frame.index(b"\0\0\0\1" + (7).to_bytes(8, "big")) + 4
        text = frame.index(b"text")
        assert known == {*range(8, 12), *range(fields, fields + 12), *range(text, text + 4)}


async def test_repeated_commits_in_one_read_are_stored_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    repetitions = Repetitions(monkeypatch)
    async with serving() as server:
        client = Commits(server)
        await client.send(client.frame(1))
        assert len(await client.send(*(client.frame(offset) for offset in range(2, 20)))) > 18 * 8
        machine = server.runtime.find_partition(SIMPLE).machine
        assert machine is not None
        assert machine.find_committed_offset(SIMPLE, "orders", 0) == 19
    assert repetitions.count == 18


async def test_a_cluster_looks_for_topics_only_when_a_repeated_commit_has_lost_its_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    repetitions = Repetitions(monkeypatch)
    refreshed = asyncio.Event()

    async def refresh_topics(names: Sequence[str] | None) -> None:
        assert names == ["orders"]
        refreshed.set()

    async with serving() as server:
        (endpoint,) = server.endpoints
        refresh = UnknownTopicRefresh(server.data_plane.catalogue, refresh_topics)
        endpoint.routes = refresh.wrap_routes(endpoint.routes)
        client = Commits(server)
        for offset in range(3):
            await client.send(client.frame(offset))
        assert repetitions.count == 2
        assert not refreshed.is_set()
        async with Client(server) as admin:
            await admin.call(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1000), 3)
        answer = decode(OffsetCommitResponse, 9, await client.send(client.frame(3)), RESPONSE_HEADER_BYTES)
        assert refreshed.is_set()
        assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert repetitions.count == 2


async def test_metadata_that_is_no_text_closes_the_connection_also_in_a_repetition() -> None:
    async with serving() as server:
        client = Commits(server)
        for offset in range(3):
            await client.send(client.frame(offset, "text"))
        refused = server.connections.refused
        await client.send(client.frame(4, "text").replace(b"text", b"\xfftex"))
        assert client.connection._is_closing
        assert server.connections.refused == refused + 1


async def test_clients_that_do_not_repeat_their_commits_are_seldom_prepared_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepared: list[object] = []
    prepare = GroupShard.prepare_commit

    def counted(shard: GroupShard, request: OffsetCommitRequest, version: int) -> object:
        prepared.append(request)
        return prepare(shard, request, version)

    monkeypatch.setattr(GroupShard, "prepare_commit", counted)
    monkeypatch.setattr(repeated_requests, "MISSES_UNTIL_RESET", 20)
    async with serving(topics=[("orders", 100)]) as server:
        client = Commits(server)
        for partition in range(MAX_UNREPEATED + 20):
            await client.send(client.frame(1, partition=partition))
        assert len(prepared) == MAX_UNREPEATED
        for offset in range(3):
            await client.send(client.frame(offset, partition=99))
        assert len(prepared) == MAX_UNREPEATED + 1, "the next commit was prepared, and then repeated"


async def test_what_a_connection_caches_is_bounded() -> None:
    async with serving(topics=[("orders", 1000)]) as server:
        client = Commits(server)
        for number in range(60):
            for offset in range(2):  # the repetition makes room for the next commit
                await client.send(client.frame(offset, "x" * (400 + number), partition=number))
        cache = client.connection._repeated_requests
        sizes = [size for size, shapes in cache.shapes.items() for shape in shapes for _ in shape.requests]
        assert 0 < sum(sizes) <= MAX_CACHED_BYTES
        assert len(sizes) <= MAX_CACHED
