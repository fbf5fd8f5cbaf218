"""What a cluster was made with, once and for all: by the first daemon that came, or by an import.

While a directory is imported there is another key in its place, so that no daemon makes a cluster of its own.
"""

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import uuid4

from coordinator.cluster.engine.engine import ABSENT, CreatedAt, Engine, Put, Read, Transaction
from coordinator.cluster.keys import Keys
from coordinator.server.start_failed import StartFailed
from storage.uuid_text import uuid_from_text, uuid_to_text

FORMAT: Final = 1


class Meta(NamedTuple):
    """Of `__consumer_offsets`, and of the cluster itself."""

    partitions: int
    topic_id: bytes
    incarnation: str = ""
    """Tells this cluster from one of the same id whose data in the engine was lost."""
    imported: Sequence[str] = ()
    """The ids of the data directories that it was made from."""


class NoCluster(StartFailed):
    """The engine has nothing of the cluster."""


def new_meta(partitions: int, topic_id: bytes, imported: Sequence[str] = ()) -> Meta:
    """Of a cluster that was not there before."""
    return Meta(partitions, topic_id, uuid4().hex, tuple(imported))


def encode_meta(meta: Meta) -> bytes:
    """As it is stored."""
    fields = {
        "format": FORMAT,
        "partitions": meta.partitions,
        "topic_id": uuid_to_text(meta.topic_id),
        "incarnation": meta.incarnation,
        "imported": list(meta.imported),
    }
    return json.dumps(fields).encode()


async def read_or_write_meta(engine: Engine, keys: Keys, new: Meta | None) -> Meta:
    """What is there; `new`, where nothing was and there is one. Raises EngineError; NoCluster; StartFailed."""
    if new is not None:
        absent = (CreatedAt(keys.meta, ABSENT), CreatedAt(keys.importing, ABSENT))
        await engine.transact(Transaction(absent, (Put(keys.meta, encode_meta(new)),)))
    found = await read_meta(engine, keys)
    if found is not None:
        return found
    if (await engine.read(Read(keys.importing))).entries:
        raise NoCluster(
            "an import into this cluster has begun and did not end: run `groupd cluster import` again"
        )
    raise NoCluster("etcd has nothing of this cluster")


async def read_meta(engine: Engine, keys: Keys) -> Meta | None:
    """What is there, if something is. Raises EngineError, StartFailed."""
    page = await engine.read(Read(keys.meta))
    return decode_meta(page.entries[0].value, f"{keys.meta.decode()} in etcd") if page.entries else None


def decode_meta(value: bytes, where: str) -> Meta:
    """What `encode_meta` has made. In: where it was found. Raises StartFailed."""
    try:
        found: dict[str, Any] = json.loads(value)
        if found["format"] != FORMAT:
            raise StartFailed(f"{where} has format {found['format']!r}, and this groupd knows {FORMAT}")
        return Meta(
            int(found["partitions"]),
            uuid_from_text(found["topic_id"]),
            str(found.get("incarnation", "")),
            tuple(map(str, found.get("imported", ()))),
        )
    except (ValueError, TypeError, KeyError) as error:
        raise StartFailed(f"{where} is nothing that groupd wrote: {error!r}") from error
