"""Writes the checkpoints of a data directory in the background.

A deletion of records or topics waits for its checkpoint before the client gets an answer. At a stop the data
directory itself writes the remaining checkpoints, synchronously; it supersedes an unfinished write of this module.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from coordinator.core.async_files import AsyncFiles
from coordinator.core.daemon_log import OngoingFailures, format_repeats
from storage.data_directory import DataDirectory
from storage.log import PartitionLog
from storage.offset_checkpoint import CheckpointDraft
from storage.storage_errors import format_error_reason
from storage.topic_partition import TopicPartition

_LOG: Final = logging.getLogger("Checkpoints")

TEMPORARY_SUFFIX: Final = ".next.tmp"
"""The suffix of temporary files. It differs from that of the data directory, because both may write at the
same time."""


class CheckpointWriter:
    """Writes the checkpoints of a data directory. All methods belong to the event loop's thread."""

    def __init__(self, directory: DataDirectory, failures: OngoingFailures) -> None:
        """Create a writer. `failures` counts the failures of the disk."""
        self._directory = directory
        self._failures = failures
        self._files = AsyncFiles(directory.files)
        self._task: asyncio.Task[None] | None = None
        self._is_writing = asyncio.Lock()

    def write_due_checkpoints(self, logs: Mapping[TopicPartition, PartitionLog]) -> None:
        """Start to write recovery points and start offsets of logs, unless such a write is in progress."""
        if self._task is None:
            drafts = self._directory.draft_checkpoints(logs)
            self._task = asyncio.get_running_loop().create_task(self._write_all(drafts))
            self._task.add_done_callback(self._on_done)

    async def _write_all(self, drafts: Sequence[CheckpointDraft]) -> None:
        for draft in drafts:
            try:
                await self.write_checkpoint(draft)
            except OSError as error:
                count = self._failures.count_failure(error)
                if count:
                    _LOG.error(
                        "Failed to write a checkpoint, will retry: %s%s",
                        format_error_reason(error),
                        format_repeats(count),
                    )
        try:
            await asyncio.get_running_loop().run_in_executor(None, self._directory.journal.run_maintenance)
        except OSError as error:
            count = self._failures.count_failure(error)
            if count:
                _LOG.error(
                    "Failed to remove the rest of a journal, will retry: %s%s",
                    format_error_reason(error),
                    format_repeats(count),
                )

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        if not task.cancelled() and (problem := task.exception()) is not None:
            _LOG.error("Writing checkpoints", exc_info=problem)

    async def write_checkpoint(self, draft: CheckpointDraft) -> None:
        """Write a checkpoint, unless a newer one is in place. One write runs at a time. Raises OSError."""
        async with self._is_writing:
            if not draft.is_newest():
                return
            async with self._files.new_file(draft.path, TEMPORARY_SUFFIX) as file:
                await file.write(draft.data)
                await file.sync()
                if draft.is_newest():
                    await file.put_in_place()
                    draft.on_written()

    async def stop(self) -> None:
        """Wait for the current write."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def abandon(self) -> None:
        """Stop at once, as in a crash."""
        if self._task is not None:
            self._task.cancel()
