"""The states of a transactional id, and the transitions between them.

A transactional id has one transaction at a time. It is **Empty** after a producer has got its producer id and
epoch, and **Ongoing** after the first partition was added. The end takes two steps. **PrepareCommit** or
**PrepareAbort** decides the outcome, which never changes. When each partition of the transaction has its marker,
**CompleteCommit** or **CompleteAbort** follows, and the next transaction can begin.

The coordinator aborts a transaction at its timeout, and when a new producer with the same transactional id starts.
Both increment the epoch, which fences the old producer.

The response to a producer with the current id and epoch, by state:

| request | Empty | Ongoing | PrepareCommit | PrepareAbort | CompleteCommit | CompleteAbort |
|---|---|---|---|---|---|---|
| InitProducerId | 0, next epoch | 51, aborts | 51 | 51 | 0, next epoch | 0, next epoch |
| AddPartitionsToTxn, AddOffsetsToTxn | 0 | 0 | 51 | 51 | 0 | 0 |
| the same, verifying only | 120 | 0 or 120 | 51 | 51 | 120 | 120 |
| EndTxn below v5, commit | 48 | 0 | 51 | 51 | 0 | 48 |
| EndTxn below v5, abort | 48 | 0 | 51 | 51 | 48 | 0 |
| EndTxn v5, commit | 48 | 0, next epoch | 51 | 51 | 48 | 48 |
| EndTxn v5, abort | 0, next epoch | 0, next epoch | 51 | 51 | 0, next epoch | 0, next epoch |
| EndTxn v5 repeated, commit | 90 | 90 | 51 | 51 | 0 | 48 |
| EndTxn v5 repeated, abort | 90 | 90 | 51 | 51 | 48 | 0 |

`TRANSITIONS` is the only list of transitions: `ShardTransactions.write_transition` asserts it, and the diagram in
the documentation is generated from it. Source: Kafka's `TransactionState`.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final


class TransactionState(Enum):
    """A state; its value is its name in DescribeTransactions and ListTransactions."""

    # Enum's own hash function hashes the name in Python, and every request looks up some states.
    __hash__ = object.__hash__

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


EMPTY: Final = TransactionState.EMPTY
ONGOING: Final = TransactionState.ONGOING
PREPARE_COMMIT: Final = TransactionState.PREPARE_COMMIT
PREPARE_ABORT: Final = TransactionState.PREPARE_ABORT
COMPLETE_COMMIT: Final = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT: Final = TransactionState.COMPLETE_ABORT
DEAD: Final = TransactionState.DEAD
PREPARE_EPOCH_FENCE: Final = TransactionState.PREPARE_EPOCH_FENCE

STATUSES: Final[Mapping[TransactionState, int]] = {
    state: number for number, state in enumerate(TransactionState)
}
"""The number of each state in the log."""

WRITTEN: Final[Mapping[int, TransactionState]] = {
    STATUSES[state]: state for state in TransactionState if state not in (DEAD, PREPARE_EPOCH_FENCE)
}
"""The states that records can have, by number."""

PREPARED: Final = frozenset((PREPARE_COMMIT, PREPARE_ABORT))
"""The outcome is decided, and markers are under way."""
MAY_EXPIRE: Final = frozenset((EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT))
"""No transaction is open: the transactional id may expire."""

MEANINGS: Final[Mapping[TransactionState, str]] = {
    EMPTY: "a producer has its id and epoch, and no transaction yet",
    ONGOING: "a transaction is open",
    PREPARE_COMMIT: "it is committed; not every partition has its marker",
    PREPARE_ABORT: "it is aborted; not every partition has its marker",
    COMPLETE_COMMIT: "it was committed, and every partition has its marker",
    COMPLETE_ABORT: "it was aborted, and every partition has its marker",
    DEAD: "the transactional id has expired and is gone; never written",
    PREPARE_EPOCH_FENCE: "between fencing and aborting, which are one step here; never entered",
}

TRANSITIONS: Final[Mapping[tuple[TransactionState, TransactionState], str]] = {
    (EMPTY, EMPTY): "InitProducerId",
    (EMPTY, ONGOING): "the first partition or group is added",
    (EMPTY, PREPARE_ABORT): "EndTxn v5 aborts, whatever was begun",
    (EMPTY, DEAD): "expiration",
    (ONGOING, ONGOING): "a partition or group is added",
    (ONGOING, PREPARE_COMMIT): "EndTxn commits",
    (ONGOING, PREPARE_ABORT): "EndTxn aborts, the timeout, or InitProducerId",
    (PREPARE_COMMIT, COMPLETE_COMMIT): "every marker is written",
    (PREPARE_ABORT, COMPLETE_ABORT): "every marker is written",
    (COMPLETE_COMMIT, EMPTY): "InitProducerId",
    (COMPLETE_COMMIT, ONGOING): "the first partition or group is added",
    (COMPLETE_COMMIT, PREPARE_ABORT): "EndTxn v5 aborts, whatever was begun",
    (COMPLETE_COMMIT, DEAD): "expiration",
    (COMPLETE_ABORT, EMPTY): "InitProducerId",
    (COMPLETE_ABORT, ONGOING): "the first partition or group is added",
    (COMPLETE_ABORT, PREPARE_ABORT): "EndTxn v5 aborts, whatever was begun",
    (COMPLETE_ABORT, DEAD): "expiration",
}
