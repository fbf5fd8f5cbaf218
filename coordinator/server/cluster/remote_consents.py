"""Questions to coordinators of transactions at other brokers, sent with AddPartitionsToTxn (v4 and above).

Source: Kafka's `AddPartitionsToTxnManager` (KIP-890).
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from coordinator.answers import HELD, Later
from coordinator.cluster.ownership import Ownership
from coordinator.engine.place import Asker, Place
from coordinator.engine.runtime import Runtime
from coordinator.machine.outcome import Context
from coordinator.server.cluster.couriers import Couriers, Kind
from coordinator.server.cluster.peer_security import Denied, PeerSecurity
from coordinator.server.handlers.transaction_router import TransactionRouter
from coordinator.transactions.config import TransactionConfig
from coordinator.transactions.requests import AddPartitions, PartitionsAdded, TransactionPartition
from coordinator.transactions.shard import TransactionShard
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

VERSION: Final = 5


class Question(NamedTuple):
    """One question, and where its answer goes."""

    asked: AddPartitions
    place: Place


class RemoteConsents(TransactionRouter):
    """Asks the coordinator of a transaction, wherever that is, for one that asks with AddPartitions alone."""

    def __init__(
        self,
        runtime: Runtime[TransactionShard],
        config: TransactionConfig,
        ownership: Ownership,
        node_id: int,
        address: Callable[[int], tuple[str, int] | None],
        security: PeerSecurity,
    ) -> None:
        super().__init__(runtime, config)
        self._ownership = ownership
        self._node_id = node_id
        kind = Kind("AddPartitionsToTxnSender", VERSION, _request, _answers, _unanswered, _tell)
        self._couriers: Couriers[Question, PartitionsAdded] = Couriers(kind, address, security)

    def ask(self, transactional_id: str, request: Any, context: Context, asker: Asker) -> object | Later:
        """See `TransactionRouter`."""
        assert isinstance(request, AddPartitions)
        partition = self.runtime.partition_of(transactional_id).name
        if self._ownership.owns(self._node_id, partition):
            return super().ask(transactional_id, request, context, asker)
        owner = self._ownership.owner(partition)
        if owner is None or owner == self._node_id:
            return _all(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self._couriers.put(owner, Question(request, asker.answer_later(parks=False)))
        return HELD

    def close(self) -> None:
        """Asks no more."""
        self._couriers.close()


def _request(questions: Sequence[Question]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=asked.transactional_id,
                producer_id=asked.producer_id,
                producer_epoch=asked.producer_epoch,
                verify_only=asked.verify_only,
                topics=_topics(asked.partitions),
            )
            for asked, _ in questions
        ]
    )


def _topics(partitions: Sequence[TransactionPartition]) -> list[AddPartitionsToTxnTopic]:
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    return [AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in by_topic.items()]


def _answers(questions: Sequence[Question], response: AddPartitionsToTxnResponse) -> list[PartitionsAdded]:
    """Transactions are answered in the order in which they were asked."""
    if response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        raise Denied("this one's principal has no ClusterAction there (super.users, or an ACL)")
    if response.error_code != ErrorCode.NONE:
        return [_all(asked, ErrorCode(response.error_code)) for asked, _ in questions]
    answers = []
    for (asked, _), result in zip(questions, response.results_by_transaction, strict=True):
        errors = {
            (topic.name, part.partition_index): ErrorCode(part.partition_error_code)
            for topic in result.topic_results
            for part in topic.results_by_partition
        }
        answers.append(
            PartitionsAdded({(topic, number): errors[topic, number] for topic, number in asked.partitions})
        )
    return answers


def _unanswered(question: Question) -> PartitionsAdded:
    return _all(question.asked, ErrorCode.NETWORK_EXCEPTION)


def _tell(question: Question, added: PartitionsAdded) -> None:
    question.place.fill(added)


def _all(asked: AddPartitions, error: ErrorCode) -> PartitionsAdded:
    return PartitionsAdded(dict.fromkeys(asked.partitions, error))
