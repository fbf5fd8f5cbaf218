"""The soft half of a shard, made from the durable one after the log was read.

What has ended and may lack markers has all of them written again, with this load's coordinator epoch. What is open
stays open, and its time runs from when it began. Epochs before the present ones are forgotten, as in Kafka.

Source: Kafka's `TransactionStateManager.loadTransactionsForTxnTopicPartition`.
"""

from collections import Counter

from coordinator.machine.turn import Turn
from coordinator.transactions.ending import markers_of, send_markers
from coordinator.transactions.events import MarkersSentAgain, RecordsSkipped
from coordinator.transactions.expire import arm_expiration
from coordinator.transactions.state import PREPARE_COMMIT, PREPARED
from coordinator.transactions.timeouts import arm_timeouts
from coordinator.transactions.transaction import Transaction
from coordinator.transactions.transactions import Transactions


def load_transactions(transactions: Transactions, turn: Turn) -> None:
    """Every transactional id that the log knows."""
    assert not transactions.by_id, "a shard is loaded once, before it is used"
    ended = []
    for transactional_id, value in transactions.durable.values.items():
        transaction = Transaction(transactional_id, value)
        transactions.take_in(transaction)
        if transaction.state in PREPARED:
            ended.append(transaction)
    for transaction in ended:
        turn.tell(
            MarkersSentAgain(
                transaction.transactional_id,
                transaction.producer_id,
                transaction.producer_epoch,
                transaction.state is PREPARE_COMMIT,
                len(transaction.partitions),
            )
        )
    turn.messages = [markers_of(transactions, one) for one in ended if one.partitions]
    for transaction in ended:
        if not transaction.partitions:
            send_markers(transactions, transaction, turn)
    skipped = Counter(value.version for value in transactions.durable.skipped)
    for version, count in sorted(skipped.items()):
        turn.tell(RecordsSkipped(version, count))
    if transactions.open:
        arm_timeouts(transactions, turn)
    if transactions.by_id:
        arm_expiration(transactions, turn)
