"""Markers for partitions that other brokers lead, sent to them with WriteTxnMarkers.

Nothing is repeated here: of a marker that may not have been written it is said that whoever was asked is not the
leader, and `Markers` writes it again, to whoever leads the partition by then. One that is written twice changes
nothing.

Source: Kafka's `TransactionMarkerChannelManager`, `TransactionMarkerRequestCompletionHandler`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from coordinator.cluster.ownership import Ownership
from coordinator.server.cluster.couriers import Couriers, Kind
from coordinator.server.cluster.peer_security import Denied, PeerSecurity
from coordinator.server.marker_writer import Done, TransactionEnd, WritesMarkers
from protocol.errors import ErrorCode
from protocol.malformed import Malformed
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from storage.topic_partition import TopicPartition

VERSION: Final = 2
AGAIN: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER


class Marker(NamedTuple):
    """One marker, and who is told what came of it."""

    partition: TopicPartition
    end: TransactionEnd
    done: Done


class RemoteMarkers:
    """Writes markers wherever they belong. All methods belong to the event loop's thread."""

    def __init__(
        self,
        own: WritesMarkers,
        ownership: Ownership,
        node_id: int,
        address: Callable[[int], tuple[str, int] | None],
        look: Callable[[Marker], None],
        security: PeerSecurity,
    ) -> None:
        """In: who writes those of this broker, `node_id`; where others are; who finds out what is to be said of a
        marker for a partition that nobody leads, or that is not known here; what is shown to others."""
        self._own = own
        self._ownership = ownership
        self._node_id = node_id
        self._look = look
        kind = Kind("TxnMarkerSender", VERSION, _request, _answers, lambda _: AGAIN, _tell)
        self._couriers: Couriers[Marker, ErrorCode] = Couriers(kind, address, security)

    def write(self, partition: TopicPartition, end: TransactionEnd, done: Done) -> None:
        """Writes one marker."""
        if self._ownership.owns(self._node_id, partition):
            self._own.write(partition, end, partial(self._written_here, Marker(partition, end, done)))
            return
        owner = self._ownership.owner(partition)
        if owner is None or owner == self._node_id:
            self._look(Marker(partition, end, done))
        else:
            self._couriers.put(owner, Marker(partition, end, done))

    def _written_here(self, marker: Marker, error: ErrorCode) -> None:
        """A topic that is deleted here may come back, if the cluster does not take that."""
        if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            self._look(marker)
        else:
            marker.done(error)

    def close(self) -> None:
        """Sends no more."""
        self._couriers.close()


def _request(markers: Sequence[Marker]) -> WriteTxnMarkersRequest:
    """One marker for each partition, so that answers are told apart by their order."""
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


def _answers(markers: Sequence[Marker], response: WriteTxnMarkersResponse) -> list[ErrorCode]:
    found = [
        ((result.producer_id, topic.name, part.partition_index), part.error_code)
        for result in response.markers
        for topic in result.topics
        for part in topic.partitions
    ]
    errors: list[ErrorCode] = []
    for (partition, end, _), (told, code) in zip(markers, found, strict=True):
        if told != (end.producer_id, partition.topic, partition.partition):
            raise Malformed(f"it answered for {told}, and was asked for {partition}")
        # The other one may know of topics later than this broker does: only `look` says that one is gone.
        error = ErrorCode(code)
        if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise Denied("this one's principal has no ClusterAction there (super.users, or an ACL)")
        errors.append(AGAIN if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else error)
    return errors


def _tell(marker: Marker, error: ErrorCode) -> None:
    marker.done(error)
