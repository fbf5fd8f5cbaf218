"""WriteTxnMarkers: what brokers tell each other, and `kafka-transactions.sh abort` tells them.

Source: Kafka's `KafkaApis.handleWriteTxnMarkersRequest`.
"""

from collections.abc import Iterator
from functools import partial

from coordinator.answers import HELD, Later
from coordinator.names import TRANSACTION_STATE
from coordinator.net.caller import Caller
from coordinator.net.run_queue import RunQueue
from coordinator.server.handlers.merge import Combining, Merge, Part, Put
from coordinator.server.marker_writer import TransactionEnd, WritesMarkers
from protocol.errors import ErrorCode
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from storage.topic_partition import TopicPartition


class WriteTxnMarkersHandler:
    """Answers WriteTxnMarkers."""

    def __init__(self, writer: WritesMarkers, run_queue: RunQueue) -> None:
        self._writer = writer
        self._run_queue = run_queue

    def handle(self, request: WriteTxnMarkersRequest, caller: Caller) -> object:
        """Each marker in each partition, by itself."""

        def ask() -> Iterator[Put]:
            for marker in request.markers:
                end = _end(marker)
                for topic in marker.topics:
                    for number in topic.partition_indexes:
                        yield partial(self._write, TopicPartition(topic.name, number), end)

        def combine(answers: list[ErrorCode]) -> Combining:
            errors = iter(answers)
            markers = []
            for marker in request.markers:
                if not any(topic.partition_indexes for topic in marker.topics):
                    continue  # as in Kafka
                topics = []
                for topic in marker.topics:
                    results = [
                        WritableTxnMarkerPartitionResult(partition_index=number, error_code=next(errors))
                        for number in topic.partition_indexes
                    ]
                    topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=results))
                    yield
                markers.append(WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics))
            return WriteTxnMarkersResponse(markers=markers)

        return Merge(combine, self._run_queue, caller.api_version).answer(ask(), caller)

    def _write(self, partition: TopicPartition, end: TransactionEnd, part: Part) -> object | Later:
        if end.producer_id < 0 or end.producer_epoch < 0:
            return ErrorCode.UNKNOWN_SERVER_ERROR  # as Kafka says it
        if partition.topic == TRANSACTION_STATE:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self._writer.write(partition, end, part.answer_later(parks=False).fill)
        return HELD


def _end(marker: WritableTxnMarker) -> TransactionEnd:
    return TransactionEnd(
        marker.producer_id,
        marker.producer_epoch,
        marker.coordinator_epoch,
        marker.transaction_result,
        marker.transaction_version,
    )
