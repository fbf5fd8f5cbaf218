"""`__transaction_state`: the internal topic of transactions, as the engine runs it."""

from coordinator.config.properties import Config
from coordinator.engine.machine import InternalTopic
from coordinator.server.internal_topic import InternalTopicLogs
from coordinator.transactions.config import TransactionConfig
from coordinator.transactions.record_codec import TransactionRecordCodec
from coordinator.transactions.refusal import error_response, only_reads
from coordinator.transactions.shard import TransactionShard
from storage.compression import NONE


def transaction_topic(logs: InternalTopicLogs, config: Config) -> InternalTopic[TransactionShard]:
    """A shard of transactions in each partition. Each reading of one whose log has gone on is a new epoch of its
    coordinator."""
    transaction_config = config.view(TransactionConfig)
    return InternalTopic(
        name=logs.name,
        partitions=logs.partitions,
        flush=logs.flush,
        compression=NONE,
        codec=TransactionRecordCodec(),
        new_machine=lambda _, epoch: TransactionShard(transaction_config, epoch),
        refuse=error_response,
        open_log=logs.open,
        logger="TransactionCoordinator",
        holds="transaction metadata",
        only_reads=only_reads,
        begins_epochs=True,
        producer_expiration_ms=config.producer_id_expiration_ms,
    )
