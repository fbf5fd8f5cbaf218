"""Offsets of topics that were deleted while nobody had the partition that the offsets are in.

Whoever reads that partition next looks which of the topics are still there. A topic that comes later under the same
name has another id, and none of these offsets.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from coordinator.cluster.daemon.shared_catalogue import SharedCatalogue
from coordinator.group.group_requests import TopicsChanged
from coordinator.group.group_shard import GroupShard
from coordinator.runtime.coordinator_partition import CoordinatorPartition
from coordinator.runtime.partition_lifecycle import PartitionState
from coordinator.topics.topic import ZERO_ID
from storage.topic_partition import uuid_from_text

if TYPE_CHECKING:
    from coordinator.broker.server import Server

RETRY_S: Final = 1.0


class DeletedTopicOffsets:
    """Watches what is read. All methods belong to the event loop's thread."""

    def __init__(
        self,
        catalogue: SharedCatalogue,
        server: "Server",
        run_in_background: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        """In: a server whose parts are open; who runs what may take long, and ends it with the cluster."""
        self._catalogue = catalogue
        self._server = server
        self._run_in_background = run_in_background
        server.runtime.lifecycle.load_listeners.append(self._on_partition_read)

    def _on_partition_read(self, partition: CoordinatorPartition[GroupShard]) -> None:
        if self._find_suspects(partition):
            self._run_in_background(self._remove_offsets(partition, partition.tenure))

    def _find_suspects(self, partition: CoordinatorPartition[GroupShard]) -> dict[str, set[bytes]]:
        """Topics that groups have offsets of, and that are not known here."""
        if partition.undecorated_machine is None:
            return {}
        known = self._server.topic_images.get_current().by_id
        found = {
            name: ids - known.keys() - {ZERO_ID}
            for name, ids in partition.undecorated_machine.list_committed_topic_ids().items()
        }
        return {name: ids for name, ids in found.items() if ids}

    async def _remove_offsets(self, partition: CoordinatorPartition[GroupShard], tenure: int) -> None:
        while True:
            is_refreshed = await self._catalogue.refresh_topics(None)
            if partition.tenure != tenure or partition.state is PartitionState.ABSENT:
                return
            shared = self._catalogue.keys.topics
            known = {uuid_from_text(topic.topic_id) for topic in shared.values()}
            suspects = self._find_suspects(partition)
            deleted = [name for name, ids in suspects.items() if not ids & known]
            if is_refreshed:
                if deleted:
                    image = self._server.topic_images.get_current()
                    self._server.runtime.notify_partition(partition, TopicsChanged(image, deleted))
                if len(deleted) == len(suspects):
                    return
            await asyncio.sleep(RETRY_S)  # the store does not answer, or what it has is still taken up here
