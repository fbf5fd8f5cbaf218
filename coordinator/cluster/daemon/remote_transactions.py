"""Transaction requests to other brokers: AddPartitionsToTxn to coordinators, and WriteTxnMarkers to the
owners of partitions.

This module never retries. It reports an unconfirmed marker as NOT_LEADER_OR_FOLLOWER, and
`TransactionMarkerManager` writes it again, to the current leader. A marker that is written twice changes
nothing.
Source: Kafka's `AddPartitionsToTxnManager` (KIP-890), `TransactionMarkerChannelManager`,
`TransactionMarkerRequestCompletionHandler`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from coordinator.apis.transaction_markers import OnMarkerWritten, TransactionEnd, TransactionMarkerWriter
from coordinator.apis.transaction_router import TransactionRouter
from coordinator.cluster.daemon.inter_broker_sender import (
    InterBrokerRequest,
    InterBrokerSender,
    PeerRequestDenied,
    PeerSecurity,
)
from coordinator.cluster.partition_ownership import PartitionOwnership
from coordinator.core.outcome import Context
from coordinator.core.reply import DeferReply, Reply
from coordinator.core.response_status import AWAITING_DISK, DeferredResponse
from coordinator.runtime.runtime import Runtime
from coordinator.transactions.transaction_requests import (
    AddPartitions,
    AddPartitionsResult,
    TransactionConfig,
    TransactionPartition,
)
from coordinator.transactions.transaction_shard import TransactionShard
from protocol.error_codes import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from protocol.primitives import Malformed
from storage.topic_partition import TopicPartition

ADD_PARTITIONS_VERSION: Final = 5

WRITE_TXN_MARKERS_VERSION: Final = 2
RETRIABLE_ERROR: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER


class RemoteAddPartitions(NamedTuple):
    """A request to add partitions, and its reply."""

    request: AddPartitions
    reply: Reply


class RemoteTransactionRouter(TransactionRouter):
    """Sends AddPartitions to the coordinator of a transaction, on this or another broker."""

    def __init__(
        self,
        runtime: Runtime[TransactionShard],
        config: TransactionConfig,
        ownership: PartitionOwnership,
        node_id: int,
        address: Callable[[int], tuple[str, int] | None],
        security: PeerSecurity,
    ) -> None:
        super().__init__(runtime, config)
        self._ownership = ownership
        self._node_id = node_id
        request = InterBrokerRequest(
            "AddPartitionsToTxnSender",
            ADD_PARTITIONS_VERSION,
            _create_add_partitions_request,
            _parse_add_partitions_response,
            _create_unanswered,
            _report_added,
        )
        self._sender: InterBrokerSender[RemoteAddPartitions, AddPartitionsResult] = InterBrokerSender(
            request, address, security
        )

    def ask_coordinator(
        self, transactional_id: str, request: Any, machine_context: Context, defer: DeferReply
    ) -> object | DeferredResponse:
        assert isinstance(request, AddPartitions)
        partition = self.runtime.find_partition(transactional_id).name
        if self._ownership.owns(self._node_id, partition):
            return super().ask_coordinator(transactional_id, request, machine_context, defer)
        owner = self._ownership.find_owner(partition)
        if owner is None or owner == self._node_id:
            return _set_all_errors(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self._sender.enqueue(owner, RemoteAddPartitions(request, defer(False)))
        return AWAITING_DISK

    def close(self) -> None:
        """Stop sending requests to other brokers."""
        self._sender.close()


def _create_add_partitions_request(additions: Sequence[RemoteAddPartitions]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=request.transactional_id,
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
                verify_only=request.verify_only,
                topics=_group_by_topic(request.partitions),
            )
            for request, _ in additions
        ]
    )


def _group_by_topic(partitions: Sequence[TransactionPartition]) -> list[AddPartitionsToTxnTopic]:
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    return [AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in by_topic.items()]


def _parse_add_partitions_response(
    additions: Sequence[RemoteAddPartitions], response: AddPartitionsToTxnResponse
) -> list[AddPartitionsResult]:
    """Return the results; the response has them in the order of the request."""
    if response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        raise PeerRequestDenied(
            "this broker's principal needs ClusterAction there: add an ACL, or list it in super.users"
        )
    if response.error_code != ErrorCode.NONE:
        return [_set_all_errors(request, ErrorCode(response.error_code)) for request, _ in additions]
    answers = []
    for (request, _), result in zip(additions, response.results_by_transaction, strict=True):
        errors = {
            (topic.name, part.partition_index): ErrorCode(part.partition_error_code)
            for topic in result.topic_results
            for part in topic.results_by_partition
        }
        answers.append(
            AddPartitionsResult(
                {(topic, number): errors[topic, number] for topic, number in request.partitions}
            )
        )
    return answers


def _create_unanswered(addition: RemoteAddPartitions) -> AddPartitionsResult:
    return _set_all_errors(addition.request, ErrorCode.NETWORK_EXCEPTION)


def _report_added(addition: RemoteAddPartitions, added: AddPartitionsResult) -> None:
    addition.reply.send(added)


def _set_all_errors(request: AddPartitions, error: ErrorCode) -> AddPartitionsResult:
    return AddPartitionsResult(dict.fromkeys(request.partitions, error))


class RemoteMarker(NamedTuple):
    """One marker, and the callback for its result."""

    partition: TopicPartition
    end: TransactionEnd
    on_done: OnMarkerWritten


class RemoteMarkerWriter:
    """Writes markers to the owners of their partitions. All methods belong to the event loop's thread."""

    def __init__(
        self,
        local_writer: TransactionMarkerWriter,
        ownership: PartitionOwnership,
        node_id: int,
        address: Callable[[int], tuple[str, int] | None],
        on_unknown_partition: Callable[[RemoteMarker], None],
        security: PeerSecurity,
    ) -> None:
        """Create a writer.

        Args:
            local_writer: Writes markers to the partitions of this broker.
            ownership: Ownership of partitions.
            node_id: Id of this broker.
            address: Returns host and port of a broker by node id; None if the broker is not live.
            on_unknown_partition: Takes a marker for a partition that is unknown here or has no leader, and reports
                its result.
            security: TLS and SASL of the connections.
        """
        self._local_writer = local_writer
        self._ownership = ownership
        self._node_id = node_id
        self._on_unknown_partition = on_unknown_partition
        request = InterBrokerRequest(
            "TxnMarkerSender",
            WRITE_TXN_MARKERS_VERSION,
            _create_markers_request,
            _parse_markers_response,
            lambda _: RETRIABLE_ERROR,
            _report_marker,
        )
        self._sender: InterBrokerSender[RemoteMarker, ErrorCode] = InterBrokerSender(
            request, address, security
        )

    def write_marker(
        self, partition: TopicPartition, end: TransactionEnd, on_written: OnMarkerWritten
    ) -> None:
        """Write one marker, here or on another broker."""
        if self._ownership.owns(self._node_id, partition):
            self._local_writer.write_marker(
                partition, end, partial(self._on_written_locally, RemoteMarker(partition, end, on_written))
            )
            return
        owner = self._ownership.find_owner(partition)
        if owner is None or owner == self._node_id:
            self._on_unknown_partition(RemoteMarker(partition, end, on_written))
        else:
            self._sender.enqueue(owner, RemoteMarker(partition, end, on_written))

    def _on_written_locally(self, marker: RemoteMarker, error: ErrorCode) -> None:
        """Report a local result. A topic deleted here may come back, if the cluster rejects the deletion."""
        if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._on_unknown_partition(marker)
        else:
            marker.on_done(error)

    def close(self) -> None:
        """Stop sending markers to other brokers."""
        self._sender.close()


def _create_markers_request(markers: Sequence[RemoteMarker]) -> WriteTxnMarkersRequest:
    """Create a request with one marker for each partition, so that the order identifies the results."""
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=end.producer_id,
                producer_epoch=end.producer_epoch,
                transaction_result=end.is_committed,
                topics=[
                    WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])
                ],
                coordinator_epoch=end.coordinator_epoch,
                transaction_version=end.transaction_version,
            )
            for partition, end, _ in markers
        ]
    )


def _parse_markers_response(
    markers: Sequence[RemoteMarker], response: WriteTxnMarkersResponse
) -> list[ErrorCode]:
    found = [
        ((result.producer_id, topic.name, part.partition_index), part.error_code)
        for result in response.markers
        for topic in result.topics
        for part in topic.partitions
    ]
    errors: list[ErrorCode] = []
    for (partition, end, _), (answered, code) in zip(markers, found, strict=True):
        if answered != (end.producer_id, partition.topic, partition.partition):
            raise Malformed(f"it answered for {answered} instead of {partition}")
        # The other broker may learn of a topic later than this one: only `on_unknown_partition` detects a deletion.
        error = ErrorCode(code)
        if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise PeerRequestDenied(
                "this broker's principal needs ClusterAction there: add an ACL, or list it in super.users"
            )
        errors.append(RETRIABLE_ERROR if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else error)
    return errors


def _report_marker(marker: RemoteMarker, error: ErrorCode) -> None:
    marker.on_done(error)
