"""The content of the catalogue's file, topics and the configs of groups, and its changes one after another.

A change is a function from the state before to the state after. The thread that writes the file calls it when all
earlier changes are on the disk or have failed. So a change never builds on a failed one.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final, NamedTuple

from coordinator.topics.long_work import LongWork
from storage.topic_partition import uuid_to_text

CATALOGUE_VERSION: Final = 1
NO_CONFIGS: Final[Mapping[str, str]] = MappingProxyType({})


class TopicEntry(NamedTuple):
    """The entry of a topic in the file."""

    topic_id: bytes
    partitions: int
    configs: Mapping[str, str]
    replication_factor: int


class CatalogueState(NamedTuple):
    """The content of the file. It is immutable: a change creates another state."""

    topics: Mapping[str, TopicEntry] = MappingProxyType({})
    deleted: Mapping[bytes, str] = MappingProxyType({})
    """Names by id of deleted topics that may still have directories."""
    producer_ids_reserved: int = 0
    """Producer ids below this one may be in use."""
    groups: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    """The config overrides of groups by id, without groups that have none."""

    def has_topic(self, name: str, topic_id: bytes) -> bool:
        """Return whether a topic of that name and id exists."""
        entry = self.topics.get(name)
        return entry is not None and entry.topic_id == topic_id

    def with_topics(self, entries: Mapping[str, TopicEntry]) -> "CatalogueState":
        """Return the state with these topics added, or replaced by name."""
        return self._replace(topics={**self.topics, **entries})

    def with_new_topics(self, entries: Mapping[str, TopicEntry]) -> "CatalogueState":
        """Return the state with these new topics, and without deleted topics of the same names. Their
        directories were removed."""
        gone = [topic_id for topic_id, name in self.deleted.items() if name in entries]
        return self.without_deleted(gone).with_topics(entries)

    def without_topics(self, names: Iterable[str]) -> "CatalogueState":
        """Return the state with these topics marked as deleted."""
        gone = {name: self.topics[name] for name in names}
        topics = {name: entry for name, entry in self.topics.items() if name not in gone}
        deleted = {**self.deleted, **{entry.topic_id: name for name, entry in gone.items()}}
        return self._replace(topics=topics, deleted=deleted)

    def without_deleted(self, ids: Iterable[bytes]) -> "CatalogueState":
        """Return the state without these deleted topics. Their directories were removed."""
        gone = {*ids} & self.deleted.keys()
        if not gone:
            return self
        return self._replace(deleted={key: name for key, name in self.deleted.items() if key not in gone})

    def with_group(self, group_id: str, configs: Mapping[str, str]) -> "CatalogueState":
        """Return the state with these configs of a group, or without the group if the configs are empty."""
        groups = {**self.groups, group_id: configs}
        if not configs:
            del groups[group_id]
        return self._replace(groups=groups)

    def document(self) -> dict[str, object]:
        """Return the state as the JSON document of the file."""
        topics = [
            {
                "name": name,
                "topic_id": uuid_to_text(entry.topic_id),
                "partitions": entry.partitions,
                "configs": dict(entry.configs),
                **({"replication_factor": entry.replication_factor} if entry.replication_factor > 1 else {}),
            }
            for name, entry in sorted(self.topics.items())
        ]
        deleted = [{"name": name, "topic_id": uuid_to_text(key)} for key, name in self.deleted.items()]
        groups = {group_id: dict(configs) for group_id, configs in sorted(self.groups.items())}
        return {
            "version": CATALOGUE_VERSION,
            "producer_ids_reserved": self.producer_ids_reserved,
            "deleted": deleted,
            "topics": topics,
            **({"groups": groups} if groups else {}),
        }


StateChange = Callable[[CatalogueState], CatalogueState]
"""Computes the next state. Raises ApiError if the state does not allow the change. Called in another thread."""


class CatalogueFile:
    """The state on the disk, and its changes. `change` belongs to the thread that owns the catalogue."""

    def __init__(self, write: Callable[[Mapping[str, object]], None]) -> None:
        """Create the state of a file. `write` replaces the file by a document, or leaves it unchanged and raises
        OSError or StorageError.
        """
        self.write = write
        """Writes a document to the file. Daemons that share a catalogue replace this function."""
        self.state = CatalogueState()
        """The newest state on the disk, or the one that a start has found."""
        self._lock = threading.Lock()

    def save(self) -> None:
        """Write the current state. Raises OSError, StorageError."""
        with self._lock:
            self.write(self.state.document())

    async def change_state(self, work: LongWork, change: StateChange) -> CatalogueState:
        """Make a change, in another thread. Return the new state. Raises ApiError, OSError, StorageError; the
        file and the state are then unchanged."""
        return await work.call_in_thread(partial(self._apply_change, change))

    def _apply_change(self, change: StateChange) -> CatalogueState:
        with self._lock:
            state = change(self.state)
            if state != self.state:
                self.write(state.document())
            self.state = state
            return state


ChangeConfigs = Callable[[CatalogueState], Mapping[str, str]]
"""Computes the new configs of a group from a state. Raises ApiError. Called in another thread."""


class GroupConfigs:
    """The valid configs of groups by group id. The groups need not exist."""

    def __init__(self, file: CatalogueFile) -> None:
        """Create the configs of groups, which `file` stores."""
        self._file = file

    @property
    def by_group(self) -> Mapping[str, Mapping[str, str]]:
        """The configs by group id, without groups that have none."""
        return self._file.state.groups

    def find_configs(self, group_id: str) -> Mapping[str, str]:
        """Return the configs of a group, by key."""
        return self.by_group.get(group_id, NO_CONFIGS)

    async def change_configs(self, work: LongWork, group_id: str, change: ChangeConfigs) -> Mapping[str, str]:
        """Change the configs of a group. Return the new ones. Raises ApiError, OSError, StorageError; the group
        then keeps its configs."""
        state = await self._file.change_state(
            work, lambda before: before.with_group(group_id, change(before))
        )
        return state.groups.get(group_id, NO_CONFIGS)
