"""One transactional id: what the log says of it, and what only memory knows.

**Apply at once, answer when durable.** Kafka's coordinator appends a record first and changes its memory when the
append is acknowledged. In between, the transactional id has a *pending state*, and almost every request about it
is told CONCURRENT_TRANSACTIONS (51). Here a record is applied as it is made, and whoever hears of it, or of
anything that stands on it, hears it once the log is durable to that point. What is left of Kafka's pending states:

* **Empty, Ongoing** (InitProducerId, AddPartitions): nothing. Who comes meanwhile is answered as if the append
  were done, a little later than 51 would have come and without the retry. Two InitProducerId at once get two
  epochs, as they would one after the other, and the later one counts.
* **PrepareEpochFence** (fencing, by a timeout or by InitProducerId over an open transaction): fencing and
  aborting are one step, so that nobody sees it. The asker of an InitProducerId is still told 51 when the abort is
  durable: the epoch of the fence is not for it, and it gets the next one when it asks again.
* **CompleteCommit, CompleteAbort**: pending in Kafka from the moment at which the outcome is settled, until every
  marker is written. That lasts, and this core cannot answer for what others do: 51, from PrepareCommit or
  PrepareAbort to the record of the end. In Kafka, too, requests meet the pending state there, not the Prepare*
  below it, so that every check that Kafka makes after it looked for a pending state is not made: an EndTxn v5 or
  an AddPartitions is told 51 whatever its producer id and epoch, an older EndTxn after both were checked.
* **Dead** (expiration): nothing. The tombstone is applied, and the id unknown.
* *A failed append* clears Kafka's pending state, and for a fence it leaves the failed-fence flag, so that the
  epoch does not rise again. Here a failed append ends the machine, which is loaded again from what the disk
  holds: what was not written has not happened, and there is nothing to clear.

Where Kafka draws a producer id while it holds the lock of the transactional id, the machine asks for it and goes
on (`new_producer_id.py`). When the id comes the request is looked at again, from the start: it may meet another
state by then, and is answered as if it had come just now.

**Order on the disk.** Prepare* is durable before a marker is asked for, since messages leave when what came before
them is durable; markers are durable before Complete* is written, since their writer tells of them only then. A
crash in between leaves Prepare* in the log, and the load asks for all markers again. Complete* need not be waited
for: if it is lost, the markers are written once more.
"""

from collections.abc import Iterable
from typing import Final

from coordinator.transactions.requests import TransactionPartition
from coordinator.transactions.state import ONGOING, PREPARED, WRITTEN, TransactionState
from protocol.errors import ErrorCode
from protocol.records.transaction_state import TransactionLogValue, TransactionPartitions

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
MAX_EPOCH: Final = 32767
"""No producer has it: it is that of the markers of a transaction with the last epoch of a producer id."""
LAST_EPOCH: Final = MAX_EPOCH - 1
"""The last one that a producer is given; then comes another producer id."""
NO_TIME: Final = -1


class Transaction:
    """A transactional id. `Transactions.write` alone has it take another value."""

    __slots__ = (
        "draws_producer_id",
        "last_epoch",
        "markers_error",
        "partitions",
        "previous_producer_id",
        "producer_epoch",
        "producer_id",
        "state",
        "transactional_id",
        "value",
    )

    def __init__(self, transactional_id: str, value: TransactionLogValue) -> None:
        """In: its newest value in the log."""
        self.transactional_id = transactional_id
        self.take(value)
        self.last_epoch = NO_EPOCH
        """The one before, as long as its owner may ask again for what it was not told: -1 after a load, as in
        Kafka."""
        self.previous_producer_id = value.previous_producer_id
        """That before the last change. Plain records do not have it."""
        self.partitions: set[TransactionPartition] = set()
        """What an open transaction has; of an ended one what has no marker yet."""
        self.markers_error: ErrorCode | None = None
        """Why markers were given up, until the next load; None where none were."""
        self.draws_producer_id = False
        """Whether an abort waits for a new producer id."""
        if self.state is ONGOING or self.state in PREPARED:
            self.partitions.update(partitions_of(value))

    def take(self, value: TransactionLogValue) -> None:
        """This is its newest value in the log, or is about to be."""
        self.value = value
        self.state: TransactionState = WRITTEN[value.transaction_status]
        """Where it stands."""
        self.producer_id: int = value.producer_id
        """Of its present producer."""
        self.producer_epoch: int = value.producer_epoch
        """Of its present producer; while markers are under way that of these."""

    @property
    def is_exhausted(self) -> bool:
        """Whether its producer id has no further epoch to give."""
        return self.value.producer_epoch >= LAST_EPOCH

    @property
    def start_ms(self) -> int:
        """When the present or last transaction began, Unix time; -1 where there was none."""
        return self.value.transaction_start_timestamp_ms


def partitions_of(value: TransactionLogValue) -> list[TransactionPartition]:
    """The partitions in a value."""
    return [
        (topic.topic, partition)
        for topic in value.transaction_partitions or ()
        for partition in topic.partition_ids
    ]


def by_topic(partitions: Iterable[TransactionPartition]) -> dict[str, list[int]]:
    """Partitions as records and responses have them."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics


def with_partitions(
    value: TransactionLogValue, added: Iterable[TransactionPartition]
) -> list[TransactionPartitions]:
    """The partitions in a value and others, which are not in it; nothing of the value is changed."""
    topics = by_topic(added)
    there = [
        TransactionPartitions(topic=one.topic, partition_ids=[*one.partition_ids, *topics.pop(one.topic)])
        if one.topic in topics
        else one
        for one in value.transaction_partitions or ()
    ]
    return there + [
        TransactionPartitions(topic=topic, partition_ids=partitions) for topic, partitions in topics.items()
    ]
