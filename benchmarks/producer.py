"""A transactional producer of newer clients (KIP-890) for benchmarks: each EndTxn response bumps its epoch.

It must use less CPU than any measured server. Therefore it encodes its requests once with a placeholder producer
and patches the real id and epoch in before each send. It decodes only the needed parts of responses.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from struct import Struct
from time import perf_counter
from typing import Any, Final

from benchmarks.connection import Connection, encode_frame
from benchmarks.flood import Measured
from benchmarks.member import TOPIC, Member
from benchmarks.process import Server
from protocol.codec import decode
from protocol.error_codes import ErrorCode
from protocol.framing import response_body_position
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from protocol.schema import message_info
from storage.batch import encode_batch
from storage.checksum import crc32c
from storage.record import Record

RECORDS: Final = 10
VALUE: Final = bytes(100)
FIND_VERSION, INIT_VERSION, PRODUCE_VERSION, COMMIT_VERSION, END_VERSION = 4, 5, 12, 5, 5
TIMEOUT_MS: Final = 60_000
BACKOFF_SECONDS: Final = 0.02
"""The retry backoff of clients while the last transaction is still completing."""
_NOT_YET: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
_TRANSACTION: Final = 1
_UINT32: Final = Struct(">I")
_ID_AND_EPOCH: Final = Struct(">qh")
_NOBODY: Final = (0x0123456789ABCDEF, 0x7654)
"""The placeholder id and epoch in encoded requests. They are adjacent in all requests and in a batch."""
_CRC_POSITION, _SIGNED_POSITION = 17, 21


@dataclass(frozen=True, slots=True)
class _Step:
    """A request of each transaction."""

    request: type[Any]
    response: type[Any]
    version: int
    frame: bytes
    batch: slice | None
    """The position of the records, for their checksum covers the producer."""

    @classmethod
    def encode(cls, request: Any, response: type[Any], version: int, records: bytes = b"") -> "_Step":
        """Encode a request for the placeholder producer. `records` are the records in it."""
        frame = encode_frame(request, version)
        begin = frame.find(records)
        batch = slice(begin, begin + len(records)) if records else None
        return cls(type(request), response, version, frame, batch)

    def of(self, producer_id: int, epoch: int) -> bytes:
        """Return the request for a producer."""
        frame = self.frame.replace(_ID_AND_EPOCH.pack(*_NOBODY), _ID_AND_EPOCH.pack(producer_id, epoch))
        if self.batch is None:
            return frame
        signed = bytearray(frame)
        begin, end = self.batch.start, self.batch.stop
        _UINT32.pack_into(signed, begin + _CRC_POSITION, crc32c(frame[begin + _SIGNED_POSITION : end]))
        return bytes(signed)

    def read(self, answer: bytes) -> Any:
        """Decode a response without its size prefix."""
        position = response_body_position(message_info(self.request).api_key, self.version, answer[4:])
        return decode(self.response, self.version, answer[4:], position)


class Producer:
    """A producer on its own connection. It commits for a one-member group and writes to one partition."""

    def __init__(self, connection: Connection, member: Member, partition: int) -> None:
        self.connection = connection
        self.transactional_id = f"transactional-{member.group_id}"
        self.id = self.epoch = -1
        self.latencies: list[float] = []
        """The seconds of each transaction, from its first request to its last response."""
        self.asked_again = 0
        """The number of retries because the previous transaction was still completing."""
        producer_id, epoch = _NOBODY
        records = encode_batch(
            [Record(0, 0, None, VALUE, ()) for _ in range(RECORDS)],
            leader_epoch=-1,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
            is_transactional=True,
        )
        data = [PartitionProduceData(index=partition, records=records)]
        produce = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=TOPIC, partition_data=data)],
        )
        offsets = [
            TxnOffsetCommitRequestPartition(
                partition_index=0, committed_offset=1234567, committed_leader_epoch=0, committed_metadata=""
            )
        ]
        commit = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=member.group_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id_or_member_epoch=member.generation_id,
            member_id=member.member_id,
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=offsets)],
        )
        end = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=True,
        )
        self._produce = _Step.encode(produce, ProduceResponse, PRODUCE_VERSION, records)
        self._commit = _Step.encode(commit, TxnOffsetCommitResponse, COMMIT_VERSION)
        self._end = _Step.encode(end, EndTxnResponse, END_VERSION)

    async def begin(self) -> None:
        """Get the producer id. Wait for the coordinator, since the first lookup creates its topic."""
        find = FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=[self.transactional_id])
        while True:
            found = await self.connection.request(find, FIND_VERSION, FindCoordinatorResponse)
            if found.coordinators[0].error_code == ErrorCode.NONE:
                break
            assert found.coordinators[0].error_code in _NOT_YET, found
            await asyncio.sleep(0.1)
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=TIMEOUT_MS
        )
        while True:
            answer = await self.connection.request(request, INIT_VERSION, InitProducerIdResponse)
            if answer.error_code == ErrorCode.NONE:
                self.id, self.epoch = answer.producer_id, answer.producer_epoch
                return
            assert answer.error_code in _NOT_YET, ErrorCode(answer.error_code)
            await asyncio.sleep(0.1)

    async def transact(self) -> None:
        """Run one transaction: ten records and an offset commit."""
        began = perf_counter()
        while True:
            (topic,) = (await self._ask(self._produce)).responses
            if topic.partition_responses[0].error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                break
            self.asked_again += 1
            await asyncio.sleep(BACKOFF_SECONDS)
        _check(topic.partition_responses[0].error_code)
        (topic,) = (await self._ask(self._commit)).topics
        _check(topic.partitions[0].error_code)
        ended = await self._ask(self._end)
        _check(ended.error_code)
        self.id, self.epoch = ended.producer_id, ended.producer_epoch
        self.latencies.append(perf_counter() - began)

    async def _ask(self, step: _Step) -> Any:
        return step.read(await self.connection.exchange(step.of(self.id, self.epoch)))

    async def keep_on(self, until: float) -> None:
        """Run consecutive transactions; start none after `until`."""
        while perf_counter() < until:
            await self.transact()


def _check(error_code: int) -> None:
    assert error_code == ErrorCode.NONE, f"refused: {ErrorCode(error_code).name}"


@dataclass(frozen=True)
class Transacted(Measured):
    """The measurements of some producers; the requests are transactions."""

    asked_again: float
    """The average number of retries before a transaction could begin."""


async def keep_transacting(server: Server, producers: Sequence[Producer], seconds: float) -> Transacted:
    """Run all producers at once. Raise on a wrong response."""
    for producer in producers:
        producer.latencies, producer.asked_again = [], 0
    cpu_before, began = server.cpu_seconds(), perf_counter()
    await asyncio.gather(*map(partial(Producer.keep_on, until=began + seconds), producers))
    cpu_seconds, wall_seconds = server.cpu_seconds() - cpu_before, perf_counter() - began
    latencies = sorted(latency for producer in producers for latency in producer.latencies)
    return Transacted(
        requests=len(latencies),
        wall_seconds=wall_seconds,
        cpu_seconds=cpu_seconds,
        latencies=latencies,
        asked_again=sum(producer.asked_again for producer in producers) / len(latencies),
    )
