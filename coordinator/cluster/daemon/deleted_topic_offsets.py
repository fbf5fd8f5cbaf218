"""Offsets of topics that were deleted while nobody had the partition that the offsets are in.

Whoever reads that partition next looks which of the topics are still there. A topic that comes later under the same
name has another id, and none of these offsets.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from coordinator.engine.partition import Partition, PartitionState
from coordinator.group.requests import TopicsChanged
from coordinator.group.shard import Shard
from coordinator.server.cluster.shared_catalogue import SharedCatalogue
from coordinator.topics.topic import ZERO_ID
from storage.uuid_text import uuid_from_text

if TYPE_CHECKING:
    from coordinator.server.server import Server

RETRY_S: Final = 1.0


class StaleOffsets:
    """Watches what is read. All methods belong to the event loop's thread."""

    def __init__(
        self,
        catalogue: SharedCatalogue,
        server: "Server",
        in_background: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        """In: a server whose parts are open; who runs what may take long, and ends it with the cluster."""
        self._catalogue = catalogue
        self._server = server
        self._in_background = in_background
        server.runtime.ownership.was_read.append(self._was_read)

    def _was_read(self, partition: Partition[Shard]) -> None:
        if self._suspects(partition):
            self._in_background(self._remove(partition, partition.tenure))

    def _suspects(self, partition: Partition[Shard]) -> dict[str, set[bytes]]:
        """Topics that groups have offsets of, and that are not known here."""
        if partition.bare is None:
            return {}
        known = self._server.topic_images.current().by_id
        found = {name: ids - known.keys() - {ZERO_ID} for name, ids in partition.bare.topic_ids().items()}
        return {name: ids for name, ids in found.items() if ids}

    async def _remove(self, partition: Partition[Shard], tenure: int) -> None:
        while True:
            looked = await self._catalogue.look_for(None)
            if partition.tenure != tenure or partition.state is PartitionState.ABSENT:
                return
            shared = self._catalogue.keys.topics
            known = {uuid_from_text(topic.topic_id) for topic in shared.values()}
            suspects = self._suspects(partition)
            gone = [name for name, ids in suspects.items() if not ids & known]
            if looked:
                if gone:
                    image = self._server.topic_images.current()
                    self._server.runtime.tell(partition, TopicsChanged(image, gone))
                if len(gone) == len(suspects):
                    return
            await asyncio.sleep(RETRY_S)  # the engine does not answer, or what it has is still taken up here
