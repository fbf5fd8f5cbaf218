"""Removes offsets of topics that were deleted while their offsets partition had no owner.

After a load of the partition, the new owner checks which of the topics still exist. A new topic of the same
name has another id, and keeps its own offsets.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from coordinator.broker.services import Services
from coordinator.cluster.daemon.shared_catalogue import SharedCatalogue
from coordinator.group.group_requests import TopicsChanged
from coordinator.group.group_shard import GroupShard
from coordinator.runtime.coordinator_partition import CoordinatorPartition
from coordinator.runtime.partition_lifecycle import PartitionState
from coordinator.topics.topic import ZERO_ID
from storage.topic_partition import uuid_from_text

RETRY_S: Final = 1.0


class DeletedTopicOffsets:
    """Checks each loaded offsets partition. All methods belong to the event loop's thread."""

    def __init__(
        self,
        catalogue: SharedCatalogue,
        services: Services,
        run_in_background: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        """Create the check and register it.

        Args:
            catalogue: Catalogue of the cluster.
            services: The open parts of the server.
            run_in_background: Runs a coroutine as a background task, which ends with the cluster.
        """
        self._catalogue = catalogue
        self._runtime = services.runtime
        self._topic_images = services.topic_images
        self._run_in_background = run_in_background
        services.runtime.lifecycle.load_listeners.append(self._on_partition_read)

    def _on_partition_read(self, partition: CoordinatorPartition[GroupShard]) -> None:
        if self._find_suspects(partition):
            self._run_in_background(self._remove_offsets(partition, partition.tenure))

    def _find_suspects(self, partition: CoordinatorPartition[GroupShard]) -> dict[str, set[bytes]]:
        """Return the ids by name of topics that have committed offsets and are unknown here."""
        if partition.plain_machine is None:
            return {}
        known = self._topic_images.get_current().by_id
        found = {
            name: ids - known.keys() - {ZERO_ID}
            for name, ids in partition.plain_machine.list_committed_topic_ids().items()
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
                    image = self._topic_images.get_current()
                    self._runtime.notify_partition(partition, TopicsChanged(image, deleted))
                if len(deleted) == len(suspects):
                    return
            # The store does not answer, or this daemon has not adopted all topics yet.
            await asyncio.sleep(RETRY_S)
