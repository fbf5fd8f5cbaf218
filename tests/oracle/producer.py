"""A transactional producer with the state that a client keeps between requests."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from protocol.error_codes import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.oracle.batches import batch, produce_request
from tests.oracle.offsets import name_of
from tests.oracle.play import Play, Topic

OLD: Final = {"init": 4, "add": 3, "offsets": 3, "end": 4, "produce": 11, "commit": 4}
"""What a client speaks that adds partitions itself and keeps its epoch (TV1); Kafka 3.9 answers it too."""
NEW: Final = {"init": 5, "add": 3, "offsets": 4, "end": 5, "produce": 12, "commit": 5}
"""API versions of a client with an epoch bump at each end and implicitly added partitions (TV2)."""
NEW_LEVEL: Final = 2
"""The level of transactions of such a client."""
ENDED: Final = ("Empty", "CompleteCommit", "CompleteAbort")
TIMEOUT_MS: Final = 60_000

Fields: TypeAlias = dict[str, Any]
"""Fields of a message or a batch by name."""


def _by_topic(partitions: tuple[tuple[Topic | str, int], ...]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(name_of(topic), []).append(partition)
    return topics


@dataclass
class Producer:
    """A producer: its transactional id and the state from the coordinator's responses."""

    play: Play
    short: str = "t"
    versions: Mapping[str, int] = field(default_factory=OLD.copy)
    by: str = "a"
    timeout_ms: int = TIMEOUT_MS
    id: int = -1
    epoch: int = -1
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)

    @property
    def transactional_id(self) -> str:
        """As it is on the wire."""
        return self.play.name(self.short)

    def identity(self, **fields: Any) -> Fields:
        """Return the identity fields of its requests; `fields` override them."""
        own = {
            "transactional_id": self.transactional_id,
            "producer_id": self.id,
            "producer_epoch": self.epoch,
        }
        return own | fields

    def _ask(self, what: str, request: Any, note: str, version: int | None = None) -> Any:
        return self.play.ask(request, self.versions[what] if version is None else version, self.by, note)

    def _learn(self, answer: Any) -> Any:
        if answer is not None and answer.error_code == ErrorCode.NONE and answer.producer_id >= 0:
            if (answer.producer_id, answer.producer_epoch) != (self.id, self.epoch):
                self.sequences.clear()
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer

    # Requests to the coordinator

    def init(self, note: str = "", version: int | None = None, **fields: Any) -> Any:
        """InitProducerId without an id, unless the fields give one."""
        values: Fields = {
            "transactional_id": self.transactional_id,
            "transaction_timeout_ms": self.timeout_ms,
        }
        return self._learn(self._ask("init", InitProducerIdRequest(**values | fields), note, version))

    def init_again(self, note: str = "", version: int | None = None, **fields: Any) -> Any:
        """InitProducerId with the id and epoch that it has."""
        own = {"producer_id": self.id, "producer_epoch": self.epoch}
        return self.init(note, version, **own | fields)

    def add(
        self, *partitions: tuple[Topic | str, int], note: str = "", version: int | None = None, **fields: Any
    ) -> Any:
        """AddPartitionsToTxn as a client sends it."""
        topics = [
            AddPartitionsToTxnTopic(name=name, partitions=indexes)
            for name, indexes in _by_topic(partitions).items()
        ]
        own = self.identity(**fields)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=own["transactional_id"],
            v3_and_below_producer_id=own["producer_id"],
            v3_and_below_producer_epoch=own["producer_epoch"],
            v3_and_below_topics=topics,
        )
        return self._ask("add", request, note, version)

    def add_offsets(self, group: str = "", note: str = "", version: int | None = None, **fields: Any) -> Any:
        """AddOffsetsToTxn for a group, that of the session unless it is named."""
        own = self.identity(**{"group_id": group or self.play.group} | fields)
        return self._ask("offsets", AddOffsetsToTxnRequest(**own), note, version)

    def end(self, committed: bool = True, note: str = "", version: int | None = None, **fields: Any) -> Any:
        """Send EndTxn; after success, wait until the markers are written."""
        answer = self.end_now(committed, note, version, **fields)
        if answer is not None and answer.error_code == ErrorCode.NONE:
            self.settle()
        return answer

    def end_now(
        self, committed: bool = True, note: str = "", version: int | None = None, **fields: Any
    ) -> Any:
        """EndTxn; whether the markers are written by now is open."""
        note = note or ("commit" if committed else "abort")
        request = EndTxnRequest(**self.identity(committed=committed) | fields)
        return self._learn(self._ask("end", request, note, version))

    def settle(self, *states: str) -> None:
        """Waits until its transaction is over, or in one of these states."""
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])

        def reached() -> bool:
            answer = self.play.ask(request, 0, "watch")
            return answer.transaction_states[0].transaction_state in (states or ENDED)

        self.play.until(reached)

    def describe(self, note: str = "") -> Any:
        """Tells how its transaction stands."""
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        return self.play.ask(request, 0, "admin", note)

    # Records and offsets

    def records(self, topic: Topic | str, partition: int, count: int = 1, **fields: Any) -> bytes:
        """Return the next transactional batch of a partition; `fields` override its fields.

        An explicit sequence does not advance the producer's own sequence.
        """
        place = (name_of(topic), partition)
        sequence = self.sequences.get(place, 0)
        if "base_sequence" not in fields:
            self.sequences[place] = sequence + count
        values: Fields = {
            "value": b"v%d" % sequence,
            "time_ms": time.time_ns() // 1_000_000,
            "producer_id": self.id,
            "producer_epoch": self.epoch,
            "base_sequence": sequence,
            "is_transactional": True,
        }
        return batch(count, **values | fields)

    def produce(
        self,
        topic: Topic | str,
        partition: int = 0,
        count: int = 1,
        note: str = "",
        version: int | None = None,
        transactional_id: str | None = "",
        **fields: Any,
    ) -> Any:
        """Produce one batch; a rejected batch does not advance the sequence.

        `transactional_id` is that of the request, "" for the producer's own. `fields` override fields of the batch.
        """
        name = self.transactional_id if transactional_id == "" else transactional_id
        before = dict(self.sequences)
        data = self.records(topic, partition, count, **fields)
        request = produce_request((topic, partition, data), transactional_id=name)
        answer = self._ask("produce", request, note, version)
        if answer is None or answer.responses[0].partition_responses[0].error_code != ErrorCode.NONE:
            self.sequences = before
        return answer

    def commit_offsets(
        self,
        offsets: Mapping[tuple[Topic | str, int], int],
        note: str = "",
        version: int | None = None,
        metadata: str = "note",
        **fields: Any,
    ) -> Any:
        """TxnOffsetCommit of `{(topic, partition): offset}`; v6 names topics by their id."""
        version = self.versions["commit"] if version is None else version
        topics: dict[str, TxnOffsetCommitRequestTopic] = {}
        for (topic, partition), offset in offsets.items():
            entry = topics.setdefault(
                name_of(topic), TxnOffsetCommitRequestTopic(name=name_of(topic), partitions=[])
            )
            if version >= 6 and isinstance(topic, Topic):
                entry.topic_id = topic.id
            entry.partitions.append(
                TxnOffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=offset, committed_metadata=metadata
                )
            )
        values = self.identity(group_id=self.play.group, topics=list(topics.values())) | fields
        return self._ask("commit", TxnOffsetCommitRequest(**values), note, version)


def transactional(play: Play, short: str = "t", **fields: Any) -> Producer:
    """A producer that has its id and epoch; not recorded."""
    producer = Producer(play, short, **fields)
    with play.quietly():
        assert producer.init().error_code == ErrorCode.NONE
    return producer


def filled(producer: Producer, *partitions: tuple[Topic, int], count: int = 1) -> None:
    """Add partitions to its transaction and write a batch to each; not recorded."""
    with producer.play.quietly():
        if producer.versions["produce"] < NEW["produce"]:
            producer.add(*partitions)
        for topic, partition in partitions:
            answer = producer.produce(topic, partition, count)
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE, answer


def write_markers(
    play: Play,
    *partitions: tuple[Topic | str, int],
    note: str = "",
    version: int = 1,
    **fields: Any,
) -> Any:
    """Send WriteTxnMarkers with one marker as a client; `fields` override its fields."""
    topics = [
        WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
        for name, indexes in _by_topic(partitions).items()
    ]
    values: Fields = {"transaction_result": True, "topics": topics, "coordinator_epoch": 0} | fields
    return play.ask(WriteTxnMarkersRequest(markers=[WritableTxnMarker(**values)]), version, "admin", note)


def stuck(
    producer: Producer,
    topic: Topic,
    partition: int = 0,
    committed: bool = True,
    coordinator_epoch: int = 1000,
) -> None:
    """End the transaction so that it stays prepared, without recording the steps.

    The partition knows a later coordinator epoch and rejects the marker.
    """
    with producer.play.quietly():
        write_markers(
            producer.play,
            (topic, partition),
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            coordinator_epoch=coordinator_epoch,
        )
        producer.add((topic, partition))
        answer = producer.end_now(committed)
        assert answer.error_code == ErrorCode.NONE


def describe_producers(play: Play, *partitions: tuple[Topic | str, int], note: str = "") -> Any:
    """Record the active producers of partitions."""
    topics = [
        DescribeProducersTopicRequest(name=name, partition_indexes=indexes)
        for name, indexes in _by_topic(partitions).items()
    ]
    return play.ask(DescribeProducersRequest(topics=topics), 0, "admin", note)
