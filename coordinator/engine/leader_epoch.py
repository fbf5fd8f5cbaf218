"""A new leader epoch for a log: what tells a machine from the one before it that had the same log.

Batches carry it from then on, and a coordinator of transactions puts it into markers, so that those of one that was
replaced are refused.

Source: Kafka's `UnifiedLog.assignEpochStartOffset`, `LeaderEpochFileCache`.
"""

from storage.log import PartitionLog


def begin_leader_epoch(log: PartitionLog) -> None:
    """Begins one at the end of a log, durably, unless nothing was written in the one that it has. Blocks; safe in
    a thread while nobody appends.

    It is above all that batches of the log have: a broker that was killed may have left a checkpoint that is empty.
    Raises LogDamaged, OSError; the log then has the epoch that it had.
    """
    written = -1
    if log.log_end_offset > log.log_start_offset:
        for batch in log.batches(log.log_end_offset - 1):
            written = batch.header.partition_leader_epoch
    epochs = log.leader_epochs.begun(log.log_end_offset, above=written)
    if epochs is not log.leader_epochs:
        epochs.write_durably(log.files, log.directory)
        log.leader_epochs = epochs
