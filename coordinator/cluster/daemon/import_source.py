"""A data directory as the source of an import: loaded as a start would, and checked completely.

It was used without a cluster, or is the copy of a daemon of a lost cluster. The import changes it only as
each start does: it truncates a torn tail and moves the journal's records to the logs.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from coordinator.broker.directory_recovery import is_data_directory
from coordinator.broker.internal_topics import InternalTopicLogs, OffsetsTopic, TopicImages
from coordinator.broker.server_settings import create_data_plane_config
from coordinator.broker.transaction_coordinator import create_transaction_topic
from coordinator.cluster.daemon.cluster_identity import read_directory_identity
from coordinator.config.config_def import InvalidConfig
from coordinator.config.properties import Config
from coordinator.core.shared_types import CONSUMER_OFFSETS, TRANSACTION_STATE
from coordinator.group.group_config import GroupConfig
from coordinator.runtime.machine import InternalTopic
from coordinator.runtime.partition_loader import LoadFailed, PartitionLoad
from coordinator.security.core.security_state import SecurityState
from coordinator.security.security_store import read_state
from coordinator.topics.data_plane import DataPlane
from coordinator.transactions.transaction_shard import TransactionShard
from coordinator.transactions.transaction_state_machine import MAY_EXPIRE, WRITTEN
from storage.data_directory import DataDirectory
from storage.files import Files, find_open_files_limit
from storage.log import PartitionLog
from storage.metadata_files import MetaProperties
from storage.storage_errors import StorageError, format_error_reason
from storage.topic_partition import TopicPartition

_NO_PROPERTIES: Final = MetaProperties("", 0, "")


class ImportRefused(Exception):
    """Why a directory cannot be imported, in one line."""


class ImportSource:
    """An open data directory, locked until `close`. All methods are synchronous and may take long."""

    def __init__(
        self, files: Files, path: str, config: Config, properties: Mapping[str, str], node_id: int | None
    ) -> None:
        """Open every log.

        Args:
            files: File system.
            path: Absolute path of the directory.
            config: Configuration of the brokers.
            properties: Explicitly set properties.
            node_id: Expected id of the node; None for any.

        Raises:
            ImportRefused: The directory is not usable.
        """
        self.path = path
        if not is_data_directory(files, path):
            raise ImportRefused(f"{path}: is not a data directory")
        try:
            self._directory = DataDirectory.open(files, path, _NO_PROPERTIES)
        except StorageError as error:
            raise ImportRefused(str(error)) from error
        self.meta = self._directory.meta
        self.logs: dict[TopicPartition, PartitionLog] = {}
        """Logs of coordinators."""
        self.transactional_ids = 0
        """Number of transactional ids, set by `check_importable`."""
        self._failed: dict[TopicPartition, Exception] = {}
        self._files, self._config = files, config
        try:
            was = read_directory_identity(files, path)
            if node_id not in (None, self.meta.node_id):
                raise ImportRefused(f"{path}: belongs to node {self.meta.node_id}, but node.id is {node_id}")
            self._plane = DataPlane.open(
                self._directory, create_data_plane_config(config, properties, find_open_files_limit())
            )
            self._open_coordinators()
            self.was_member = was is not None
            """Whether it belonged to a cluster. Then it has only a part of the coordinators."""
            self.partitions = self._offsets.partitions if was is None else was.partitions
            """Number of partitions of `__consumer_offsets`."""
            self.topic_id = self._offsets.topic_id if was is None else was.topic_id
        except (StorageError, OSError, InvalidConfig) as error:
            self._directory.abandon()
            raise ImportRefused(f"{path}: {format_error_reason(error, path)}") from error
        except BaseException:
            self._directory.abandon()
            raise

    def _open_coordinators(self) -> None:
        catalogue, config = self._plane.catalogue, self._config
        self._offsets = InternalTopicLogs(
            CONSUMER_OFFSETS,
            self._directory,
            catalogue,
            config,
            config.offsets_topic_num_partitions,
            {"cleanup.policy": "compact"},
        )
        self._transactions = InternalTopicLogs(
            TRANSACTION_STATE,
            self._directory,
            catalogue,
            config,
            config.transaction_state_log_num_partitions,
            {"cleanup.policy": "compact"},
        )
        found = {*self._directory.list_partitions(), *self._directory.list_journaled_partitions()}
        for topic in (self._offsets, self._transactions):
            for partition in sorted(each for each in found if each.topic == topic.name):
                try:
                    self.logs[partition] = topic.open_log(partition.partition)
                except (StorageError, OSError) as error:
                    self._failed[partition] = error

    def close(self) -> None:
        """Close the directory as a clean stop does. Raises StorageError, OSError."""
        failed = [*self._failed, *self._plane.list_failed_partitions()]
        self._directory.close({**self._plane.list_logs(), **self.logs}, failed)

    # Contents

    @property
    def document(self) -> Mapping[str, Any]:
        """The catalogue in the form of its file."""
        found: Any = self._directory.read_catalogue()
        return dict(found)

    @property
    def security(self) -> SecurityState:
        """ACLs and users. Raises ImportRefused."""
        try:
            return read_state(self._directory, is_needed=True)
        except (StorageError, OSError) as error:
            raise ImportRefused(f"{self.path}: {format_error_reason(error, self.path)}") from error

    def iterate_log_ends(self) -> Iterator[tuple[TopicPartition, int]]:
        """Yield each partition of a topic on disk with its end offset."""
        for partition, log in self._plane.list_logs().items():
            yield partition, log.log_end_offset

    @property
    def last_producer_id(self) -> int:
        """The greatest producer id in the logs of topics; -1 without any."""
        known = [
            producer_id
            for hosted in self._plane.catalogue.iterate_hosted()
            if hosted.producers is not None
            for producer_id, _ in hosted.producers.state.iterate_entries()
        ]
        return max(known, default=-1)

    # Checks

    def check_importable(self) -> None:
        """Load all logs as a start would. Raises ImportRefused for the first damaged or invalid log, or open
        transaction.
        """
        for partition, problem in {**self._plane.list_failed_partitions(), **self._failed}.items():
            raise ImportRefused(f"{self.path}: {partition} is damaged: {format_error_reason(problem)}")
        for hosted in self._plane.catalogue.iterate_hosted():
            if hosted.producers is not None:
                self._refuse_open_transactions(hosted.name, hosted.producers.state.open_transactions)
        config = self._config
        offsets = OffsetsTopic(self._directory, self._plane, config, config.view(GroupConfig))
        groups = offsets.create_internal_topic(TopicImages(self._plane.catalogue).get_current)
        transactions = create_transaction_topic(self._transactions, config)
        for partition, log in self.logs.items():
            if partition.topic == CONSUMER_OFFSETS:
                self._load_partition(groups, partition, log)
            else:
                self._check_transactions_ended(self._load_partition(transactions, partition, log))

    def _load_partition(self, topic: InternalTopic[Any], partition: TopicPartition, log: PartitionLog) -> Any:
        machine = topic.new_machine(partition.partition, log.leader_epochs.current)
        load = PartitionLoad(
            log,
            machine,
            self._files,
            topic.codec,
            producer_expiration_ms=self._config.producer_id_expiration_ms,
        )
        try:
            for _ in load.run_steps():
                pass
        except (StorageError, LoadFailed, OSError) as error:
            raise ImportRefused(
                f"{self.path}: {partition} is damaged: {format_error_reason(error)}"
            ) from error
        self._refuse_open_transactions(partition, load.producers.state.open_transactions)
        return machine

    def _refuse_open_transactions(self, partition: TopicPartition, found: Mapping[int, int]) -> None:
        for producer_id, offset in found.items():
            raise ImportRefused(
                f"{self.path}: a transaction of producer {producer_id} is open in {partition} from offset {offset} "
                "on: start groupd without a cluster until the transaction has ended, and stop it"
            )

    def _check_transactions_ended(self, shard: TransactionShard) -> None:
        for transactional_id, value in shard.copy_durable().values.items():
            state = WRITTEN.get(value.transaction_status)
            if state not in MAY_EXPIRE:
                name = value.transaction_status if state is None else state.value
                raise ImportRefused(
                    f"{self.path}: the transaction of {transactional_id!r} has not ended, it is {name}: start "
                    "groupd without a cluster until it has, and stop it"
                )
            self.transactional_ids += 1
