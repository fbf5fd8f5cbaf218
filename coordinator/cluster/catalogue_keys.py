"""The catalogue of a cluster: topics, configs of groups and blocks of producer ids, as keys that all daemons share.

Every daemon has a mirror of the keys, which a watch keeps. It writes the difference between two of its own
catalogues, never more: a topic that another daemon has made, and that this one has not taken up yet, is none of its
business. Each key that changes is compared with what the mirror says of it, so of two daemons that change one topic
at one time one has to look again: what both have changed is brought together (`catalogue_merge`).
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from coordinator.cluster.catalogue_merge import merged_configs, merged_topic
from coordinator.cluster.conflict import Refused
from coordinator.cluster.engine.engine import (
    ABSENT,
    Changes,
    CreatedAt,
    Delete,
    Engine,
    Entry,
    Outcome,
    Put,
    Read,
    Transaction,
    Unavailable,
    WrittenAt,
)
from coordinator.cluster.engine.guarded import GuardedEngine
from coordinator.cluster.key_values import UnreadableKey, parse_number, parse_object
from coordinator.cluster.keys import Keys
from coordinator.cluster.member.key_reader import KeyReader
from coordinator.cluster.member.watching import read_all
from coordinator.cluster.shared_topic import SharedTopic, encoded, parse_topic
from coordinator.cluster.store.store import repeated

BLOCK: Final = 1000
_TRIES: Final = 60
_RETRY_S: Final = 0.1
_MOST_CHANGED: Final = 30
"""Keys in a transaction, which has 128 operations at the most."""
_MOST_REMOVED: Final = 15
"""The same; with each go some ranges of others."""
_SAID: Final = ("topic_id", "partitions", "configs", "replication_factor")
_CONFLICTS: Final = 10
"""After so many changes of others in between, one of our own is given up."""


Replicas = Callable[[str, int, int], Sequence[Sequence[int]]]
"""Which nodes may lead each partition of a new topic: its name, how many partitions and how many replicas."""


class CatalogueKeys:
    """All methods belong to the event loop's thread."""

    def __init__(self, engine: Engine, keys: Keys, replicas: Replicas) -> None:
        """In: see `Replicas`; the first partitions of a topic that grows stay where they are."""
        self.topics: dict[str, SharedTopic] = {}
        """The mirror, by name."""
        self.unreadable: set[str] = set()
        """The names of topics with unreadable keys. A topic that this daemon knew before stays as it was."""
        self._reader = KeyReader()
        self.group_configs: dict[str, Mapping[str, str]] = {}
        self.taking_up: set[str] = set()
        """Ids of topics that this daemon makes because another one has made them: they are never put here."""
        self.made: Entry | None = None
        """The key that the cluster was made with, where that is looked at."""
        self._unguarded = engine
        self._engine: Engine = engine
        self._keys = keys
        self._replicas = replicas
        self._written_at: dict[bytes, int] = {}
        self._before: dict[bytes, bytes] = {}
        """What this daemon's own catalogue said when its disk last took it, without leaders."""
        self._gone_meanwhile: dict[bytes, int] = {}
        """Keys that were deleted while some are read, and at which revision."""
        self._reads = 0
        """How many are under way."""
        self._whole_at = ABSENT
        """The revision at which all was read last: what was written before and is not in the mirror is gone."""
        self._is_reading = asyncio.Lock()
        self._is_writing = asyncio.Lock()

    async def know_cluster(self) -> None:
        """Reads what the cluster was made with: where the engine has that no more, nothing is read or written from
        now on. Raises EngineError."""
        page = await self._unguarded.read(Read(self._keys.meta))
        if not page.entries:
            raise Unavailable("etcd does not have what the cluster was made with")
        [made] = page.entries
        self.made = made
        self._engine = GuardedEngine(self._unguarded, CreatedAt(made.key, made.created_at))

    async def _check_cluster(self) -> None:
        """To be called before anything that was read is believed. Raises EngineError."""
        if self.made is None:
            return
        page = await self._engine.read(Read(self.made.key))
        if [entry.value for entry in page.entries] != [self.made.value]:
            raise Unavailable("etcd does not have any more what the cluster was made with")

    # The mirror

    async def read(self) -> int:
        """Reads all of it. Out: the revision from which on it is to be watched. Raises EngineError."""
        async with self._is_reading:
            with self._reading():
                entries: list[Entry] = []
                revision = 0
                for begin, end in self.ranges:
                    found, revision = await read_all(self._engine, begin, end, revision)
                    entries += found
                await self._check_cluster()
                there = {entry.key for entry in entries}
                # What was watched, or written here, since then is newer.
                for key in [key for key, at in self._written_at.items() if at <= revision]:
                    if key not in there:
                        self._forget(key, revision)
                for entry in entries:
                    self._found(entry)
                self._whole_at = revision
        return revision + 1

    async def look_at(self, keys: Iterable[bytes]) -> None:
        """Reads some keys as they are now. Raises EngineError."""
        with self._reading():
            pages = [(key, await self._engine.read(Read(key))) for key in keys]
            await self._check_cluster()
            for key, page in pages:
                for entry in page.entries:
                    if key in self._written_at or entry.written_at > self._whole_at:
                        self._found(entry)
                if not page.entries and self._written_at.get(key, ABSENT) <= page.revision:
                    self._forget(key, page.revision)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """What is deleted until then is not there, whatever was read before."""
        self._reads += 1
        try:
            yield
        finally:
            self._reads -= 1
            if not self._reads:
                self._gone_meanwhile.clear()

    def _found(self, entry: Entry) -> None:
        """A key was there when it was read."""
        if self._gone_meanwhile.get(entry.key, ABSENT) < entry.written_at:
            self._put_newer(entry)

    async def look_for(self, names: Iterable[str]) -> None:
        """Reads topics of these names as they are now. Raises EngineError."""
        await self.look_at([self._keys.topic(name) for name in names])

    def is_there(self, name: str) -> CreatedAt:
        """Holds while the topic of that name is the one that the mirror has."""
        return CreatedAt(self._keys.topic(name), self.topics[name].created_at)

    @property
    def ranges(self) -> list[tuple[bytes, bytes]]:
        """Of the keys that are to be watched."""
        return [self._keys.all_of("topics"), self._keys.all_of("group_configs")]

    def changed(self, changes: Changes) -> None:
        """Takes what was watched; what is older than the mirror changes nothing."""
        for entry in changes.written:
            self._put_newer(entry)
        for key in changes.deleted:
            if self._written_at.get(key, ABSENT) < changes.revision:
                self._forget(key, changes.revision)

    def _put_newer(self, entry: Entry) -> None:
        if entry.written_at > self._written_at.get(entry.key, ABSENT):
            self._put(entry)

    def _put(self, entry: Entry) -> None:
        kind, name = self._name(entry.key)
        if kind == "topics":
            topic = self._reader.read(entry, lambda entry: parse_topic(name, entry))
            if topic is None:
                # Nothing is written over it: the revision of the mirror stays an older one.
                self.unreadable.add(name)
                return
            self.unreadable.discard(name)
            self.topics[name] = topic
        else:
            configs = self._reader.read(entry, _parse_configs)
            if configs is None:
                return
            self.group_configs[name] = configs
        self._written_at[entry.key] = entry.written_at

    def _forget(self, key: bytes, revision: int) -> None:
        """A key was deleted at a revision."""
        if self._reads:
            self._gone_meanwhile[key] = revision
        self._written_at.pop(key, None)
        self._reader.forget(key)
        kind, name = self._name(key)
        if kind == "topics":
            self.unreadable.discard(name)
        (self.topics if kind == "topics" else self.group_configs).pop(name, None)

    def _name(self, key: bytes) -> tuple[str, str]:
        for kind in ("topics", "group_configs"):
            begin, _ = self._keys.all_of(kind)
            if key.startswith(begin):
                return kind, key[len(begin) :].decode("utf-8", "surrogateescape")
        raise AssertionError(key)

    def document(
        self, deleted: Sequence[Mapping[str, str]], kept: Sequence[Mapping[str, object]] = ()
    ) -> dict[str, object]:
        """The mirror as the catalogue's file has it. In: topics of which directories may still lie there; the
        entries in the file of topics with unreadable keys."""
        return {
            "version": 1,
            "producer_ids_reserved": 0,
            "deleted": list(deleted),
            "topics": [
                {
                    "name": topic.name,
                    **topic.fields,
                    **({"replication_factor": topic.replication_factor} if topic.is_replicated else {}),
                }
                for _, topic in sorted(self.topics.items())
            ]
            + list(kept),
            "groups": dict(self.group_configs),
        }

    # Writing

    def begins_with(self, document: Mapping[str, Any]) -> None:
        """The catalogue that this daemon has taken up, and that its disk has."""
        self._before = self._said(document)

    async def write(self, document: Mapping[str, Any]) -> None:
        """Has the cluster take what is different in this daemon's own catalogue since the one that it has taken up.
        That is this one as soon as the disk has it (`begins_with`): were it so before, a topic that the disk
        refuses would be missed the next time, and be deleted for all. Raises Refused, and then nothing of a topic
        was changed that was refused."""
        async with self._is_writing:
            said, before = self._said(document), self._before
            changed = [key for key in said if said[key] != before.get(key)]
            removed = [key for key in before if key not in said]
            for first in range(0, len(changed), _MOST_CHANGED):
                await self._write(said, changed[first : first + _MOST_CHANGED], [])
            for first in range(0, len(removed), _MOST_REMOVED):
                await self._write(said, [], removed[first : first + _MOST_REMOVED])

    async def _write(
        self, said: Mapping[bytes, bytes], changed: Sequence[bytes], removed: Sequence[bytes]
    ) -> None:
        for _ in range(_CONFLICTS):
            entries = [(key, value) for key in changed if (value := self._whole(key, said[key])) is not None]
            left = {key: self._left(key) for key in removed if self._is_same(key)}
            entries += [(key, value) for key, value in left.items() if value is not None]
            gone = [key for key, value in left.items() if value is None]
            if not entries and not gone:
                return
            keys = [*(key for key, _ in entries), *gone]
            compares = [WrittenAt(key, self._written_at.get(key, ABSENT)) for key in keys]
            if any(compare.revision == ABSENT for compare in compares):
                compares.append(await self._nothing_removed())
            operations = (*(Put(key, value) for key, value in entries), *self._deletions(gone))
            outcome = await self._transact(Transaction(tuple(compares), operations))
            if outcome.succeeded:
                for key, value in entries:
                    created_at = self._created_at(key) or outcome.revision
                    self._put(Entry(key, value, created_at, outcome.revision, 0))
                for key in gone:
                    self._forget(key, outcome.revision)
                return
            if await self._is_done(entries, gone):
                # At which revision is not known.
                await self.look_at(keys)
                return
            # Another broker has changed one of them: what both have changed is brought together.
            await self.look_at(keys)
        raise Refused("other brokers of the cluster keep changing the same")

    async def _nothing_removed(self) -> WrittenAt:
        """Holds until something is removed. What makes a key needs it: a try of that may land late, once more, when
        the key that another one made is gone again."""
        key = self._keys.catalogue_removed
        page = await repeated(lambda: self._engine.read(Read(key)))
        return WrittenAt(key, page.entries[0].written_at if page.entries else ABSENT)

    def _is_same(self, key: bytes) -> bool:
        """Whether what is there is what this daemon means, and has removed: not another topic of that name."""
        if key not in self._written_at:
            return False
        kind, name = self._name(key)
        return kind != "topics" or self.topics[name].topic_id == json.loads(self._before[key])["topic_id"]

    def _left(self, key: bytes) -> bytes | None:
        """What stays of a key that this daemon has removed: what others have set of a group."""
        kind, name = self._name(key)
        if kind == "topics":
            return None
        merged = merged_configs(json.loads(self._before[key]), {}, self.group_configs[name])
        return json.dumps(merged).encode() if merged else None

    def _created_at(self, key: bytes) -> int:
        kind, name = self._name(key)
        return self.topics[name].created_at if kind == "topics" and name in self.topics else ABSENT

    def _deletions(self, gone: Sequence[bytes]) -> Iterator[Put | Delete]:
        """With a topic goes all that the engine has of its records: no append of an owner goes through any more."""
        if gone:
            yield Put(self._keys.catalogue_removed, gone[-1])
        for key in gone:
            yield Delete(key)
            kind, name = self._name(key)
            if kind == "topics" and self.topics[name].is_replicated:
                yield from (Delete(*each) for each in self._keys.all_of_topic(name))

    def _whole(self, key: bytes, said_value: bytes) -> bytes | None:
        """What a key is to be, with replicas; None where it is that already, or where it went while this daemon
        took up what another one had made. Raises Refused."""
        kind, name = self._name(key)
        said = json.loads(said_value)
        before = json.loads(self._before[key]) if key in self._before else None
        if kind != "topics":
            there = self.group_configs.get(name, {})
            merged = merged_configs(before or {}, said, there)
            return None if merged == there else json.dumps(merged).encode()
        topic = self.topics.get(name)
        has = None if topic is None else topic.fields
        if topic is None and said["topic_id"] in self.taking_up:
            return None
        fields = merged_topic(name, before, said, has)
        if fields == has:
            return None
        fields.pop("replication_factor", None)  # the key has the replicas
        factor = said.get("replication_factor", 1)
        replicas = [] if topic is None else list(topic.replicas)
        replicas += self._replicas(name, fields["partitions"], factor)[len(replicas) :]
        is_replicated = factor > 1 if topic is None else topic.is_replicated
        return encoded(fields, replicas, is_replicated)

    async def reassign(self, name: str, partition: int, replicas: Sequence[int]) -> None:
        """Gives a partition of a topic whose records the engine has other replicas. Raises Refused, EngineError."""
        key = self._keys.topic(name)
        for _ in range(_CONFLICTS):
            topic = self.topics.get(name)
            if topic is None or not topic.is_replicated or partition >= topic.partitions:
                raise Refused(f"{name}-{partition} is gone")
            all_replicas = [*topic.replicas]
            all_replicas[partition] = list(replicas)
            put = Put(key, encoded(topic.fields, all_replicas, is_replicated=True))
            compare = WrittenAt(key, self._written_at.get(key, ABSENT))
            outcome = await self._transact(Transaction((compare,), (put,)))
            await self.look_at([key])
            seen = self.topics.get(name)
            has_them = seen is not None and list(replicas) in seen.replicas[partition : partition + 1]
            if outcome.succeeded or has_them:
                return
        raise Refused("other brokers of the cluster keep changing the same")

    async def _transact(self, transaction: Transaction) -> Outcome:
        for _ in range(_TRIES - 1):
            try:
                return await self._engine.transact(transaction)
            except Unavailable:
                await asyncio.sleep(_RETRY_S)
        try:
            return await self._engine.transact(transaction)
        except Unavailable as error:
            raise Refused("etcd does not answer") from error

    async def _is_done(self, entries: Sequence[tuple[bytes, bytes]], gone: Sequence[bytes]) -> bool:
        """Whether a try that was not answered did it."""
        for key, value in entries:
            page = await self._engine.read(Read(key))
            if not page.entries or page.entries[0].value != value:
                return False
        for key in gone:
            page = await self._engine.read(Read(key))
            if page.entries:
                return False
        return True

    def _said(self, document: Mapping[str, Any]) -> dict[bytes, bytes]:
        said: dict[bytes, bytes] = {}
        for topic in document["topics"]:
            fields = {field: topic[field] for field in _SAID if field in topic}
            said[self._keys.topic(topic["name"])] = json.dumps(fields).encode()
        for group_id, configs in document.get("groups", {}).items():
            said[self._keys.group_config(group_id)] = json.dumps(configs).encode()
        return said

    # Producer ids

    async def reserve_producer_ids(self) -> int:
        """A block of `BLOCK` ids that nobody else gets; the first of them. Raises Refused."""
        for _ in range(_TRIES):
            try:
                page = await self._engine.read(Read(self._keys.producer_ids))
                first = parse_number(page.entries[0].value) if page.entries else 0
                at = page.entries[0].written_at if page.entries else ABSENT
                compare = WrittenAt(self._keys.producer_ids, at)
                put = Put(self._keys.producer_ids, b"%d" % (first + BLOCK))
                outcome = await self._engine.transact(Transaction((compare,), (put,)))
            except Unavailable:
                await asyncio.sleep(_RETRY_S)
                continue
            except UnreadableKey as error:
                raise Refused(f"the next producer id in etcd {error}") from error
            if outcome.succeeded:
                return first
        raise Refused("etcd gives out no producer ids")


def _parse_configs(entry: Entry) -> dict[str, str]:
    """Raises UnreadableKey."""
    configs = parse_object(entry.value)
    if not all(isinstance(value, str) for value in configs.values()):
        raise UnreadableKey("has a config that is not text")
    return configs
