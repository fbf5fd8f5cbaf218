"""What must hold between calls, written down so that simulations and tests can ask for it at every step.

The cheap parts are also asserted where the code runs. These look at every transactional id.
"""

from collections import Counter

from coordinator.transactions.state import ONGOING, PREPARED
from coordinator.transactions.transaction import Transaction, partitions_of
from coordinator.transactions.transactions import Transactions


def check_invariants(transactions: Transactions) -> None:
    """Raise AssertionError naming the transactional id when something is not as it must be."""
    values = transactions.durable.values
    assert transactions.by_id.keys() == values.keys(), "the ids in memory and in the log"
    for transactional_id, transaction in transactions.by_id.items():
        assert transactional_id == transaction.transactional_id, transactional_id
        assert transaction.value is values[transactional_id], transactional_id
        _check(transaction)
    open_ones = {name for name, one in transactions.by_id.items() if one.state is ONGOING}
    assert transactions.open.keys() == open_ones, "the open ones"
    states = Counter(transaction.state for transaction in transactions.by_id.values())
    assert +transactions.states == states, "how many are in which state"
    assert transactions.timeouts.is_armed or not transactions.open, "who looks after timeouts"
    assert transactions.expirations.is_armed or not transactions.by_id, "who looks after expiration"


def _check(transaction: Transaction) -> None:
    name, value = transaction.transactional_id, transaction.value
    written = set(partitions_of(value))
    assert len(written) == len(partitions_of(value)), (name, "a partition twice")
    if transaction.state is ONGOING:
        assert transaction.partitions == written, (name, "the partitions of an open transaction")
    elif transaction.state in PREPARED:
        assert transaction.partitions, (name, "nothing to wait for")
        assert transaction.partitions <= written, (name, "the partitions without marker")
    else:
        assert not transaction.partitions, (name, "partitions of no transaction")
        assert not written, (name, "partitions of no transaction in the log")
    has_next = value.next_producer_id != -1
    assert not has_next or transaction.state in PREPARED, (name, "a next producer id that is not due")
