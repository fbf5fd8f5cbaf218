"""A producer whose transactions write one number everywhere, and the promises that it got.

Transaction n writes the record n to each of `PARTITIONS` and commits the offset n for its group. So read_committed
consumers find the same list in every partition, and its last number is the group's offset. The list holds every
acknowledged transaction and none that was aborted or given up.
"""

import asyncio
from collections.abc import Awaitable, Callable
from copy import copy as copy_of
from typing import Any, Final

from coordinator.core import clock
from protocol.error_codes import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from storage.batch import decode_records, walk_batches
from tests.broker.harness import Client
from tests.topics.transacting import transactional

TOPICS: Final = [("orders", 2), ("payments", 1)]
PARTITIONS: Final = [(name, number) for name, count in TOPICS for number in range(count)]
TIMEOUT_S: Final = 60
PAUSE_S: Final = 0.005
NOTHING: Final = -1
TRANSACTION_CAPABLE: Final = 2
"""The level of `transaction.version` at which each end raises the epoch, and partitions add themselves."""
KEY_OF_TRANSACTIONS: Final = 1
READ_COMMITTED: Final = 1
RETRIED: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
}
"""What a client asks again for, until the call's time is up."""

Ask = Callable[[], Awaitable[ErrorCode]]


class Promises:
    """What may be found of the transactions of one producer."""

    def __init__(self) -> None:
        self.committed: set[int] = set()
        """Acknowledged."""
        self.possible: set[int] = set()
        """The acknowledged transactions and those with a sent commit."""

    def check(self, found: "Found") -> None:
        """Raises AssertionError where a promise was broken, or a transaction is there in part."""
        first = found.numbers[PARTITIONS[0]]
        assert all(numbers == first for numbers in found.numbers.values()), found.numbers
        assert first == sorted(set(first)), first
        assert self.committed <= set(first) <= self.possible, (self.committed, first, self.possible)
        assert found.offset == max(first, default=NOTHING), (found.offset, first)

    def settle(self, found: "Found") -> None:
        """Check the found state, and use it as the expected state from now on."""
        self.check(found)
        self.committed = set(found.numbers[PARTITIONS[0]])
        self.possible = set(self.committed)

    def copy(self) -> "Promises":
        """As they are now."""
        copy = Promises()
        copy.committed, copy.possible = set(self.committed), set(self.possible)
        return copy


class Found:
    """What is committed: numbers by partition, and the group's offset."""

    def __init__(self, numbers: dict[tuple[str, int], list[int]], offset: int) -> None:
        self.numbers = numbers
        self.offset = offset


class Transactor:
    """One transactional id and its group."""

    def __init__(
        self,
        transactional_id: str = "t",
        *,
        level: int = 2,
    ) -> None:
        """Create a producer that knows this `level` of `transaction.version`."""
        self.transactional_id = transactional_id
        self.group = f"group-{transactional_id}"
        self.promises = Promises()
        self.number = 0
        self.learn(level)
        self._producer_id = self._epoch = -1
        self._sequences = dict.fromkeys(PARTITIONS, 0)

    def copy(self) -> "Transactor":
        """As it is now."""
        copy = copy_of(self)
        copy.promises = self.promises.copy()
        copy._sequences = dict(self._sequences)
        return copy

    def learn(self, level: int) -> None:
        """It connects to a broker of this level of `transaction.version`."""
        self._is_capable = level >= TRANSACTION_CAPABLE

    @property
    def has_begun(self) -> bool:
        """Whether it has a producer id."""
        return self._producer_id >= 0

    async def begin(self, client: Client) -> None:
        """Start a new epoch, which aborts an open transaction."""

        async def ask() -> ErrorCode:
            find = FindCoordinatorRequest(key=self.transactional_id, key_type=KEY_OF_TRANSACTIONS)
            found = await client.call(find, 3)
            if found.error_code:
                return ErrorCode(found.error_code)
            request = InitProducerIdRequest(
                transactional_id=self.transactional_id, transaction_timeout_ms=60_000
            )
            answer = await client.call(request, 5)
            self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
            return ErrorCode(answer.error_code)

        await until_answered(ask)
        self._sequences = dict.fromkeys(PARTITIONS, 0)

    async def write(self, client: Client) -> None:
        """Begins the next transaction: its records and its offset."""
        self.number += 1
        if not self._is_capable:
            await until_answered(lambda: self._add_partitions(client))
        for name, number in PARTITIONS:
            await until_answered(lambda name=name, number=number: self._produce(client, name, number))  # type: ignore[misc]
            self._sequences[name, number] += 1
        if not self._is_capable:
            await until_answered(lambda: self._add_offsets(client))
        await until_answered(lambda: self._commit_offset(client))

    async def end(self, client: Client, *, commits: bool = True) -> None:
        """Ends it; after a commit it is promised."""
        if commits:
            self.promises.possible.add(self.number)
        await until_answered(lambda: self.ask_end(client, commits=commits))
        if commits:
            self.promises.committed.add(self.number)

    async def transact(self, client: Client, *, commits: bool = True) -> None:
        """One whole transaction."""
        await self.write(client)
        await self.end(client, commits=commits)

    def end_request(self, *, commits: bool = True) -> tuple[EndTxnRequest, int]:
        """EndTxn, and its version."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=commits,
        )
        return request, 5 if self._is_capable else 3

    async def ask_end(self, client: Client, *, commits: bool = True) -> ErrorCode:
        """The answer to one EndTxn."""
        answer = await client.call(*self.end_request(commits=commits))
        if not answer.error_code and self._is_capable:
            self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
            self._sequences = dict.fromkeys(PARTITIONS, 0)
        return ErrorCode(answer.error_code)

    async def _add_partitions(self, client: Client) -> ErrorCode:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=list(range(count))) for name, count in TOPICS
            ],
        )
        answer = await client.call(request, 3)
        return worst(
            part.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for part in topic.results_by_partition
        )

    async def _produce(self, client: Client, name: str, number: int) -> ErrorCode:
        records = transactional(
            self._producer_id,
            self._epoch,
            self._sequences[name, number],
            value=f"{self.transactional_id} {self.number}".encode(),
            time_ms=clock.now().wall_ms,
        )
        request = produce_request(self.transactional_id, name, number, records)
        answer = await client.call(request, 12 if self._is_capable else 10)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    async def _add_offsets(self, client: Client) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            group_id=self.group,
        )
        return ErrorCode((await client.call(request, 3)).error_code)

    async def _commit_offset(self, client: Client) -> ErrorCode:
        part = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=self.number, committed_metadata=""
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=self.group,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[part])],
        )
        answer = await client.call(request, 5 if self._is_capable else 3)
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    async def look(self, client: Client) -> Found:
        """All that is committed, once nothing is open any more in the partitions and in the group."""
        prefix = f"{self.transactional_id} "
        numbers = {
            place: [
                int(value.removeprefix(prefix))
                for value in await committed_values(client, *place)
                if value.startswith(prefix)
            ]
            for place in PARTITIONS
        }
        offset = NOTHING

        async def ask() -> ErrorCode:
            nonlocal offset
            topic = OffsetFetchRequestTopic(name="orders", partition_indexes=[0])
            request = OffsetFetchRequest(group_id=self.group, topics=[topic], require_stable=True)
            answer = await client.call(request, 7)
            if answer.error_code:
                return ErrorCode(answer.error_code)
            part = answer.topics[0].partitions[0]
            offset = part.committed_offset
            return ErrorCode(part.error_code)

        await until_answered(ask)
        return Found(numbers, offset)


def produce_request(transactional_id: str, name: str, number: int, records: bytes) -> ProduceRequest:
    """Batches of a transaction for one partition."""
    part = PartitionProduceData(index=number, records=records)
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[TopicProduceData(name=name, partition_data=[part])],
    )


def worst(codes: Any) -> ErrorCode:
    """The first error of several answers."""
    return next((ErrorCode(code) for code in codes if code), ErrorCode.NONE)


async def until_answered(ask: Ask, wait_s: float = TIMEOUT_S) -> None:
    """Retry for as long as a client would.

    Raises AssertionError for an error that clients do not retry, and after `wait_s`: for endless
    CONCURRENT_TRANSACTIONS or an open transaction that never ends.
    """
    now_s = asyncio.get_running_loop().time
    last_s = now_s() + wait_s
    # Not asyncio.timeout: before Python 3.12 a wait within, over in the same moment, swallows its cancellation.
    while (error := await ask()) is not ErrorCode.NONE:
        assert error in RETRIED, error
        assert now_s() < last_s, f"{error.name} for ever"
        await asyncio.sleep(PAUSE_S)


async def committed_values(client: Client, name: str, number: int, wait_s: float = TIMEOUT_S) -> list[str]:
    """Return the records of a read_committed consumer, once it can read to the end."""
    data, offset, end = b"", 0, 1
    aborted: set[tuple[int, int]] = set()

    async def ask() -> ErrorCode:
        nonlocal data, offset, end
        part = FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=10_000_000)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            isolation_level=READ_COMMITTED,
            topics=[FetchTopic(topic=name, partitions=[part])],
        )
        fetched = (await client.call(request, 11)).responses[0].partitions[0]
        if fetched.error_code:
            return ErrorCode(fetched.error_code)
        if fetched.last_stable_offset != fetched.high_watermark:
            return ErrorCode.UNSTABLE_OFFSET_COMMIT
        for _, header in walk_batches(fetched.records):
            offset = header.next_offset
        data += fetched.records
        aborted.update((each.producer_id, each.first_offset) for each in fetched.aborted_transactions)
        end = fetched.high_watermark
        return ErrorCode.NONE

    while offset < end:
        await until_answered(ask, wait_s)
    return without_aborted(data, aborted)


def without_aborted(data: bytes, aborted: set[tuple[int, int]]) -> list[str]:
    """The values of fetched batches, as a consumer takes out those of aborted transactions."""
    to_come = sorted(aborted, key=lambda each: each[1])
    is_aborting: set[int] = set()
    found: list[str] = []
    for position, header in walk_batches(data):
        while to_come and to_come[0][1] <= header.last_offset:
            is_aborting.add(to_come.pop(0)[0])
        if header.is_control:
            is_aborting.discard(header.producer_id)
        elif header.producer_id not in is_aborting:
            found += [(record.value or b"").decode() for record in decode_records(data[position:], header)]
    return found
