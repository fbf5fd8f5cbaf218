"""Clients that commit, join and delete as fast as they get responses, and record the acknowledged changes.

Each client has its own groups, so that the order of its requests is the order of the writes. After a crash `verify`
reads everything from the next daemon: it must have each acknowledged state or a later requested one.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, Protocol

from protocol.error_codes import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.broker.harness import Client, heartbeat_request, join_request, sync_request
from tests.broker.transactor import Transactor
from tests.crash.register import Register

TOPIC: Final = "orders"
PARTITIONS: Final = (0, 1)
NOTHING: Final = -1
"""The committed offset of a partition without one."""
DEPTH: Final = 4


STOPPING: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Stopping(ConnectionError):
    """The daemon is stopping: the outcome of a request that it rejects now is unknown."""


def check(error: int, answer: object) -> None:
    """Raises Stopping for an answer of a daemon that stops, AssertionError for any other refusal."""
    if error in STOPPING:
        raise Stopping
    assert error == ErrorCode.NONE, answer


class Actor(Protocol):
    """One client under load."""

    async def run(self, client: Client, answered: Callable[[], None]) -> None:
        """Works until its connection breaks; calls `answered` for each answer."""

    async def verify(self, client: Client) -> None:
        """Asserts that nothing promised is lost."""

    @property
    def acknowledged(self) -> int:
        """Return the total number of acknowledged writes."""


def commit(group: str, offset: int, member_id: str = "", generation_id: int = -1) -> OffsetCommitRequest:
    """The same offset for every partition, which is also its metadata."""
    parts = [
        OffsetCommitRequestPartition(
            partition_index=number, committed_offset=offset, committed_metadata=str(offset)
        )
        for number in PARTITIONS
    ]
    return OffsetCommitRequest(
        group_id=group,
        member_id=member_id,
        generation_id_or_member_epoch=generation_id,
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=parts)],
    )


def delete_offsets(group: str) -> OffsetDeleteRequest:
    """Of every partition."""
    parts = [OffsetDeleteRequestPartition(partition_index=number) for number in PARTITIONS]
    return OffsetDeleteRequest(
        group_id=group, topics=[OffsetDeleteRequestTopic(name=TOPIC, partitions=parts)]
    )


async def committed(client: Client, group: str) -> int:
    """The offset of all partitions, which one request wrote: half of a request is never there."""
    topic = OffsetFetchRequestTopic(name=TOPIC, partition_indexes=list(PARTITIONS))
    answer = await client.call(OffsetFetchRequest(group_id=group, topics=[topic]), 5)
    assert answer.error_code == ErrorCode.NONE, answer
    parts = answer.topics[0].partitions
    found = {(part.committed_offset, part.metadata) for part in parts}
    assert len(found) == 1, f"group {group}: {parts} of one commit"
    offset, metadata = found.pop()
    assert metadata == ("" if offset == NOTHING else str(offset)), (offset, metadata)
    return int(offset)


class Committer:
    """A simple consumer with several commits under way, that at times deletes its offsets or its whole group."""

    def __init__(self, group: str, random: Random, deletes: bool) -> None:
        self.group = group
        self.register = Register(NOTHING)
        self._random = random
        self._deletes = deletes
        self._next = 0

    @property
    def acknowledged(self) -> int:
        return self.register.acknowledged

    async def run(self, client: Client, answered: Callable[[], None]) -> None:
        under_way = 0
        while True:
            while under_way < DEPTH:
                self._send(client)
                under_way += 1
            answer = await client.receive()
            under_way -= 1
            self._take(answer)
            answered()

    def _send(self, client: Client) -> None:
        if self._deletes and self._random.random() < 0.3:
            self.register.write(NOTHING)
            if self._random.random() < 0.5:
                client.send(DeleteGroupsRequest(groups_names=[self.group]), 1)
            else:
                client.send(delete_offsets(self.group), 0)
            return
        self._next += 1
        self.register.write(self._next)
        client.send(commit(self.group, self._next), 6)

    def _take(self, answer: Any) -> None:
        if hasattr(answer, "results"):
            error = answer.results[0].error_code
        else:
            error = getattr(answer, "error_code", 0) or answer.topics[0].partitions[0].error_code
        if error == ErrorCode.GROUP_ID_NOT_FOUND:
            # A repeated deletion finds nothing, which is the requested state.
            assert NOTHING in self.register.possible
        else:
            check(error, answer)
        self.register.acknowledge()

    async def verify(self, client: Client) -> None:
        self.register.found(await committed(client, self.group))


class Member:
    """The only member of its group: joins, syncs, commits in its generation, joins again."""

    def __init__(self, group: str, random: Random, instance_id: str | None) -> None:
        self.group = group
        self.instance_id = instance_id
        self.offsets = Register(NOTHING)
        self.identity = Register(("", -1))
        """Member id and generation as the log has them; a static member's new id is not known before its
        answer, and is None until then."""
        self.is_replaced = False
        """A request for a new id is pending."""
        self._random = random
        self._next = 0

    @property
    def acknowledged(self) -> int:
        return self.offsets.acknowledged + self.identity.acknowledged

    async def run(self, client: Client, answered: Callable[[], None]) -> None:
        while True:
            await self._join(client)
            answered()
            member_id, generation_id = self.identity.value
            for _ in range(self._random.randrange(1, 8)):
                self._next += 1
                self.offsets.write(self._next)
                answer = await client.call(commit(self.group, self._next, member_id, generation_id), 7)
                check(answer.topics[0].partitions[0].error_code, answer)
                self.offsets.acknowledge()
                answered()

    async def _join(self, client: Client) -> None:
        member_id, generation_id = self.identity.value
        if self.instance_id is not None and self._random.random() < 0.3:
            member_id = ""
        # Long enough for a stalled machine: a missing member was lost, and did not time out.
        request = join_request(self.group, member_id, session_timeout_ms=120_000)
        request.group_instance_id = self.instance_id
        self.is_replaced = not member_id
        joined = await client.call(request, 5)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            request.member_id = joined.member_id
            joined = await client.call(request, 5)
        check(joined.error_code, joined)
        assert joined.generation_id >= generation_id, "a generation fell"
        written = (joined.member_id, joined.generation_id)
        self.identity.write(written)
        self.is_replaced = False
        # In a continuing group, a replaced member has its new id from the log. A rebalance is in the log when
        # its leader gets the SyncGroup response.
        goes_on = joined.generation_id == generation_id
        if goes_on:
            self.identity.acknowledge()
        sync = sync_request(self.group, *written, {joined.member_id: str(joined.generation_id).encode()})
        synced = await client.call(sync, 3)
        check(synced.error_code, synced)
        assert synced.assignment == str(joined.generation_id).encode(), synced
        if not goes_on:
            self.identity.acknowledge()

    async def verify(self, client: Client) -> None:
        self.offsets.found(await committed(client, self.group))
        acknowledged_id, acknowledged_generation = self.identity.value
        answer = await client.call(DescribeGroupsRequest(groups=[self.group]), 4)
        (group,) = answer.groups
        assert group.error_code == ErrorCode.NONE, group
        if not group.members:
            assert not acknowledged_id, f"{self.group}: {acknowledged_id} is gone: {group}"
            self.is_replaced = False
            self.identity = _at(self.identity, self.identity.value)
            return
        (member,) = group.members
        assert group.group_state == "Stable", group
        assert member.group_instance_id == self.instance_id
        assert member.member_id in {name for name, _ in self.identity.possible} or self.is_replaced, member
        # Its assignment is the generation that handed it out: the log had nothing newer.
        generation_id = int(member.member_assignment)
        assert generation_id >= acknowledged_generation, "a generation fell"
        beat = await client.call(heartbeat_request(self.group, member.member_id, generation_id), 3)
        assert beat.error_code == ErrorCode.NONE, (beat, self.identity.possible)
        self.is_replaced = False
        self.identity = _at(self.identity, (member.member_id, generation_id))


def _at(register: Register[tuple[str, int]], value: tuple[str, int]) -> Register[tuple[str, int]]:
    """Return a register with the found value, even if its response never arrived."""
    found = Register(value)
    found.acknowledged = register.acknowledged
    return found


class Transactional:
    """A transactional producer.

    Others may have transactions open in the same partitions. Before it verifies, all of them restart, which
    aborts their open transactions.
    """

    def __init__(self, transactor: Transactor, everybody: Sequence[Transactor], random: Random) -> None:
        self.acknowledged = 0
        self._transactor = transactor
        self._everybody = everybody
        self._random = random

    async def run(self, client: Client, answered: Callable[[], None]) -> None:
        if not self._transactor.has_begun:
            await self._transactor.begin(client)
        while True:
            await self._transactor.transact(client, commits=self._random.random() < 0.7)
            self.acknowledged += 1
            answered()

    async def verify(self, client: Client) -> None:
        for transactor in self._everybody:
            await transactor.begin(client)
        self._transactor.promises.settle(await self._transactor.look(client))


def actors(random: Random) -> list[Actor]:
    """What a round runs: each with its own source of randomness."""
    transactors = [Transactor(f"level-{level}", level=level) for level in (0, 2)]
    return [
        *(Committer(f"plain-{number}", Random(random.random()), deletes=False) for number in range(3)),
        *(Committer(f"deleting-{number}", Random(random.random()), deletes=True) for number in range(2)),
        *(Member(f"static-{number}", Random(random.random()), f"instance-{number}") for number in range(2)),
        Member("dynamic", Random(random.random()), None),
        *(Transactional(each, transactors, Random(random.random())) for each in transactors),
    ]
