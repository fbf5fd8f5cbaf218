"""What a data directory has that an import brings to a cluster: read as a start would, and checked in whole.

It is one that was used without a cluster, or the copy of a daemon whose cluster is gone. Nothing in it is changed
but what each start changes: a torn tail is cut, and what the journal has goes to the logs.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from coordinator.config.config_key import InvalidConfig
from coordinator.config.properties import Config
from coordinator.engine.loader import Load, LoadFailed
from coordinator.engine.machine import InternalTopic
from coordinator.group.config import GroupConfig
from coordinator.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from coordinator.security.security_state import SecurityState
from coordinator.server.cluster.member_directory import meta_of
from coordinator.server.config_views import topics_config
from coordinator.server.internal_topic import InternalTopicLogs
from coordinator.server.offsets_topic import OffsetsTopic
from coordinator.server.recover import is_data_directory
from coordinator.server.security_store import kept_in
from coordinator.server.topic_images import TopicImages
from coordinator.server.transaction_topic import transaction_topic
from coordinator.topics.data_plane import DataPlane
from coordinator.transactions.shard import TransactionShard
from coordinator.transactions.state import MAY_EXPIRE, WRITTEN
from storage.data_directory import DataDirectory
from storage.errors import StorageError
from storage.files import Files, most_open_files
from storage.log import PartitionLog
from storage.meta_properties import MetaProperties
from storage.os_error import reason_of
from storage.topic_partition import TopicPartition

_NOBODY: Final = MetaProperties("", 0, "")


class NotImported(Exception):
    """Why a directory cannot be imported, in one line."""


class LocalDirectory:
    """An open data directory, held for as long as this is open. All is synchronous, and may take long."""

    def __init__(
        self, files: Files, path: str, config: Config, properties: Mapping[str, str], node_id: int | None
    ) -> None:
        """Opens every log. In: an absolute path; what a broker would obey, and was set explicitly; the id of the
        node, if anybody says so. Raises NotImported."""
        self.path = path
        if not is_data_directory(files, path):
            raise NotImported(f"{path}: is no data directory")
        try:
            self._directory = DataDirectory.open(files, path, _NOBODY)
        except StorageError as error:
            raise NotImported(str(error)) from error
        self.meta = self._directory.meta
        self.logs: dict[TopicPartition, PartitionLog] = {}
        """Of coordinators."""
        self.transactional_ids = 0
        """How many are known, once `check` has read them."""
        self._failed: dict[TopicPartition, Exception] = {}
        self._files, self._config = files, config
        try:
            was = meta_of(files, path)
            if node_id not in (None, self.meta.node_id):
                raise NotImported(f"{path}: is of node {self.meta.node_id}, and node.id says {node_id}")
            self._plane = DataPlane.open(
                self._directory, topics_config(config, properties, most_open_files())
            )
            self._open_coordinators()
            self.was_member = was is not None
            """Of a cluster. What it has of coordinators is a part."""
            self.partitions = self._offsets.partitions if was is None else was.partitions
            """Of `__consumer_offsets`."""
            self.topic_id = self._offsets.topic_id if was is None else was.topic_id
        except (StorageError, OSError, InvalidConfig) as error:
            self._directory.abandon()
            raise NotImported(f"{path}: {reason_of(error, path)}") from error
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
        found = {*self._directory.partitions(), *self._directory.journaled()}
        for topic in (self._offsets, self._transactions):
            for partition in sorted(each for each in found if each.topic == topic.name):
                try:
                    self.logs[partition] = topic.open(partition.partition)
                except (StorageError, OSError) as error:
                    self._failed[partition] = error

    def close(self) -> None:
        """Leaves the directory as a clean stop does. Raises StorageError, OSError."""
        failed = [*self._failed, *self._plane.failed()]
        self._directory.close({**self._plane.logs(), **self.logs}, failed)

    # What it has

    @property
    def document(self) -> Mapping[str, Any]:
        """The catalogue, as its file has it."""
        found: Any = self._directory.read_catalogue()
        return dict(found)

    @property
    def security(self) -> SecurityState:
        """ACLs and users. Raises NotImported."""
        try:
            return kept_in(self._directory, is_needed=True)
        except (StorageError, OSError) as error:
            raise NotImported(f"{self.path}: {reason_of(error, self.path)}") from error

    def ends(self) -> Iterator[tuple[TopicPartition, int]]:
        """Of each partition of a topic with records, where its log ends."""
        for partition, log in self._plane.logs().items():
            yield partition, log.log_end_offset

    @property
    def last_producer_id(self) -> int:
        """The greatest that any log of records knows; -1 without any."""
        known = [
            producer_id
            for hosted in self._plane.catalogue.hosted()
            if hosted.producers is not None
            for producer_id, _ in hosted.producers.state.entries()
        ]
        return max(known, default=-1)

    # What must not be

    def check(self) -> None:
        """Reads everything as a start would. Raises NotImported, naming the first log that is damaged, that makes
        no sense, or in which a transaction is open."""
        for partition, problem in {**self._plane.failed(), **self._failed}.items():
            raise NotImported(f"{self.path}: {partition} is damaged: {reason_of(problem)}")
        for hosted in self._plane.catalogue.hosted():
            if hosted.producers is not None:
                self._no_open(hosted.name, hosted.producers.state.open_transactions)
        config = self._config
        offsets = OffsetsTopic(self._directory, self._plane, config, config.view(GroupConfig))
        groups = offsets.internal_topic(TopicImages(self._plane.catalogue).current)
        transactions = transaction_topic(self._transactions, config)
        for partition, log in self.logs.items():
            if partition.topic == CONSUMER_OFFSETS:
                self._read(groups, partition, log)
            else:
                self._check_ended(self._read(transactions, partition, log))

    def _read(self, topic: InternalTopic[Any], partition: TopicPartition, log: PartitionLog) -> Any:
        machine = topic.new_machine(partition.partition, log.leader_epochs.current)
        load = Load(
            log,
            machine,
            self._files,
            topic.codec,
            producer_expiration_ms=self._config.producer_id_expiration_ms,
        )
        try:
            for _ in load.steps():
                pass
        except (StorageError, LoadFailed, OSError) as error:
            raise NotImported(f"{self.path}: {partition} is damaged: {reason_of(error)}") from error
        self._no_open(partition, load.producers.state.open_transactions)
        return machine

    def _no_open(self, partition: TopicPartition, found: Mapping[int, int]) -> None:
        for producer_id, offset in found.items():
            raise NotImported(
                f"{self.path}: a transaction of producer {producer_id} is open in {partition} from offset {offset} "
                "on: start groupd without a cluster until it has ended, and stop it"
            )

    def _check_ended(self, shard: TransactionShard) -> None:
        for transactional_id, value in shard.copy_durable().values.items():
            state = WRITTEN.get(value.transaction_status)
            if state not in MAY_EXPIRE:
                name = value.transaction_status if state is None else state.value
                raise NotImported(
                    f"{self.path}: the transaction of {transactional_id!r} has not ended, it is {name}: start "
                    "groupd without a cluster until it has, and stop it"
                )
            self.transactional_ids += 1
