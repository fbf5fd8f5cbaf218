"""The regular round over all partitions: old segments and idle producers go.

As in Kafka a transaction that is open keeps its producer, and not its records: retention goes up to the high
watermark. Source: Kafka's `UnifiedLog.deleteOldSegments`, `ProducerStateManager.removeExpiredProducers`.
"""

from coordinator.topics.answer import PartitionFailed, TopicChange
from coordinator.topics.catalogue import Catalogue
from storage.errors import StorageError
from storage.os_error import reason_of


def sweep(catalogue: Catalogue, now_ms: int) -> list[TopicChange]:
    """Applies retention everywhere, at this wall clock time; the partitions where it failed."""
    failed: list[TopicChange] = []
    for part in catalogue.hosted():
        if part.producers is not None:
            part.producers.state.expire(now_ms)
        log = part.log
        if log is None or log.failure is not None:
            continue
        try:
            log.apply_retention(now_ms, up_to=part.high_watermark)
        except (StorageError, OSError) as error:
            failed.append(PartitionFailed(*part.name, reason_of(error)))
    return failed
