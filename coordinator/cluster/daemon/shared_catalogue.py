"""The catalogue of a server that shares it with the other daemons of a cluster.

The keys are authoritative; `topics.json` is this daemon's copy. A client's change writes the keys in a thread,
as a part of its work. This daemon adopts the changes of other daemons as soon as the watch reports them. The
same work applies them, and then finds no difference to write.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from coordinator.cluster.catalogue_keys import CatalogueKeys
from coordinator.cluster.key_value_store import KeyChanges, KeyValueStore, KeyValueStoreError
from coordinator.cluster.member.cluster_member import ReplicatedTopic
from coordinator.cluster.partition_ownership import ClusterChangeRefused
from coordinator.cluster.shared_topic import SharedTopic
from coordinator.core import clock
from coordinator.core.daemon_log import OngoingFailures, format_repeats
from coordinator.core.outcome import Now
from coordinator.core.time_budget import RunQueue, TimeBudget
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.data_plane_answer import (
    ConfigChanged,
    FilesLeft,
    GroupConfigChanged,
    PartitionsAdded,
    TopicChange,
    TopicCreated,
    TopicDeleted,
)
from coordinator.topics.long_work import (
    AddOrVerifyRequest,
    AddOrVerifyResult,
    LongWork,
    reject_transaction,
)
from coordinator.topics.topic import NewTopicSpec, Topic
from storage.data_directory import CATALOGUE, DataDirectory
from storage.offset_checkpoint import CheckpointDraft
from storage.storage_errors import StorageError, catch_os_error, format_error_reason
from storage.topic_partition import uuid_from_text, uuid_to_text

_LOG: Final = logging.getLogger("Cluster")
_TIMEOUT_S: Final = 30
_RETRY_S: Final = 0.2
_REFRESH_TIMEOUT_S: Final = 5.0
_DECLARE_ATTEMPTS: Final = 10
"""Number of attempts to create a declared topic at a start."""

T = TypeVar("T")

OnCatalogueChanged = Callable[[Sequence[TopicChange]], None]


class SharedCatalogue:
    """The catalogue of this daemon, synchronized with the cluster. All methods belong to the event loop's
    thread, except for the callbacks that run in other threads.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, store: KeyValueStore, keys: CatalogueKeys) -> None:
        self.keys = keys
        self._loop = loop
        self._store = store
        self._revision = 0
        self._catalogue: Catalogue
        self._on_changed: OnCatalogueChanged
        self._run_queue: RunQueue
        self._tasks: list[asyncio.Task[None]] = []
        self._failures = OngoingFailures("Cluster")
        self._logged_problems: set[tuple[str, str]] = set()
        """Topics that could not be created yet, with the logged reasons."""
        self._thread_call: asyncio.Future[Any] | None = None
        """The last call of a function in a thread."""
        self._is_due = asyncio.Event()
        self._is_adopted = asyncio.Event()
        """Set after each attempt to adopt all pending changes."""

    # Before the server opens

    async def read_keys(self) -> None:
        """Read the keys of the catalogue. Raises KeyValueStoreError."""
        self._revision = await self.keys.read_all_keys()

    def write_copy(self, directory: DataDirectory) -> None:
        """Write the current keys to the directory's file. Raises StorageError, OSError."""
        before: Any = directory.read_catalogue() or {"topics": [], "deleted": []}
        ids = {topic.topic_id for topic in self.keys.topics.values()}
        deleted = [
            {"name": entry["name"], "topic_id": entry["topic_id"]}
            for entry in (*before["deleted"], *before["topics"])
            if entry["topic_id"] not in ids and entry["name"] not in self.keys.unreadable
        ]
        # A topic with an unreadable key still exists: its directories stay.
        kept = [
            entry
            for entry in before["topics"]
            if entry["name"] in self.keys.unreadable and entry["topic_id"] not in ids
        ]
        document = self.keys.to_document(deleted, kept)
        directory.write_catalogue(document)
        self.keys.set_baseline(document)

    # While it serves

    def attach_catalogue(
        self,
        catalogue: Catalogue,
        directory: DataDirectory,
        run_queue: RunQueue,
        on_changed: OnCatalogueChanged,
    ) -> None:
        """Have a catalogue write to the keys. `on_changed` takes the changes by other daemons."""
        self._catalogue, self._run_queue, self._on_changed = catalogue, run_queue, on_changed
        catalogue.file.write = partial(self._write_catalogue, directory)

    def _write_catalogue(self, directory: DataDirectory, document: Mapping[str, Any]) -> None:
        """Write the keys and the copy. Called in a thread. Raises StorageError, OSError."""
        try:
            self._write_keys(document)
        except (StorageError, OSError):
            # Adopt the state of the cluster again, because this daemon may already have changed its own.
            self._loop.call_soon_threadsafe(self._is_due.set)
            raise
        # The keys have the change. The file is a copy, which the next start rewrites.
        error = catch_os_error(partial(directory.write_catalogue, document))
        self._loop.call_soon_threadsafe(self._report_copy, error)
        self._loop.call_soon_threadsafe(self.keys.set_baseline, document)

    def _report_copy(self, error: OSError | None) -> None:
        if error is None:
            self._failures.record_recovery(CATALOGUE)
        elif count := self._failures.record_failure(CATALOGUE, error):
            _LOG.error(
                "The copy of the cluster's topics could not be written; the next start writes it again: %s%s",
                format_error_reason(error),
                format_repeats(count),
            )

    def _write_keys(self, document: Mapping[str, Any]) -> None:
        try:
            asyncio.run_coroutine_threadsafe(self.keys.write_document(document), self._loop).result(
                _TIMEOUT_S
            )
        except (KeyValueStoreError, TimeoutError) as error:
            raise ClusterChangeRefused(f"etcd rejected it: {format_error_reason(error)}") from error

    def reserve_producer_ids(self) -> int:
        """Reserve a block of producer ids, in a thread other than the event loop's. Return its first id; raises
        OSError.
        """
        try:
            reserved = asyncio.run_coroutine_threadsafe(self.keys.reserve_producer_ids(), self._loop)
            return reserved.result(_TIMEOUT_S)
        except (KeyValueStoreError, TimeoutError) as error:
            reason = format_error_reason(error)
            raise ClusterChangeRefused(f"no producer ids from etcd: {reason}") from error

    def start(self) -> None:
        """Start to watch the keys and to adopt changes."""
        for begin, end in self.keys.ranges:
            self._tasks.append(self._loop.create_task(self._watch_range(begin, end)))
        self._tasks.append(self._loop.create_task(self._adopt_when_due()))

    async def stop(self) -> None:
        """Stop adopting changes, and wait for a change that runs in a thread."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._thread_call is not None:  # the call continues in its thread
            await asyncio.wait([self._thread_call])

    async def declare_topics(self, topics: Sequence[tuple[str, int]], factor: int) -> list[tuple[str, int]]:
        """Create or grow topics, unless other daemons have done so.

        Args:
            topics: Names and minimum numbers of partitions.
            factor: Replication factor of new topics.

        Returns:
            The topics that do not exist or are too small yet.
        """
        left = []
        for name, partitions in topics:
            for _ in range(_DECLARE_ATTEMPTS):
                if self._is_declared(name, partitions):
                    break
                topic = self._catalogue.find_topic(name)
                try:
                    if topic is None and name not in self.keys.topics:
                        await self._create_topic(
                            NewTopicSpec(name, partitions, {}, replication_factor=factor)
                        )
                    elif topic is not None:
                        await self._grow_topic(topic, partitions)
                except OSError as error:
                    if (name, format_error_reason(error)) not in self._logged_problems:
                        self._logged_problems.add((name, format_error_reason(error)))
                        _LOG.info(
                            "Failed to create topic %s, will retry: %s", name, format_error_reason(error)
                        )
                await asyncio.sleep(_RETRY_S)
            if not self._is_declared(name, partitions):
                left.append((name, partitions))
        return left

    async def declare_until_created(self, left: Sequence[tuple[str, int]], factor: int) -> None:
        """Repeat `declare_topics` until enough brokers have joined for all topics."""
        while left:
            left = await self.declare_topics(left, factor)

    def _is_declared(self, name: str, partitions: int) -> bool:
        topic = self._catalogue.find_topic(name)
        return topic is not None and len(topic.partitions) >= partitions

    def has_topic(self, name: str, topic_id: bytes) -> bool:
        """Return whether the cluster has a topic, as far as known here."""
        shared = self.keys.topics.get(name)
        return shared is not None and shared.topic_id == uuid_to_text(topic_id)

    def find_replicated_topics(self) -> dict[str, ReplicatedTopic]:
        """Return the replicated topics that this daemon has adopted."""
        found = {}
        for name, shared in self.keys.topics.items():
            topic = self._catalogue.find_topic(name) if shared.is_replicated else None
            if topic is not None and uuid_to_text(topic.topic_id) == shared.topic_id:
                is_there = self.keys.guard_topic(name)
                found[name] = ReplicatedTopic(shared.replicas[: len(topic.partitions)], is_there)
        return found

    async def refresh_topics(self, names: Sequence[str] | None) -> bool:
        """Read and adopt topics by name, or all topics for None. Return whether that succeeded in time."""
        try:
            async with asyncio.timeout(_REFRESH_TIMEOUT_S):
                if names is None:
                    await self.keys.read_all_keys()
                else:
                    await self.keys.refresh_topics(names)
                self._is_due.set()
                while not self._has_adopted(self.keys.topics if names is None else names):
                    self._is_adopted.clear()
                    await self._is_adopted.wait()
        except (KeyValueStoreError, TimeoutError) as error:
            _LOG.info("Failed to refresh the topics of the cluster: %s", format_error_reason(error))
            return False
        return True

    def _has_adopted(self, names: Iterable[str]) -> bool:
        for name in names:
            shared, topic = self.keys.topics.get(name), self._catalogue.find_topic(name)
            if shared is not None and (topic is None or len(topic.partitions) < shared.partitions):
                return False
        return True

    async def _watch_range(self, begin: bytes, end: bytes) -> None:
        revision = self._revision
        while True:
            try:
                async for changes in self._store.watch(begin, end, revision):
                    self._on_keys_changed(changes)
                    revision = changes.revision + 1
            except KeyValueStoreError as error:
                _LOG.warning("Reading the topics of the cluster again: %s", error)
                try:
                    revision = await self.keys.read_all_keys()
                    self._is_due.set()
                except KeyValueStoreError as again:
                    _LOG.warning("Failed to read the topics of the cluster: %s", again)
            except Exception as problem:  # noqa: BLE001 - a stale mirror would be worse
                _LOG.error("Failed to watch the topics of the cluster", exc_info=problem)
            await asyncio.sleep(_RETRY_S)

    def _on_keys_changed(self, changes: KeyChanges) -> None:
        self.keys.apply_changes(changes)
        self._is_due.set()

    async def _adopt_when_due(self) -> None:
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            try:
                is_done = await self._adopt_all()
            except (OSError, StorageError) as error:
                _LOG.error(
                    "Failed to apply topic changes of other brokers, will retry: %s",
                    format_error_reason(error),
                )
                is_done = False
            except Exception as problem:  # noqa: BLE001 - the next change may succeed
                _LOG.error("Failed to apply topic changes of other brokers", exc_info=problem)
                is_done = True
            self._is_adopted.set()
            if not is_done:
                await asyncio.sleep(_RETRY_S)
                self._is_due.set()

    async def _adopt_all(self) -> bool:
        """Adopt all changes. Return False if this daemon is itself changing some topics, which then remain.
        Raises OSError, StorageError.
        """
        is_done = True
        catalogue = self._catalogue
        for topic in [topic for topic in catalogue if topic.hosted]:
            shared = self.keys.topics.get(topic.name)
            if catalogue.is_changing(topic.name):
                is_done = False
            elif topic.name in self.keys.unreadable:
                continue
            elif shared is None or shared.topic_id != uuid_to_text(topic.topic_id):
                await self._delete_topic(topic)
        for shared in list(self.keys.topics.values()):
            if catalogue.is_changing(shared.name):
                is_done = False
            else:
                await self._adopt_topic(shared)
        for group_id in {*self.keys.group_configs, *catalogue.group_configs.by_group}:
            configs = self.keys.group_configs.get(group_id, {})
            if dict(catalogue.group_configs.find_configs(group_id)) != configs:
                await catalogue.group_configs.change_configs(
                    self.create_work(), group_id, partial(_return_configs, configs)
                )
                self._on_changed([GroupConfigChanged(group_id, tuple(sorted(configs.items())))])
        return is_done

    async def _adopt_topic(self, shared: SharedTopic) -> None:
        topic = self._catalogue.find_topic(shared.name)
        if topic is None:
            topic_id = uuid_from_text(shared.topic_id)
            factor = shared.replication_factor
            new = NewTopicSpec(shared.name, shared.partitions, dict(shared.configs), topic_id, factor)
            self.keys.adopting.add(shared.topic_id)
            try:
                await self._create_topic(new)
            finally:
                self.keys.adopting.discard(shared.topic_id)
            return
        if len(topic.hosted) < shared.partitions:
            await self._grow_topic(topic, shared.partitions)
        if topic.overrides != dict(shared.configs):
            await self._catalogue.configure_topic(
                self.create_work(), topic, partial(_return_configs, shared.configs)
            )
            self._on_changed([ConfigChanged(topic.name, tuple(sorted(shared.configs.items())))])

    async def _create_topic(self, new: NewTopicSpec) -> None:
        made = (await self._catalogue.create_topics(self.create_work(), [new]))[new.name]
        if isinstance(made, OSError | StorageError):
            raise made
        if isinstance(made, Topic):
            self._on_changed([TopicCreated(new.name, made.topic_id, new.partitions)])

    async def _grow_topic(self, topic: Topic, partitions: int) -> None:
        grown = await self._catalogue.grow_topics(self.create_work(), {topic: partitions})
        problem = grown[topic.name]
        if isinstance(problem, OSError | StorageError):
            raise problem
        if problem is None:
            self._on_changed([PartitionsAdded(topic.name, topic.topic_id, partitions)])

    async def _delete_topic(self, topic: Topic) -> None:
        deleted, problem = await self._catalogue.delete_topics(self.create_work(), [topic])
        changes: list[TopicChange] = [TopicDeleted(each.name, each.topic_id) for each in deleted]
        if problem is not None:
            changes.append(FilesLeft(format_error_reason(problem)))
        self._on_changed(changes)

    def create_work(self) -> LongWork:
        """Return the work of one change of the catalogue."""
        return _CatalogueWork(self._run_queue, self)

    def publish_changes(self, changes: Sequence[TopicChange]) -> None:
        """Pass changes of topics to the listeners."""
        self._on_changed(changes)

    async def call_in_thread(self, function: Callable[[], T]) -> T:
        """Call a function in a thread, which finishes it even when this task is cancelled. Return its result;
        raises its error."""
        call = self._loop.run_in_executor(None, function)
        self._thread_call = call
        return await asyncio.shield(call)


class _CatalogueWork(TimeBudget):
    """The `LongWork` of a change of the catalogue that no client has requested."""

    __slots__ = ("_catalogue",)

    def __init__(self, run_queue: RunQueue, catalogue: SharedCatalogue) -> None:
        super().__init__(run_queue)
        self._catalogue = catalogue

    async def call_in_thread(self, function: Callable[[], T]) -> T:
        """Call a function in a thread. Return its result; raises its error."""
        result = await self._catalogue.call_in_thread(function)
        self.begin_slice()
        return result

    async def write_offset_checkpoint(self, draft: CheckpointDraft) -> None:
        """Write a checkpoint of offsets to the disk. Raises OSError."""
        await self.call_in_thread(draft.write)

    async def add_or_verify_partitions(self, request: AddOrVerifyRequest) -> AddOrVerifyResult:
        """Raise AssertionError: a change of the catalogue has no transaction."""
        return reject_transaction(request)

    def publish_changes(self, changes: Sequence[TopicChange]) -> None:
        """Pass changes of topics to the listeners."""
        self._catalogue.publish_changes(changes)

    def now(self) -> Now:
        """Return the present time."""
        return clock.now()


def _return_configs(configs: Mapping[str, str], _: object) -> Mapping[str, str]:
    return configs
