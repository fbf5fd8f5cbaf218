"""What a batch waits for that would begin a transaction in a partition: that the coordinator of the transaction
knows it to have that partition, or takes it into it (KIP-890)."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from protocol.errors import ErrorCode
from storage.topic_partition import TopicPartition

Consent: TypeAlias = Mapping[TopicPartition, ErrorCode]
"""What the coordinator says to each partition: NONE, or why not."""


class AskConsent(NamedTuple):
    """A question to the coordinator of a transaction. `adds`: to take the partitions into it, else only whether it
    has them; `is_abortable`: whether who asks knows TRANSACTION_ABORTABLE."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[TopicPartition]
    adds: bool
    is_abortable: bool
