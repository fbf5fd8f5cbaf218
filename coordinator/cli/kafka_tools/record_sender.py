"""Produces records like Kafka's producer: chooses their partitions, sends batches to the leaders, and retries
failed batches. Source: Kafka's `BuiltInPartitioner`, `Utils.murmur2`.
"""

import random
import sys
from collections.abc import Sequence
from typing import Any, Final

from coordinator.cli.kafka_tools.cluster_client import ClusterClient, Deadline, check_error
from coordinator.cli.kafka_tools.tool_errors import KafkaError, error_from_code
from protocol.error_codes import ErrorCode
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from storage.batch import encode_batch
from storage.record import Record

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_32_BITS: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return Kafka's hash of a key: 32 bits, not negative."""
    length = len(data)
    hash_ = _SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * _MULTIPLIER & _32_BITS
        word ^= word >> 24
        hash_ = hash_ * _MULTIPLIER & _32_BITS ^ word * _MULTIPLIER & _32_BITS
    if whole < length:
        hash_ = (hash_ ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _32_BITS
    hash_ ^= hash_ >> 13
    hash_ = hash_ * _MULTIPLIER & _32_BITS
    return hash_ ^ hash_ >> 15


class RecordPartitioner:
    """Chooses partitions. Records with equal keys share one; records without a key use a random one until
    `next_batch`."""

    def __init__(self, partitions: int) -> None:
        """Create a partitioner for a topic with this number of partitions."""
        self._partitions = partitions
        self._sticky = random.randrange(partitions)

    def choose(self, key: bytes | None) -> int:
        """Return the partition of a record."""
        return self._sticky if key is None else (murmur2(key) & 0x7FFFFFFF) % self._partitions

    def next_batch(self) -> None:
        """Choose another partition for records without a key."""
        self._sticky = random.randrange(self._partitions)


_RETRY_PAUSE_S: Final = 0.1
_DELIVERY_TIMEOUT_S: Final = 120.0
_UNKNOWN: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)


class RecordSender:
    """Sends records to one topic, which the broker may create."""

    def __init__(
        self, client: ClusterClient, topic: str, *, acks: int, codec: int, timeout_ms: int, max_block_s: float
    ) -> None:
        """Create a sender.

        Args:
            client: sends the requests.
            topic: the topic.
            acks: -1 or 1.
            codec: a codec of `storage.compression`.
            timeout_ms: the longest time in milliseconds that the broker waits for replicas.
            max_block_s: the longest wait for the topic in seconds.
        """
        self._client = client
        self._topic = topic
        self._acks = acks
        self._codec = codec
        self._timeout_ms = timeout_ms
        self._max_block_s = max_block_s
        self._leaders: dict[int, int] = {}
        self._partitioner: RecordPartitioner | None = None

    def send(self, records: Sequence[Record]) -> list[tuple[Record, KafkaError]]:
        """Send records. Return the records that the broker did not accept, each with its error."""
        try:
            partitioner = self._find_partitions()
        except KafkaError as error:
            return [(record, error) for record in records]
        waiting: dict[int, list[Record]] = {}
        for record in records:
            waiting.setdefault(partitioner.choose(record.key), []).append(record)
        partitioner.next_batch()
        failed: list[tuple[Record, KafkaError]] = []
        deadline = Deadline(_DELIVERY_TIMEOUT_S)
        while waiting:
            for partition, problem in self._send_once(waiting).items():
                if problem is not None and problem.is_retriable and deadline.left_s > _RETRY_PAUSE_S:
                    continue
                sent = waiting.pop(partition)
                failed += [] if problem is None else [(record, problem) for record in sent]
            if waiting:
                deadline.pause(_RETRY_PAUSE_S)
                self._leaders = {}
        return failed

    def _find_partitions(self) -> RecordPartitioner:
        """Return the partitioner of the topic. Raises KafkaError if the topic does not exist in time."""
        if self._partitioner is None:
            deadline = Deadline(self._max_block_s)
            while True:
                (topic,) = self._client.fetch_metadata([self._topic], creates=True).topics
                if topic.error_code == ErrorCode.NONE and topic.partitions:
                    break
                if topic.error_code not in _UNKNOWN:
                    check_error(topic)
                if not deadline.pause(_RETRY_PAUSE_S):
                    wait_ms = round(1000 * self._max_block_s)
                    message = f"Topic {self._topic} not present in metadata after {wait_ms} ms."
                    raise KafkaError(message, "TimeoutException")
            self._partitioner = RecordPartitioner(len(topic.partitions))
        return self._partitioner

    def _send_once(self, waiting: dict[int, list[Record]]) -> dict[int, KafkaError | None]:
        """Send all records once. Return the error of each partition, or None for a success."""
        outcome: dict[int, KafkaError | None] = {}
        by_leader: dict[int, list[int]] = {}
        try:
            if not self._leaders:
                found = self._client.fetch_leaders([self._topic])
                self._leaders = {partition: leader for (_, partition), leader in found.items()}
            for partition in waiting:
                by_leader.setdefault(self._leaders[partition], []).append(partition)
        except KafkaError as error:
            return dict.fromkeys(waiting, error)
        for leader, partitions in by_leader.items():
            try:
                answer = self._client.send_to_broker(leader, self._make_request(waiting, partitions))
            except KafkaError as error:
                outcome.update(dict.fromkeys(partitions, error))
                continue
            for each in answer.responses[0].partition_responses:
                outcome[each.index] = _error_or_none(each)
        return outcome

    def _make_request(self, waiting: dict[int, list[Record]], partitions: Sequence[int]) -> ProduceRequest:
        data = [
            PartitionProduceData(index=partition, records=encode_batch(waiting[partition], codec=self._codec))
            for partition in partitions
        ]
        return ProduceRequest(
            acks=self._acks,
            timeout_ms=self._timeout_ms,
            topic_data=[TopicProduceData(name=self._topic, partition_data=data)],
        )


def _error_or_none(answer: Any) -> KafkaError | None:
    return (
        None
        if answer.error_code == ErrorCode.NONE
        else error_from_code(answer.error_code, answer.error_message)
    )


def print_failures(topic: str, failed: Sequence[tuple[Record, KafkaError]]) -> None:
    """Print records that were not written on standard error. Source: Kafka's `ErrorLoggingCallback`."""
    for record, error in failed:
        key, size = _describe_size(record.key), _describe_size(record.value)
        print(
            f"ERROR Error when sending message to topic {topic} with key: {key}, value: {size} with error: "
            f"{error.qualified}",
            file=sys.stderr,
        )


def _describe_size(data: bytes | None) -> str:
    return "null" if data is None else f"{len(data)} bytes"
