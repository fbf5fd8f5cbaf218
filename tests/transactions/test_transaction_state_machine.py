import pytest

from coordinator.core.outcome import OutcomeBuilder
from coordinator.transactions.shard_transactions import ShardTransactions
from coordinator.transactions.transaction import TransactionMetadata
from coordinator.transactions.transaction_state_machine import (
    DEAD,
    MEANINGS,
    PREPARE_EPOCH_FENCE,
    STATUSES,
    TRANSITIONS,
    WRITTEN,
    TransactionState,
)
from docs import generate_state_machine
from protocol.records.transaction_state import TransactionLogValue
from tests.transactions.config import transaction_config
from tests.transactions.coordinator import START, TID


@pytest.mark.parametrize("source", WRITTEN.values())
@pytest.mark.parametrize("target", WRITTEN.values())
def test_a_transaction_takes_the_transitions_of_the_table_and_no_other(
    source: TransactionState, target: TransactionState
) -> None:
    transactions = ShardTransactions(transaction_config(), 1)
    value = TransactionLogValue(
        producer_id=1,
        producer_epoch=0,
        transaction_timeout_ms=1,
        transaction_status=STATUSES[source],
        transaction_partitions=[],
        transaction_last_update_timestamp_ms=0,
        transaction_start_timestamp_ms=0,
    )
    transaction = TransactionMetadata(TID, value)
    transactions.add_transaction(transaction)
    builder = OutcomeBuilder(START, transactions.durable.replay)
    if (source, target) in TRANSITIONS:
        transactions.write_transition(transaction, target, builder)
        assert transaction.state is target
        assert transactions.states[target] == 1
    else:
        with pytest.raises(AssertionError):
            transactions.write_transition(transaction, target, builder)
        assert transaction.state is source
        assert not builder.records


def test_every_state_has_a_meaning_and_the_number_that_kafka_writes() -> None:
    assert set(MEANINGS) == set(TransactionState)
    assert [STATUSES[state] for state in TransactionState] == list(range(8))
    assert set(TransactionState) - set(WRITTEN.values()) == {DEAD, PREPARE_EPOCH_FENCE}


def test_a_settled_outcome_has_one_end() -> None:
    for state, end in (("PrepareCommit", "CompleteCommit"), ("PrepareAbort", "CompleteAbort")):
        assert [target.value for source, target in TRANSITIONS if source.value == state] == [end]


def test_the_page_about_the_states_is_what_the_table_says() -> None:
    page = generate_state_machine.TRANSACTION
    assert page.path.read_text() == page.text()
