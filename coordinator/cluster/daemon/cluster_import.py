"""Makes a cluster of what data directories have: one that was used without a cluster, or those of the daemons of a
cluster whose engine has lost its data.

    a key that keeps daemons out ─▶ logs, topics, … ─▶ the meta key in its place ─▶ the directories are marked

Until the meta key is there no daemon joins, and an import of the same directories begins anew. From then on the
cluster is whole, and an import of the same directories only marks them. So it may be broken off anywhere, and run
again.

Logs are uploaded as sealed segments, batches byte by byte, compacted or not. Of a log of coordinators that several
directories have a copy of, the one of the latest leader epoch counts, and of those the longest. Records of topics
stay where they are: each partition is led by the node whose directory has most of it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from coordinator.cluster.catalogue_keys import BLOCK, CatalogueKeys
from coordinator.cluster.conflict import Refused
from coordinator.cluster.engine.engine import (
    ABSENT,
    CreatedAt,
    Delete,
    Engine,
    EngineError,
    NoSpace,
    Put,
    Read,
    TooLarge,
    Transaction,
    WrittenAt,
)
from coordinator.cluster.engine.guarded import GuardedEngine
from coordinator.cluster.keys import Keys
from coordinator.cluster.store.manifest import Manifest
from coordinator.cluster.store.store import MOST_SEGMENTS, Segment, Store, TokenLost, repeated
from coordinator.config.properties import Config
from coordinator.names import CONSUMER_OFFSETS
from coordinator.security.security_state import SecurityState
from coordinator.server.cluster.local_directory import LocalDirectory, NotImported
from coordinator.server.cluster.member_directory import mark_member
from coordinator.server.cluster.meta import Meta, encode_meta, new_meta, read_meta
from coordinator.server.cluster.reach import Nodes, reached
from coordinator.server.cluster.shared_security import security_puts
from storage.errors import StorageError
from storage.files import Files
from storage.log import PartitionLog
from storage.os_error import reason_of
from storage.topic_partition import TopicPartition

T = TypeVar("T")
_MOST_PUTS: Final = 100
SEGMENT_BYTES: Final = 128 << 20
"""So 60 of them are as much as etcd is made for."""
_UNSEEN_PRODUCER_IDS: Final = 1000 * BLOCK
"""Past the last one that a log knows, where those that were given out are not known: others may be in use."""


class Imported(NamedTuple):
    """What a cluster was made of."""

    cluster_id: str
    topics: int
    partitions: int
    """Of `__consumer_offsets`, with records."""
    size_bytes: int
    """Of these."""
    was_done: bool
    """An import of the same directories had done it before."""
    left_out: Sequence[str]
    """What the directories have and the cluster does not get, a line each."""


async def import_directories(
    engine: Nodes,
    files: Files,
    paths: Sequence[str],
    config: Config,
    properties: Mapping[str, str],
    node_id: int | None = None,
    cluster_id: str | None = None,
) -> Imported:
    """Opens the directories at absolute paths, checks them, imports them, and closes them. In: the properties of
    brokers, and those that were set explicitly; the ids that somebody says they have. Raises NotImported,
    StartFailed."""
    directories: list[LocalDirectory] = []
    try:
        for path in paths:
            directories.append(LocalDirectory(files, path, config, properties, node_id))
            directories[-1].check()
        one = Import(engine, config.cluster_etcd_prefix, files, directories)
        if cluster_id not in (None, one.cluster_id):
            raise NotImported(f"{paths[0]}: is of cluster {one.cluster_id}, and CLUSTER_ID says {cluster_id}")
        await reached(engine, engine.version)
        return await one.run()
    except OSError as error:
        raise NotImported(f"{reason_of(error)}: import again") from error
    finally:
        for each in directories:
            each.close()


class Import:
    """One import. All methods belong to the event loop's thread."""

    def __init__(
        self, engine: Engine, prefix: str, files: Files, directories: Sequence[LocalDirectory]
    ) -> None:
        """In: directories that were checked. Raises NotImported where they do not go together."""
        assert directories
        self._engine = engine
        self._files = files
        self._directories = directories
        self.cluster_id = _only("cluster ids", {each.path: each.meta.cluster_id for each in directories})
        _different("node.id", {each.path: each.meta.node_id for each in directories})
        self._partitions = _only(
            "numbers of partitions of __consumer_offsets",
            {each.path: each.partitions for each in directories},
        )
        if "/" in self.cluster_id:
            raise NotImported(
                f"{directories[0].path}: its cluster id {self.cluster_id} has a '/', "
                "which the id of a cluster on etcd must not have"
            )
        self._keys = Keys(self.cluster_id, prefix)
        self._ids = sorted(each.meta.directory_id for each in directories)

    async def run(self) -> Imported:
        """Raises NotImported, StartFailed, and OSError where a directory cannot be marked."""
        try:
            meta = await repeated(lambda: read_meta(self._engine, self._keys))
            if meta is not None:
                if sorted(meta.imported) != self._ids:
                    raise self._not_empty()
                self._mark(meta)
                return Imported(self.cluster_id, len(self._topics()), 0, 0, True, ())
            guard = await self._begin()
            # A try that nobody has heard of may come when daemons are at work on what was imported.
            guarded = GuardedEngine(self._engine, guard)
            partitions, size_bytes = await self._upload(guarded)
            await self._topics_and_groups(guarded)
            await self._security(guarded)
            await self._end(guard)
        except NoSpace as error:
            raise NotImported(f"etcd is full, make room in it and import again: {error}") from error
        except TooLarge as error:
            raise NotImported(f"etcd takes no request as large (--max-request-bytes): {error}") from error
        except EngineError as error:
            raise NotImported(f"etcd does not do what is needed, import again: {error}") from error
        except TokenLost as error:
            raise self._disturbed() from error
        return Imported(self.cluster_id, len(self._topics()), partitions, size_bytes, False, self._left_out())

    def _left_out(self) -> list[str]:
        return [
            f"{each.path}: {each.transactional_ids} transactional ids, none of which has a transaction open"
            for each in self._directories
            if each.transactional_ids
        ]

    # Keeping others out

    async def _begin(self) -> WrittenAt:
        """Puts the key that keeps daemons out, and removes what an import of the same that was broken off has left.
        Raises NotImported where there is anything else."""
        keys = self._keys
        begin, end = keys.all
        looks, fills = (json.dumps([stage, *self._ids]).encode() for stage in ("looks", "fills"))
        absent = (CreatedAt(keys.meta, ABSENT), CreatedAt(keys.importing, ABSENT))
        await self._transact(absent, [Put(keys.importing, looks)])
        guard, value = await self._guard()
        if value == looks:
            if len((await self._read(Read(begin, end, 2))).entries) > 1:
                await self._transact((guard,), [Delete(keys.importing)])
                raise self._not_empty()
            await self._transact((guard,), [Put(keys.importing, fills)])
            guard, value = await self._guard()
        if value != fills:
            raise self._not_empty()
        # Written anew: a try of this that comes late finds another key than it saw.
        others = [Delete(begin, keys.importing), Delete(keys.importing + b"\0", end)]
        await self._transact((guard,), [*others, Put(keys.importing, fills)])
        guard, value = await self._guard()
        if value != fills:
            raise self._disturbed()
        return guard

    async def _guard(self) -> tuple[WrittenAt, bytes]:
        """What holds while the key is as it is now, and what it says."""
        page = await self._read(Read(self._keys.importing))
        if not page.entries:
            raise self._not_empty()
        return WrittenAt(self._keys.importing, page.entries[0].written_at), page.entries[0].value

    def _not_empty(self) -> NotImported:
        where = self._keys.all[0].decode()
        return NotImported(
            f"etcd has something below {where} that is not of this import: it has to be empty there "
            "(another cluster.etcd.prefix will do, too)"
        )

    async def _end(self, guard: WrittenAt) -> None:
        meta = new_meta(self._partitions, self._directories[0].topic_id, self._ids)
        keys = self._keys
        operations: list[Put | Delete] = [Put(keys.meta, encode_meta(meta)), Delete(keys.importing)]
        await self._transact((guard, CreatedAt(keys.meta, ABSENT)), operations)
        # A try that was not answered may have done it.
        if await repeated(lambda: read_meta(self._engine, keys)) != meta:
            raise self._disturbed()
        self._mark(meta)

    @staticmethod
    def _disturbed() -> NotImported:
        return NotImported("somebody else writes to this cluster: import again")

    def _mark(self, meta: Meta) -> None:
        for each in self._directories:
            mark_member(self._files, each.path, self.cluster_id, meta)

    # Logs of coordinators

    async def _upload(self, engine: GuardedEngine) -> tuple[int, int]:
        count = size_bytes = 0
        for partition in (TopicPartition(CONSUMER_OFFSETS, number) for number in range(self._partitions)):
            copies = [log for each in self._directories if (log := each.logs.get(partition)) is not None]
            if copies:
                best = max(copies, key=lambda log: (log.leader_epochs.current, log.log_end_offset))
                sealed = await self._upload_log(engine, partition, best)
                count, size_bytes = count + (sealed > 0), size_bytes + sealed
        return count, size_bytes

    async def _upload_log(self, engine: GuardedEngine, partition: TopicPartition, log: PartitionLog) -> int:
        """How many bytes it has."""
        store, manifest = Store(engine, self._keys), Manifest()
        epoch = log.leader_epochs.current
        try:
            for segment, end_offset, greatest_epoch in _segments(log):
                if len(manifest.segments) == MOST_SEGMENTS:
                    raise NotImported(
                        f"{partition} is too large for a cluster on etcd: {log.size_bytes} bytes"
                    )
                epoch = max(epoch, greatest_epoch)
                manifest = await store.seal(
                    *partition,
                    ABSENT,
                    manifest,
                    manifest.segments,
                    [segment],
                    end_offset,
                    min(log.cleaned_to, end_offset),
                )
        except StorageError as error:
            raise NotImported(f"{partition} is damaged: {reason_of(error)}") from error
        await self._put(engine, self._keys.epoch(*partition), epoch)
        return manifest.size

    # Topics

    def _topics(self) -> dict[str, dict[str, Any]]:
        """By name, as catalogues have them. Raises NotImported where two mean another topic by a name."""
        found: dict[str, dict[str, Any]] = {}
        for each in self._directories:
            for entry in each.document["topics"]:
                # Copies of records that the engine had are what is left of them: they are on disks from now on.
                topic = {field: value for field, value in entry.items() if field != "replication_factor"}
                other = found.setdefault(topic["name"], topic)
                if other["topic_id"] != topic["topic_id"]:
                    raise NotImported(
                        f"{each.path}: its topic {topic['name']} is another than one of that name"
                    )
                if other["partitions"] < topic["partitions"]:
                    found[topic["name"]] = topic
        return found

    async def _topics_and_groups(self, engine: GuardedEngine) -> None:
        leaders = self._leaders()
        topics = self._topics()

        def replicas_of(name: str, partitions: int, _: int) -> list[list[int]]:
            nodes = [each.meta.node_id for each in self._directories]
            return [
                [leaders.get(TopicPartition(name, number), nodes[number % len(nodes)])]
                for number in range(partitions)
            ]

        catalogue = CatalogueKeys(engine, self._keys, replicas_of)
        catalogue.begins_with({"topics": []})
        groups: dict[str, Any] = {}
        for each in self._directories:
            groups |= each.document.get("groups", {})
        try:
            await catalogue.write({"topics": list(topics.values()), "groups": groups})
        except Refused as error:
            raise NotImported(f"{error}: import again") from error
        await self._put(engine, self._keys.producer_ids, self._next_producer_id())

    async def _security(self, engine: GuardedEngine) -> None:
        """ACLs and users of all directories; of a user that several know, as the first one does."""
        state = SecurityState()
        for each in self._directories:
            found = each.security
            state = SecurityState(state.acls | found.acls, {**found.scram, **state.scram})
        puts = security_puts(self._keys, state)
        for first in range(0, len(puts), _MOST_PUTS):
            some = Transaction((), tuple(puts[first : first + _MOST_PUTS]))
            if not (await repeated(lambda some=some: engine.transact(some))).succeeded:  # type: ignore[misc]
                raise self._disturbed()

    def _leaders(self) -> dict[TopicPartition, int]:
        longest: dict[TopicPartition, tuple[int, int]] = {}
        for each in self._directories:
            for partition, end_offset in each.ends():
                if end_offset > longest.get(partition, (0, 0))[0]:
                    longest[partition] = end_offset, each.meta.node_id
        return {partition: node_id for partition, (_, node_id) in longest.items()}

    def _next_producer_id(self) -> int:
        """Nobody has got it, or a later one. What the engine gave out is known to the engine alone."""
        reserved = max(int(each.document["producer_ids_reserved"]) for each in self._directories)
        known = max(each.last_producer_id for each in self._directories)
        if any(each.was_member for each in self._directories):
            return max(reserved, known + _UNSEEN_PRODUCER_IDS)
        return max(reserved, known + 1)

    # The engine

    async def _put(self, engine: GuardedEngine, key: bytes, number: int) -> None:
        put = Transaction((), (Put(key, b"%d" % number),))
        if not (await repeated(lambda: engine.transact(put))).succeeded:
            raise self._disturbed()

    async def _transact(self, compares: Any, operations: Sequence[Put | Delete]) -> Any:
        return await repeated(lambda: self._engine.transact(Transaction(tuple(compares), tuple(operations))))

    async def _read(self, read: Read) -> Any:
        return await repeated(lambda: self._engine.read(read))


def _segments(log: PartitionLog) -> Iterator[tuple[Segment, int, int]]:
    """All batches of a log in segments, each with where it ends, and its greatest leader epoch. The last one ends
    where appends are to go on: where the last batch does. Raises StorageError."""
    batches: list[bytes] = []
    first = end_offset = size = epoch = 0
    for batch in log.batches():
        header = batch.header
        if batches and size + len(batch.data) > SEGMENT_BYTES:
            yield Segment(first, batches), end_offset, epoch
            batches, size = [], 0
        if not batches:
            first = header.base_offset
        batches.append(bytes(batch.data))
        size += len(batch.data)
        end_offset, epoch = header.next_offset, max(epoch, header.partition_leader_epoch)
    if batches:
        yield Segment(first, batches), end_offset, epoch


def _only(what: str, by_path: Mapping[str, T]) -> T:
    first, *others = set(by_path.values())
    if others:
        said = ", ".join(f"{path}: {value}" for path, value in by_path.items())
        raise NotImported(f"the directories have different {what} ({said}): they are not of one cluster")
    return first


def _different(what: str, by_path: Mapping[str, object]) -> None:
    if len(set(by_path.values())) < len(by_path):
        said = ", ".join(f"{path}: {value}" for path, value in by_path.items())
        raise NotImported(f"each directory has to have a {what} of its own ({said})")
