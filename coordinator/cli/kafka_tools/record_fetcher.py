"""Fetches the records of partitions from their leaders, each partition from a position on."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from coordinator.cli.kafka_tools.cluster_client import ClusterClient, pause
from coordinator.cli.kafka_tools.offset_requests import TopicPartition, require_offsets
from coordinator.cli.kafka_tools.tool_errors import KafkaError, error_from_code
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from storage.batch import BatchHeader, check_crc, decode_records, walk_batches
from storage.producers.end_transaction_marker import ABORT, parse_marker_type
from storage.record import Record

READ_COMMITTED: Final = 1
_MAX_BYTES: Final = 50 * 1024 * 1024
_PARTITION_BYTES: Final = 1024 * 1024
_RETRY_PAUSE_S: Final = 0.1
_MOVED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)


class FetchedRecord(NamedTuple):
    """A record with its partition and offset."""

    topic: str
    partition: int
    record: Record
    is_append_time: bool
    """Whether the broker set the timestamp."""


class RecordFetcher:
    """Reads partitions. `positions` are the offsets of the next records to fetch."""

    def __init__(self, client: ClusterClient, isolation_level: int, reset_to: int | None) -> None:
        """Create a fetcher.

        Args:
            client: sends the requests.
            isolation_level: 0, or READ_COMMITTED.
            reset_to: start of partitions with an out-of-range position: LATEST or EARLIEST; None: an error.
        """
        self._client = client
        self.isolation_level = isolation_level
        self._reset_to = reset_to
        self._leaders: dict[TopicPartition, int] = {}
        self.positions: dict[TopicPartition, int] = {}

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Replace the assigned partitions and their positions."""
        self.positions = dict(positions)

    def fetch(self, max_wait_ms: int) -> list[FetchedRecord]:
        """Return the records that arrive in time, and move the positions behind them. Raises KafkaError."""
        by_leader = self._find_leaders()
        records: list[FetchedRecord] = []
        for leader, partitions in by_leader.items():
            request = self._make_request(partitions, max_wait_ms // len(by_leader))
            try:
                answer = self._client.send_to_broker(leader, request, "fetch")
            except KafkaError as error:
                if error.error_code != ErrorCode.NETWORK_EXCEPTION:
                    raise
                self._leaders = {}
                continue
            if answer.error_code != ErrorCode.NONE:
                raise error_from_code(answer.error_code)
            for topic in answer.responses:
                for each in topic.partitions:
                    records += self._take_records((topic.topic, each.partition_index), each)
        if not records and not all(partition in self._leaders for partition in self.positions):
            pause(_RETRY_PAUSE_S)
        return records

    def _find_leaders(self) -> dict[int, list[TopicPartition]]:
        """Return the partitions by their leaders; a partition without a leader is left out."""
        if not all(partition in self._leaders for partition in self.positions):
            self._leaders = {}
            for topic in self._client.fetch_topics(sorted({topic for topic, _ in self.positions})):
                if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    raise KafkaError(
                        f"Not authorized to access topics: [{topic.name}]", "TopicAuthorizationException"
                    )
                for each in topic.partitions:
                    if each.leader_id >= 0:
                        self._leaders[topic.name, each.partition_index] = each.leader_id
        found: dict[int, list[TopicPartition]] = {}
        for partition in self.positions:
            if partition in self._leaders:
                found.setdefault(self._leaders[partition], []).append(partition)
        return found

    def _make_request(self, partitions: Iterable[TopicPartition], max_wait_ms: int) -> FetchRequest:
        topics: dict[str, list[FetchPartition]] = {}
        for topic, partition in partitions:
            offset = self.positions[topic, partition]
            topics.setdefault(topic, []).append(
                FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=_PARTITION_BYTES)
            )
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=_MAX_BYTES,
            isolation_level=self.isolation_level,
            topics=[FetchTopic(topic=name, partitions=each) for name, each in topics.items()],
        )

    def _take_records(self, partition: TopicPartition, answer: Any) -> list[FetchedRecord]:
        """Return the records in the response of one partition, and move its position."""
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and self._reset_to is not None:
            self.positions |= require_offsets(self._client, {partition: self._reset_to}, self.isolation_level)
            return []
        if answer.error_code in _MOVED:
            self._leaders.pop(partition, None)
            return []
        if answer.error_code != ErrorCode.NONE:
            raise error_from_code(answer.error_code)
        data = bytes(answer.records or b"")
        aborted = _AbortedProducers(answer.aborted_transactions or ())
        position = self.positions[partition]
        records: list[FetchedRecord] = []
        for start, header in walk_batches(data):
            check_crc(data, start, header)
            batch = data[start : start + header.size_bytes]
            if aborted.admits(header, batch):
                records += [
                    FetchedRecord(*partition, record, header.is_log_append_time)
                    for record in decode_records(batch, header)
                    if record.offset >= position
                ]
            self.positions[partition] = max(position, header.next_offset)
        return records


class _AbortedProducers:
    """The aborted transactions among the batches of a response. Source: Kafka's `CompletedFetch`."""

    def __init__(self, transactions: Iterable[Any]) -> None:
        self._waiting = sorted(((each.first_offset, each.producer_id) for each in transactions), reverse=True)
        self._aborted: set[int] = set()

    def admits(self, header: BatchHeader, batch: bytes) -> bool:
        """Return whether a batch has records for the consumer. Batches must come in the order of their
        offsets."""
        while self._waiting and self._waiting[-1][0] <= header.last_offset:
            self._aborted.add(self._waiting.pop()[1])
        if header.is_control:
            if any(parse_marker_type(record) == ABORT for record in decode_records(batch, header)):
                self._aborted.discard(header.producer_id)
            return False
        return not (header.is_transactional and header.producer_id in self._aborted)
