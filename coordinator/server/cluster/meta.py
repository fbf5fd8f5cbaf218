"""What a cluster was made with, once and for all: by the first daemon that came."""

import json
from typing import Any, Final, NamedTuple

from coordinator.cluster.engine.engine import ABSENT, CreatedAt, Engine, Put, Read, Transaction
from coordinator.cluster.keys import Keys
from coordinator.server.start_failed import StartFailed
from storage.uuid_text import uuid_from_text, uuid_to_text

FORMAT: Final = 2


class Meta(NamedTuple):
    """How many partitions the internal topics have, and their ids: of `__consumer_offsets`, and of
    `__transaction_state`, which is there once somebody needs it."""

    partitions: int
    topic_id: bytes
    transaction_partitions: int
    transaction_topic_id: bytes


async def read_or_write_meta(engine: Engine, keys: Keys, new: Meta) -> Meta:
    """What is there; `new`, where nothing was. Raises EngineError, StartFailed."""
    fields = {
        "format": FORMAT,
        "partitions": new.partitions,
        "topic_id": uuid_to_text(new.topic_id),
        "transaction_partitions": new.transaction_partitions,
        "transaction_topic_id": uuid_to_text(new.transaction_topic_id),
    }
    absent = CreatedAt(keys.meta, ABSENT)
    await engine.transact(Transaction((absent,), (Put(keys.meta, json.dumps(fields).encode()),)))
    page = await engine.read(Read(keys.meta))
    try:
        found: dict[str, Any] = json.loads(page.entries[0].value)
        if found["format"] != FORMAT:
            raise StartFailed(
                f"the cluster in etcd has format {found['format']!r}, and this groupd knows {FORMAT}"
            )
        return Meta(
            int(found["partitions"]),
            uuid_from_text(found["topic_id"]),
            int(found["transaction_partitions"]),
            uuid_from_text(found["transaction_topic_id"]),
        )
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise StartFailed(f"{keys.meta.decode()} in etcd is nothing that groupd wrote: {error!r}") from error
