"""`__transaction_state`: the internal topic of transactions, as the engine runs it and the data plane shows it."""

from coordinator.config.properties import Config
from coordinator.engine.machine import InternalTopic
from coordinator.names import TRANSACTION_STATE
from coordinator.server.internal_topic import InternalTopicLogs, segment_bytes
from coordinator.topics.catalogue import Catalogue
from coordinator.transactions.config import TransactionConfig
from coordinator.transactions.record_codec import TransactionRecordCodec
from coordinator.transactions.refusal import error_response, only_reads
from coordinator.transactions.shard import TransactionShard
from storage.compression import NONE
from storage.data_directory import DataDirectory


class TransactionTopic:
    """What the data directory and the config make of it. Source: Kafka's
    `TransactionStateManager.transactionStateTopicConfigs`."""

    def __init__(self, directory: DataDirectory, catalogue: Catalogue, config: Config) -> None:
        """Raises InvalidConfig, OSError."""
        overrides = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": "1",
            "unclean.leader.election.enable": "false",
            **segment_bytes(config.transaction_state_log_segment_bytes),
        }
        self.logs = InternalTopicLogs(
            TRANSACTION_STATE,
            directory,
            catalogue,
            config,
            config.transaction_state_log_num_partitions,
            overrides,
        )
        self._config = config
        self._transaction_config = config.view(TransactionConfig)

    def internal_topic(self) -> InternalTopic[TransactionShard]:
        """For the engine: a shard of transactions in each partition. Each reading of one is a new epoch of its
        coordinator."""
        return InternalTopic(
            name=TRANSACTION_STATE,
            partitions=self.logs.partitions,
            flush=self.logs.flush,
            compression=NONE,
            codec=TransactionRecordCodec(),
            new_machine=lambda _, epoch: TransactionShard(self._transaction_config, epoch),
            refuse=error_response,
            open_log=self.logs.open,
            logger="TransactionCoordinator",
            holds="transaction metadata",
            only_reads=only_reads,
            begins_epochs=True,
            producer_expiration_ms=self._config.producer_id_expiration_ms,
        )
