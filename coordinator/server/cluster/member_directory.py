"""The data directory of a daemon of a cluster: whose it is.

What it has of coordinators is a copy, and goes at each start. So a directory is taken only for the cluster whose
copy it is: one that was used without a cluster has the only one, and so may one of a cluster that etcd has lost.
"""

import re
from typing import Final

from coordinator.names import COORDINATED
from coordinator.server.cluster.meta import Meta, decode_meta, encode_meta
from coordinator.server.start_failed import StartFailed
from storage.data_directory import CATALOGUE, DataDirectory
from storage.files import Files
from storage.meta_properties import META_PROPERTIES, properties_of

MARKER: Final = ".cluster"
"""In a data directory: a line with the id of the cluster that it belongs to, and what that was made with."""
_PARTITION: Final = re.compile(r".+-[0-9]{1,10}")
REMEDY: Final = "`groupd cluster import --data-dir DIR` takes over what it has"


def is_member(files: Files, path: str) -> bool:
    """Whether the directory was used in a cluster, if it is there. Raises OSError."""
    return files.exists(f"{path}/{MARKER}")


def why_no_new_cluster(files: Files, path: str, cluster_id: str) -> str | None:
    """Why a daemon may not begin a cluster with a directory: what it began would be in the way of an import. None
    for one that is new. Raises StartFailed for one of another cluster; OSError."""
    if not files.is_directory(path):
        return None
    names, was_in_one = files.listdir(path), is_member(files, path)
    if not (was_in_one or CATALOGUE in names or any(_PARTITION.fullmatch(name) for name in names)):
        return None
    if META_PROPERTIES in names:
        found = properties_of(files.read(f"{path}/{META_PROPERTIES}"), "=").get("cluster.id", cluster_id)
        if found != cluster_id:
            raise StartFailed(_of_another(path, found, cluster_id))
    return f"{path} was used {'in' if was_in_one else 'without'} a cluster"


def _of_another(path: str, found: str, cluster_id: str) -> str:
    return (
        f"{path} is of cluster {found}, and CLUSTER_ID says {cluster_id}: mend that, or use another log.dirs"
    )


def meta_of(files: Files, path: str) -> Meta | None:
    """What the cluster of a directory was made with; None for one that was used in none. Raises StartFailed,
    OSError."""
    if not is_member(files, path):
        return None
    _, _, meta = files.read(f"{path}/{MARKER}").partition(b"\n")
    return decode_meta(meta, f"{path}/{MARKER}")


def mark_member(files: Files, path: str, cluster_id: str, meta: Meta) -> None:
    """Makes it a directory of that cluster. Raises OSError."""
    files.write_atomically(f"{path}/{MARKER}", f"{cluster_id}\n".encode() + encode_meta(meta))


def prepare(directory: DataDirectory, cluster_id: str, meta: Meta) -> None:
    """Makes an open data directory that of this cluster, and removes its copies. Raises StartFailed, StorageError,
    OSError."""
    files, path = directory.files, directory.path
    if directory.meta.cluster_id != cluster_id:
        raise StartFailed(_of_another(path, directory.meta.cluster_id, cluster_id))
    mine = meta_of(files, path)
    if mine is not None:
        if mine.incarnation != meta.incarnation:
            raise StartFailed(
                f"{path} is of a cluster {cluster_id} that etcd does not have any more, or has below another "
                "cluster.etcd.prefix; what it holds would be lost: use an empty log.dirs, or empty etcd and have "
                f"it imported: {REMEDY}"
            )
    elif directory.partitions() or directory.journaled() or directory.read_catalogue() is not None:
        raise StartFailed(
            f"{path} was used without a cluster, and what it holds would be lost to it: use an empty log.dirs, or "
            f"have it imported: {REMEDY}"
        )
    else:
        mark_member(files, path, cluster_id, meta)
    copies = [each for each in directory.partitions() if each.topic in COORDINATED]
    directory.delete_logs(dict.fromkeys(copies))
