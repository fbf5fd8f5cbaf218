"""The catalogue of a server that shares it with the other daemons of a cluster.

The keys are the truth; `topics.json` is this daemon's copy. What a client asks of this daemon is written to the
keys as one step of its work, in a thread. What other daemons did is taken up as they are seen to have done it: the
same steps, which then find nothing to write.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from coordinator import clock
from coordinator.cluster.catalogue_keys import CatalogueKeys
from coordinator.cluster.conflict import Refused
from coordinator.cluster.engine.engine import Changes, Engine, EngineError
from coordinator.cluster.member.member import Replicated
from coordinator.cluster.shared_topic import SharedTopic
from coordinator.ongoing_failures import OngoingFailures, times
from coordinator.topics.answer import (
    ConfigChanged,
    FilesLeft,
    GroupConfigChanged,
    PartitionsAdded,
    TopicChange,
    TopicCreated,
    TopicDeleted,
)
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.steps import Work
from coordinator.topics.topic import NewTopic, Topic
from storage.checkpoint import Draft
from storage.data_directory import CATALOGUE, DataDirectory
from storage.errors import StorageError
from storage.os_error import outcome, reason_of
from storage.uuid_text import uuid_from_text, uuid_to_text

_LOG: Final = logging.getLogger("Cluster")
_TIMEOUT_S: Final = 30
_RETRY_S: Final = 0.2
_LOOK_S: Final = 5.0
_DECLARED: Final = 10
"""So often a topic is tried to be made at a start."""

Told = Callable[[Sequence[TopicChange]], None]


class SharedCatalogue:
    """All methods belong to the event loop's thread, but for what they give to be called in others."""

    def __init__(self, loop: asyncio.AbstractEventLoop, engine: Engine, keys: CatalogueKeys) -> None:
        self.keys = keys
        self._loop = loop
        self._engine = engine
        self._revision = 0
        self._catalogue: Catalogue
        self._told: Told
        self._tasks: list[asyncio.Task[None]] = []
        self._failures = OngoingFailures("Cluster")
        self._told_of: set[tuple[str, str]] = set()
        """Topics that cannot be made yet, and why."""
        self._step: asyncio.Future[Any] | None = None
        """The last thing that a thread was asked to do."""
        self._is_due = asyncio.Event()
        self._is_taken_up = asyncio.Event()
        """Set each time that what was due was taken up, as far as it could be."""

    # Before the server opens

    async def read(self) -> None:
        """Raises EngineError."""
        self._revision = await self.keys.read()

    def write_copy(self, directory: DataDirectory) -> None:
        """Makes the directory's file say what the keys say. Raises StorageError, OSError."""
        before: Any = directory.read_catalogue() or {"topics": [], "deleted": []}
        ids = {topic.topic_id for topic in self.keys.topics.values()}
        deleted = [
            {"name": entry["name"], "topic_id": entry["topic_id"]}
            for entry in (*before["deleted"], *before["topics"])
            if entry["topic_id"] not in ids and entry["name"] not in self.keys.unreadable
        ]
        # A topic whose key cannot be read is not gone: its directories stay.
        kept = [
            entry
            for entry in before["topics"]
            if entry["name"] in self.keys.unreadable and entry["topic_id"] not in ids
        ]
        document = self.keys.document(deleted, kept)
        directory.write_catalogue(document)
        self.keys.begins_with(document)

    # While it serves

    def attach(self, catalogue: Catalogue, directory: DataDirectory, told: Told) -> None:
        """Has a catalogue write to the keys. In: who is told of what other daemons changed."""
        self._catalogue, self._told = catalogue, told
        catalogue.file.write = partial(self._write, directory)

    def _write(self, directory: DataDirectory, document: Mapping[str, Any]) -> None:
        """In a thread. Raises StorageError, OSError."""
        try:
            self._write_keys(document)
        except (StorageError, OSError):
            # What this daemon has changed already is to be as the cluster has it.
            self._loop.call_soon_threadsafe(self._is_due.set)
            raise
        # The keys have the change. The file is a copy, which the next start makes anew.
        error = outcome(partial(directory.write_catalogue, document))
        self._loop.call_soon_threadsafe(self._report_copy, error)
        self._loop.call_soon_threadsafe(self.keys.begins_with, document)

    def _report_copy(self, error: OSError | None) -> None:
        if error is None:
            self._failures.is_over(CATALOGUE)
        elif count := self._failures.failed(CATALOGUE, error):
            _LOG.error(
                "The copy of the cluster's topics could not be written, and is made anew at the next start: %s%s",
                reason_of(error),
                times(count),
            )

    def _write_keys(self, document: Mapping[str, Any]) -> None:
        try:
            asyncio.run_coroutine_threadsafe(self.keys.write(document), self._loop).result(_TIMEOUT_S)
        except (EngineError, TimeoutError) as error:
            raise Refused(f"etcd did not take it: {reason_of(error)}") from error

    def reserve_producer_ids(self) -> int | OSError:
        """A block of producer ids; in a thread."""
        try:
            reserved = asyncio.run_coroutine_threadsafe(self.keys.reserve_producer_ids(), self._loop)
            return reserved.result(_TIMEOUT_S)
        except OSError as error:
            return error
        except (EngineError, TimeoutError) as error:
            return Refused(f"etcd gave no producer ids: {reason_of(error)}")

    def start(self) -> None:
        """Begins to watch, and to take up what is seen."""
        for begin, end in self.keys.ranges:
            self._tasks.append(self._loop.create_task(self._watch(begin, end)))
        self._tasks.append(self._loop.create_task(self._take_up()))

    async def stop(self) -> None:
        """Takes up nothing any more."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._step is not None:  # it goes on in its thread, whoever waits
            await asyncio.wait([self._step])

    async def declare(self, topics: Sequence[tuple[str, int]], factor: int) -> list[tuple[str, int]]:
        """Makes sure that there are topics of at least so many partitions, whoever makes them. In: how many
        replicas new ones have. Out: those that are not there yet."""
        left = []
        for name, partitions in topics:
            for _ in range(_DECLARED):
                if self._is_there(name, partitions):
                    break
                topic = self._catalogue.get(name)
                try:
                    if topic is None and name not in self.keys.topics:
                        await self._create(NewTopic(name, partitions, {}, replication_factor=factor))
                    elif topic is not None:
                        await self._grow(topic, partitions)
                except OSError as error:
                    if (name, reason_of(error)) not in self._told_of:
                        self._told_of.add((name, reason_of(error)))
                        _LOG.info("Topic %s is not made yet: %s", name, reason_of(error))
                await asyncio.sleep(_RETRY_S)
            if not self._is_there(name, partitions):
                left.append((name, partitions))
        return left

    async def declare_on(self, left: Sequence[tuple[str, int]], factor: int) -> None:
        """What could not be made yet waits for brokers that are still to come."""
        while left:
            left = await self.declare(left, factor)

    def _is_there(self, name: str, partitions: int) -> bool:
        topic = self._catalogue.get(name)
        return topic is not None and len(topic.partitions) >= partitions

    def has(self, name: str, topic_id: bytes) -> bool:
        """Whether the cluster has a topic, as far as is known here."""
        shared = self.keys.topics.get(name)
        return shared is not None and shared.topic_id == uuid_to_text(topic_id)

    def replicated(self) -> dict[str, Replicated]:
        """Topics whose records the engine has, as far as they are taken up here."""
        found = {}
        for name, shared in self.keys.topics.items():
            topic = self._catalogue.get(name) if shared.is_replicated else None
            if topic is not None and uuid_to_text(topic.topic_id) == shared.topic_id:
                is_there = self.keys.is_there(name)
                found[name] = Replicated(shared.replicas[: len(topic.partitions)], is_there)
        return found

    async def look_for(self, names: Sequence[str] | None) -> bool:
        """Takes up topics of these names as they are now, None: whatever there is. False where the engine does not
        say so, or that takes long."""
        try:
            async with asyncio.timeout(_LOOK_S):
                if names is None:
                    await self.keys.read()
                else:
                    await self.keys.look_for(names)
                self._is_due.set()
                while not self._has_taken_up(self.keys.topics if names is None else names):
                    self._is_taken_up.clear()
                    await self._is_taken_up.wait()
        except (EngineError, TimeoutError) as error:
            _LOG.info("Topics of the cluster could not be looked for: %s", reason_of(error))
            return False
        return True

    def _has_taken_up(self, names: Iterable[str]) -> bool:
        for name in names:
            shared, topic = self.keys.topics.get(name), self._catalogue.get(name)
            if shared is not None and (topic is None or len(topic.partitions) < shared.partitions):
                return False
        return True

    async def _watch(self, begin: bytes, end: bytes) -> None:
        revision = self._revision
        while True:
            try:
                async for changes in self._engine.watch(begin, end, revision):
                    self._seen(changes)
                    revision = changes.revision + 1
            except EngineError as error:
                _LOG.warning("The topics of the cluster are read anew: %s", error)
                try:
                    revision = await self.keys.read()
                    self._is_due.set()
                except EngineError as again:
                    _LOG.warning("They cannot be read: %s", again)
            except Exception as problem:  # noqa: BLE001 - a mirror that stands still is worse
                _LOG.error("Watching the topics of the cluster", exc_info=problem)
            await asyncio.sleep(_RETRY_S)

    def _seen(self, changes: Changes) -> None:
        self.keys.changed(changes)
        self._is_due.set()

    async def _take_up(self) -> None:
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            try:
                is_done = await self._all()
            except (OSError, StorageError) as error:
                _LOG.error("What another broker changed of topics is tried again: %s", reason_of(error))
                is_done = False
            except Exception as problem:  # noqa: BLE001 - the next change may be taken up
                _LOG.error("Taking up topics", exc_info=problem)
                is_done = True
            self._is_taken_up.set()
            if not is_done:
                await asyncio.sleep(_RETRY_S)
                self._is_due.set()

    async def _all(self) -> bool:
        """Whether nothing is left that this daemon is changing itself just now. Raises OSError, StorageError."""
        is_done = True
        catalogue = self._catalogue
        for topic in [topic for topic in catalogue if topic.hosted]:
            shared = self.keys.topics.get(topic.name)
            if catalogue.is_changing(topic.name):
                is_done = False
            elif topic.name in self.keys.unreadable:
                continue
            elif shared is None or shared.topic_id != uuid_to_text(topic.topic_id):
                await self._delete(topic)
        for shared in list(self.keys.topics.values()):
            if catalogue.is_changing(shared.name):
                is_done = False
            else:
                await self._adopt(shared)
        for group_id in {*self.keys.group_configs, *catalogue.group_configs.by_group}:
            configs = self.keys.group_configs.get(group_id, {})
            if dict(catalogue.group_configs.of(group_id)) != configs:
                await self.take_steps(
                    catalogue.group_configs.changing(group_id, partial(_replace_by, configs))
                )
                self._told([GroupConfigChanged(group_id, tuple(sorted(configs.items())))])
        return is_done

    async def _adopt(self, shared: SharedTopic) -> None:
        topic = self._catalogue.get(shared.name)
        if topic is None:
            topic_id = uuid_from_text(shared.topic_id)
            factor = shared.replication_factor
            new = NewTopic(shared.name, shared.partitions, dict(shared.configs), topic_id, factor)
            self.keys.taking_up.add(shared.topic_id)
            try:
                await self._create(new)
            finally:
                self.keys.taking_up.discard(shared.topic_id)
            return
        if len(topic.hosted) < shared.partitions:
            await self._grow(topic, shared.partitions)
        if topic.overrides != dict(shared.configs):
            await self.take_steps(self._catalogue.configuring(topic, partial(_replace_by, shared.configs)))
            self._told([ConfigChanged(topic.name, tuple(sorted(shared.configs.items())))])

    async def _create(self, new: NewTopic) -> None:
        made = (await self.take_steps(self._catalogue.creating([new])))[new.name]
        if isinstance(made, OSError | StorageError):
            raise made
        if isinstance(made, Topic):
            self._told([TopicCreated(new.name, made.topic_id, new.partitions)])

    async def _grow(self, topic: Topic, partitions: int) -> None:
        problem = (await self.take_steps(self._catalogue.growing({topic: partitions})))[topic.name]
        if isinstance(problem, OSError | StorageError):
            raise problem
        if problem is None:
            self._told([PartitionsAdded(topic.name, topic.topic_id, partitions)])

    async def _delete(self, topic: Topic) -> None:
        deleted, problem = await self.take_steps(self._catalogue.deleting([topic]))
        changes: list[TopicChange] = [TopicDeleted(each.name, each.topic_id) for each in deleted]
        if problem is not None:
            changes.append(FilesLeft(reason_of(problem)))
        self._told(changes)

    async def take_steps(self, steps: Work[Any]) -> Any:
        """Take all steps of some work, with other work of the event loop between them. Return the result."""
        result: Any = None
        while True:
            try:
                step = steps.send(result)
            except StopIteration as end:
                return end.value
            if isinstance(step, Draft):
                self._step = self._loop.run_in_executor(None, outcome, step.write)
                result = await asyncio.shield(self._step)
            elif callable(step):
                self._step = self._loop.run_in_executor(None, step)
                result = await asyncio.shield(self._step)
            else:
                await asyncio.sleep(0)
                result = clock.now()


def _replace_by(configs: Mapping[str, str], _: object) -> Mapping[str, str]:
    return configs
