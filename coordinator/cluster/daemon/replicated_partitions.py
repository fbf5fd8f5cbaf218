"""Replicated partitions of topics: how this broker gains, leads and loses them.

    gained ─▶ read from the store, in a thread ─▶ led ─▶ lost, or in doubt ─▶ the log is closed
                  ▲                                          │
                  └── under a new token, if it is still owned ┘

While a log is read the partition has no leader, and clients repeat their requests. When a partition is lost,
requests that wait for the store get NOT_LEADER_OR_FOLLOWER, and the clients find the next leader. That
leader recognizes a repeated batch of an idempotent producer by its sequence.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

from coordinator.apis.produce_purgatory import ProducePurgatory
from coordinator.broker.services import Services
from coordinator.cluster.daemon.replicated_logs import LogSealer, ReplicatedLogs
from coordinator.cluster.key_value_store import KeyValueStoreError
from coordinator.cluster.partition_log_store import TokenLost
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.cluster_partition import ClusterPartition
from storage.data_directory import DataDirectory
from storage.log import PartitionLog
from storage.producers.producer_state_manager import ProducerStateManager
from storage.storage_errors import LogDamaged, LogPoisoned, StorageError, format_error_reason
from storage.topic_partition import TopicPartition

_LOG: Final = logging.getLogger("Cluster")
_RETRY_S: Final = 1.0
_UNPIN_RETRY_S: Final = 0.01
_STORE_TIMEOUT_S: Final = 30


class LogStartNotStored(OSError):
    """The store does not have the new start offset of a log."""


class _OpenedLog(NamedTuple):
    log: PartitionLog
    producers: ProducerStateManager


class ReplicatedPartitions:
    """The `ClusterRecords` of a daemon: the replicated partitions that it leads. All methods belong to the event
    loop's thread, except `store_log_start`."""

    def __init__(self, on_doubt: Callable[[TopicPartition], None], take_room: Callable[[int], bool]) -> None:
        """Create the partitions.

        Args:
            on_doubt: Takes a partition back under a new token, if this daemon still owns it.
            take_room: Reserves bytes of the store. Returns whether the limit allows them.
        """
        self.reserve_room = take_room
        self._on_doubt = on_doubt
        self._loop = asyncio.get_running_loop()
        self._catalogue: Catalogue
        self._directory: DataDirectory
        self._produce_purgatory: ProducePurgatory
        self._logs: ReplicatedLogs
        self._sealer: LogSealer
        self._opening: dict[TopicPartition, asyncio.Task[None]] = {}
        self._reading: dict[TopicPartition, asyncio.Future[_OpenedLog]] = {}
        """Reads of partitions in a thread, including unwanted ones."""
        self._closing: dict[TopicPartition, asyncio.Event] = {}
        """Lost partitions with logs that sealing or compaction still uses, until they are closed."""

    def connect_services(self, services: Services, logs: ReplicatedLogs, sealer: LogSealer) -> None:
        """Take the parts of the server over which the partitions are served."""
        self._catalogue, self._directory = services.data_plane.catalogue, services.directory
        self._produce_purgatory = services.topics.produce_purgatory
        self._logs, self._sealer = logs, sealer

    def iterate_logs(self) -> Iterator[tuple[TopicPartition, PartitionLog]]:
        """Iterate over the open logs of the partitions that this broker leads."""
        for partition in self._catalogue.iterate_hosted():
            if isinstance(partition, ClusterPartition) and partition.log is not None:
                yield partition.name, partition.log

    def find_log(self, name: TopicPartition) -> PartitionLog | None:
        """Return the log of a partition; None while this broker does not lead it."""
        partition = self._find_partition(name)
        return None if partition is None else partition.log

    def is_open(self, name: TopicPartition) -> bool:
        """Return whether the log of a partition is open here."""
        return self.find_log(name) is not None

    def _find_partition(self, name: TopicPartition) -> ClusterPartition | None:
        found = self._catalogue.find_partition(*name)
        return found if isinstance(found, ClusterPartition) else None

    # Gained partitions

    def on_partition_gained(self, name: TopicPartition, hold_s: float) -> None:
        """Read the log of a gained partition, and lead it after at least `hold_s` seconds."""
        assert name not in self._opening, name
        task = self._loop.create_task(self._open_partition(name, hold_s))
        self._opening[name] = task
        task.add_done_callback(lambda done: self._on_open_done(name, done))

    def _on_open_done(self, name: TopicPartition, task: "asyncio.Task[None]") -> None:
        if self._opening.get(name) is task:
            del self._opening[name]
        if not task.cancelled() and (problem := task.exception()) is not None:
            _LOG.error("Reading %s", name, exc_info=problem)

    async def _open_partition(self, name: TopicPartition, hold_s: float) -> None:
        await asyncio.sleep(hold_s)
        logged_reason = ""
        while (partition := self._find_partition(name)) is not None:
            await self._wait_until_unused(name)
            reading = self._loop.run_in_executor(None, self._read_log, partition)
            self._reading[name] = reading
            try:
                opened = await asyncio.shield(reading)
            except asyncio.CancelledError:
                reading.add_done_callback(partial(self._discard_read, name))
                raise
            except LogDamaged as error:
                _LOG.error("%s has no leader: %s", name, error)
                partition.record_open_failure(error)
                return
            except (StorageError, OSError) as error:
                partition.record_open_failure(error)
                if format_error_reason(error) != logged_reason:
                    logged_reason = format_error_reason(error)
                    _LOG.error(
                        "%s has no leader, because its log cannot be read, will retry: %s",
                        name,
                        logged_reason,
                    )
                await asyncio.sleep(_RETRY_S)
                continue
            del self._reading[name]
            if self._find_partition(name) is partition:
                self._begin_leading(partition, opened)
            else:
                self._discard_read(name, reading)
            return

    async def _wait_until_unused(self, name: TopicPartition) -> None:
        """Wait until no other task uses the directory of a partition."""
        if (closed := self._closing.get(name)) is not None:
            await closed.wait()
        if (reading := self._reading.get(name)) is not None:
            await asyncio.wait([reading])

    def _read_log(self, partition: ClusterPartition) -> _OpenedLog:
        """Open the log and load its producers. Called in a thread. Raises StorageError, OSError."""
        topic = self._catalogue.find_topic(partition.name.topic)
        if topic is None:
            raise LogStartNotStored(f"{partition.name.topic} is gone")
        log = self._logs.open_log(partition.name, topic.values.log, topic.topic_id)
        try:
            return _OpenedLog(log, ProducerStateManager.load(log, partition.expiration_ms))
        except BaseException:
            log.close(clean=False)
            raise

    def _begin_leading(self, partition: ClusterPartition, opened: _OpenedLog) -> None:
        topic = self._catalogue.find_topic(partition.name.topic)
        assert topic is not None, partition.name
        opened.log.change_config(topic.values.log)  # another request may have changed it meanwhile
        partition.begin_leading(*opened)
        _LOG.info(
            "Leader of %s, leader epoch %d, from offset %d to %d",
            partition.name,
            opened.log.leader_epochs.current,
            opened.log.log_start_offset,
            opened.log.log_end_offset,
        )

    def _discard_read(self, name: TopicPartition, reading: "asyncio.Future[_OpenedLog]") -> None:
        """Close the log of a partition that was lost during the read."""
        if self._reading.get(name) is reading:
            del self._reading[name]
        if not reading.cancelled() and reading.exception() is None:
            reading.result().log.close(clean=False)
        self._remove_remains(name)

    def _remove_remains(self, name: TopicPartition) -> None:
        """Delete the directory of a topic that was deleted during the read. The next start would take it for a
        topic.
        """
        catalogue = self._catalogue
        if catalogue.find_topic(name.topic) is None and not catalogue.is_changing(name.topic):
            try:
                self._directory.delete_logs({name: None})
            except OSError as error:
                _LOG.error("Failed to remove the files of %s: %s", name, format_error_reason(error))

    # Lost partitions

    def on_partition_lost(self, name: TopicPartition, reason: str) -> None:
        """Stop leading a partition, for good or until it is read again. Waiting clients look for the leader."""
        opening = self._opening.pop(name, None)
        if opening is not None:
            opening.cancel()
        partition = self._find_partition(name)
        log = None if partition is None else partition.end_leading()
        if log is not None:
            _LOG.info("No longer leader of %s: %s", name, reason)
            self._close_log(name, log)
            self._produce_purgatory.release_log(log)

    def on_topic_deleted(self, topic: str, *, is_gone: bool) -> None:
        """Stop opening partitions of a deleted topic with closed logs. `is_gone` means that the cluster
        does not have it either.
        """
        for name in [each for each in self._opening if each.topic == topic]:
            self._opening.pop(name).cancel()
        self._produce_purgatory.on_topic_deleted(topic, is_gone=is_gone)

    def _close_log(self, name: TopicPartition, log: PartitionLog) -> None:
        if log.is_pinned:
            # Sealing or compaction stops soon, but its files may be about to be replaced.
            log.poison(LogPoisoned(log.directory, "is being released"))
            self._closing[name] = asyncio.Event()
            self._loop.call_later(_UNPIN_RETRY_S, self._close_unpinned, name, log)
        elif not log.is_closed:
            log.close(clean=False)

    def _close_unpinned(self, name: TopicPartition, log: PartitionLog) -> None:
        if log.is_pinned:
            self._loop.call_later(_UNPIN_RETRY_S, self._close_unpinned, name, log)
            return
        self._closing.pop(name).set()
        if not log.is_closed:
            log.close(clean=False)

    def on_failed(self, name: TopicPartition, log: PartitionLog) -> None:
        """Read the log again, because the store's content is unknown."""
        if self.find_log(name) is log:
            _LOG.warning("%s is read again, because its content in etcd is uncertain", name)
            self._on_doubt(name)

    # Start offsets

    def store_log_start(self, partition: TopicPartition, log: PartitionLog) -> None:
        kept = asyncio.run_coroutine_threadsafe(self._keep_start(partition, log), self._loop)
        try:
            kept.result(_STORE_TIMEOUT_S)
        except (TimeoutError, StorageError) as error:
            raise LogStartNotStored(f"{partition}: {error!r}") from error

    async def _keep_start(self, name: TopicPartition, log: PartitionLog) -> None:
        try:
            await self._sealer.trim_log(name, log)
        except (TokenLost, KeyValueStoreError) as error:
            self.on_failed(name, log)
            raise LogStartNotStored(f"etcd rejected it: {error}") from error
