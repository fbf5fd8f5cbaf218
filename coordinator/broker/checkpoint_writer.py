"""Writes the checkpoints of a data directory while the loop does other work.

Who deletes records or topics waits for it before a client is answered. What a stop leaves behind, the data
directory writes itself, at once; what was being written here then stays out of place.
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
"""Not the one that the data directory uses, perhaps at the same time."""


class CheckpointWriter:
    """Writes the checkpoints of a data directory. All methods belong to the event loop's thread."""

    def __init__(self, directory: DataDirectory, failures: OngoingFailures) -> None:
        """In: who counts what the disk refuses."""
        self._directory = directory
        self._failures = failures
        self._files = AsyncFiles(directory.files)
        self._task: asyncio.Task[None] | None = None
        self._is_writing = asyncio.Lock()

    def write_due_checkpoints(self, logs: Mapping[TopicPartition, PartitionLog]) -> None:
        """Begins to record how far logs are durable and where they begin, unless that goes on already."""
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
                        "A checkpoint could not be written, and is tried again: %s%s",
                        format_error_reason(error),
                        format_repeats(count),
                    )
        try:
            await asyncio.get_running_loop().run_in_executor(None, self._directory.journal.run_maintenance)
        except OSError as error:
            count = self._failures.count_failure(error)
            if count:
                _LOG.error(
                    "What is left of a journal could not be removed, and is tried again: %s%s",
                    format_error_reason(error),
                    format_repeats(count),
                )

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        if not task.cancelled() and (problem := task.exception()) is not None:
            _LOG.error("Writing checkpoints", exc_info=problem)

    async def write_checkpoint(self, draft: CheckpointDraft) -> None:
        """Writes a checkpoint, unless a later one is in place; one at a time. Raises OSError."""
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
        """Waits for what is being written."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def abandon(self) -> None:
        """Ends at once, as in a crash."""
        if self._task is not None:
            self._task.cancel()
