"""What one sync of one log consists of."""

from collections.abc import Sequence
from typing import NamedTuple

from storage.errors import FileClosed, SyncFailed
from storage.files import File, Files
from storage.segment import Segment


class SyncPlan(NamedTuple):
    """The files of one log that hold unsynced bytes, and the offset that is durable once they are synced."""

    files: Files
    segments: Sequence[tuple[Segment, File]]
    directories: Sequence[str]
    end_offset: int
    cuts: int
    """How often the log's end had been moved back when the plan was made."""

    def run(self, done: set[File | str]) -> None:
        """Syncs them; blocks, safe in any thread. Raises SyncFailed naming the file.

        `done` holds what was synced since this plan was made, is left out, and gets what is synced now.
        """
        for segment, file in self.segments:
            if file in done:
                continue
            try:
                file.fdatasync()
            except FileClosed as error:
                # Retention or the deletion of the topic may have removed it meanwhile.
                if not segment.is_deleted:
                    raise SyncFailed(file.path, "was closed before it was synced") from error
            except OSError as error:
                raise SyncFailed(file.path, f"cannot sync: {error}") from error
            done.add(file)
        for directory in self.directories:
            if directory in done:
                continue
            try:
                self.files.fsync_directory(directory)
            except FileNotFoundError:
                continue  # the topic was deleted: nothing of it has to last
            except OSError as error:
                raise SyncFailed(directory, f"cannot sync the directory: {error}") from error
            done.add(directory)
