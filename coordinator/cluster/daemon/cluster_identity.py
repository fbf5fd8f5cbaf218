"""Identity of a cluster on etcd, which its first daemon or an import writes once, and the mark of that identity
in data directories.

During an import another key takes its place, so that no daemon creates a cluster of its own. Coordinator
logs in a member's data directory are copies, and each start deletes them. Therefore only the cluster that
the copies belong to accepts a directory. A directory that was used without a cluster contains the only copy,
and so may a directory of a cluster that etcd has lost; both are rejected.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import uuid4

from coordinator.cluster.cluster_keys import ClusterKeys
from coordinator.cluster.key_value_store import (
    ABSENT,
    CreatedAt,
    KeyValueStore,
    Put,
    ReadRange,
    StoreTransaction,
)
from coordinator.core.message_text import StartFailed
from coordinator.core.shared_types import COORDINATOR_TOPICS
from storage.data_directory import CATALOGUE, DataDirectory
from storage.files import Files
from storage.metadata_files import META_PROPERTIES, parse_properties
from storage.topic_partition import uuid_from_text, uuid_to_text

IDENTITY_FORMAT: Final = 1

MARKER: Final = ".cluster"
"""File in a data directory: a line with the id of its cluster, then the cluster's identity."""
_PARTITION: Final = re.compile(r".+-[0-9]{1,10}")
REMEDY: Final = "`groupd cluster import --data-dir DIR` imports its data"


class ClusterIdentity(NamedTuple):
    """The identity of a cluster, and of its `__consumer_offsets`."""

    partitions: int
    topic_id: bytes
    incarnation: str = ""
    """Distinguishes this cluster from a lost one with the same id."""
    imported: Sequence[str] = ()
    """Ids of the data directories that were imported."""


class ClusterNotFound(StartFailed):
    """The store has no such cluster."""


def create_identity(partitions: int, topic_id: bytes, imported: Sequence[str] = ()) -> ClusterIdentity:
    """Create the identity of a new cluster."""
    return ClusterIdentity(partitions, topic_id, uuid4().hex, tuple(imported))


def encode_identity(identity: ClusterIdentity) -> bytes:
    """Encode an identity as it is stored."""
    fields = {
        "format": IDENTITY_FORMAT,
        "partitions": identity.partitions,
        "topic_id": uuid_to_text(identity.topic_id),
        "incarnation": identity.incarnation,
        "imported": list(identity.imported),
    }
    return json.dumps(fields).encode()


async def read_or_create_identity(
    store: KeyValueStore, keys: ClusterKeys, new: ClusterIdentity | None
) -> ClusterIdentity:
    """Return the identity in the store, after writing `new` into an empty store.

    Args:
        store: Store of the cluster.
        keys: Keys of the cluster in the store.
        new: Identity of a new cluster; None to require an existing one.

    Raises:
        KeyValueStoreError: The store failed.
        ClusterNotFound: The store has no identity and `new` is None, or an import is unfinished.
        StartFailed: The identity is not readable.
    """
    if new is not None:
        absent = (CreatedAt(keys.meta, ABSENT), CreatedAt(keys.importing, ABSENT))
        await store.transact(StoreTransaction(absent, (Put(keys.meta, encode_identity(new)),)))
    found = await read_identity(store, keys)
    if found is not None:
        return found
    if (await store.read(ReadRange(keys.importing))).entries:
        raise ClusterNotFound(
            "an import into this cluster was interrupted: run `groupd cluster import` again"
        )
    raise ClusterNotFound("etcd has no keys of this cluster")


async def read_identity(store: KeyValueStore, keys: ClusterKeys) -> ClusterIdentity | None:
    """Return the identity in the store; None without one. Raises KeyValueStoreError, StartFailed."""
    page = await store.read(ReadRange(keys.meta))
    return decode_identity(page.entries[0].value, f"{keys.meta.decode()} in etcd") if page.entries else None


def decode_identity(value: bytes, where: str) -> ClusterIdentity:
    """Decode an identity. `where` is its location for error messages. Raises StartFailed."""
    try:
        found: dict[str, Any] = json.loads(value)
        if found["format"] != IDENTITY_FORMAT:
            raise StartFailed(
                f"{where} has format {found['format']!r}, and this groupd reads format {IDENTITY_FORMAT}"
            )
        return ClusterIdentity(
            int(found["partitions"]),
            uuid_from_text(found["topic_id"]),
            str(found.get("incarnation", "")),
            tuple(map(str, found.get("imported", ()))),
        )
    except (ValueError, TypeError, KeyError) as error:
        raise StartFailed(f"{where} was not written by groupd: {error!r}") from error


def is_member(files: Files, path: str) -> bool:
    """Return whether the directory exists and was used in a cluster. Raises OSError."""
    return files.exists(f"{path}/{MARKER}")


def why_no_new_cluster(files: Files, path: str, cluster_id: str) -> str | None:
    """Return why a daemon must not create a cluster with this directory, which would prevent an import of it.

    Return None for a new directory. Raises StartFailed for a directory of another cluster; OSError.
    """
    if not files.is_directory(path):
        return None
    names, was_in_one = files.listdir(path), is_member(files, path)
    if not (was_in_one or CATALOGUE in names or any(_PARTITION.fullmatch(name) for name in names)):
        return None
    if META_PROPERTIES in names:
        found = parse_properties(files.read(f"{path}/{META_PROPERTIES}"), "=").get("cluster.id", cluster_id)
        if found != cluster_id:
            raise StartFailed(_describe_other_cluster(path, found, cluster_id))
    return f"{path} was used {'in' if was_in_one else 'without'} a cluster"


def _describe_other_cluster(path: str, found: str, cluster_id: str) -> str:
    return (
        f"{path} belongs to cluster {found}, but CLUSTER_ID is {cluster_id}: correct CLUSTER_ID, or "
        "use another log.dirs"
    )


def read_directory_identity(files: Files, path: str) -> ClusterIdentity | None:
    """Return the identity of the directory's cluster; None if it was never in a cluster. Raises StartFailed,
    OSError.
    """
    if not is_member(files, path):
        return None
    _, _, meta = files.read(f"{path}/{MARKER}").partition(b"\n")
    return decode_identity(meta, f"{path}/{MARKER}")


def mark_member(files: Files, path: str, cluster_id: str, identity: ClusterIdentity) -> None:
    """Mark a directory as one of that cluster. Raises OSError."""
    files.write_atomically(f"{path}/{MARKER}", f"{cluster_id}\n".encode() + encode_identity(identity))


def prepare_directory(directory: DataDirectory, cluster_id: str, identity: ClusterIdentity) -> None:
    """Mark an open data directory as one of this cluster, and delete its copies of coordinator logs. Raises
    StartFailed, StorageError, OSError.
    """
    files, path = directory.files, directory.path
    if directory.meta.cluster_id != cluster_id:
        raise StartFailed(_describe_other_cluster(path, directory.meta.cluster_id, cluster_id))
    own_identity = read_directory_identity(files, path)
    if own_identity is not None:
        if own_identity.incarnation != identity.incarnation:
            raise StartFailed(
                f"{path} belongs to a cluster {cluster_id} that is no longer in etcd, or has another "
                "cluster.etcd.prefix: use an empty log.dirs, or empty etcd and import the directory, so "
                f"that its data is not lost: {REMEDY}"
            )
    elif (
        directory.list_partitions()
        or directory.list_journaled_partitions()
        or directory.read_catalogue() is not None
    ):
        raise StartFailed(
            f"{path} has data of a daemon without a cluster: use an empty log.dirs, or import the directory: "
            f"{REMEDY}"
        )
    else:
        mark_member(files, path, cluster_id, identity)
    copies = [each for each in directory.list_partitions() if each.topic in COORDINATOR_TOPICS]
    directory.delete_logs(dict.fromkeys(copies))
