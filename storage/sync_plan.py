"""What one sync of one log consists of."""

from collections.abc import Sequence
from dataclasses import dataclass

from storage.errors import FileClosed, SyncFailed
from storage.files import File, Files
from storage.os_error import reason_of
from storage.segment import Segment


@dataclass(eq=False, slots=True)
class SyncPlan:
    """The files of one log that hold unsynced bytes, and the offset that is durable once they are synced."""

    files: Files
    segments: Sequence[tuple[Segment, File]]
    sealed: Sequence[Segment]
    """Those whose indexes are complete and have to last as long as they do: nobody reads all of them again."""
    directories: Sequence[str]
    end_offset: int
    is_complete: bool = False
    """Whether it was run; kept by the log."""

    def run(self, done: set[File | str]) -> None:
        """Syncs them; blocks, safe in any thread. Raises SyncFailed naming the file.

        `done` holds what was synced since this plan was made, is left out, and gets what is synced now.
        """
        for segment, file in self.segments:
            if file not in done:
                _sync(segment, file)
                done.add(file)
        for segment in self.sealed:
            _sync_indexes(segment)
        for directory in self.directories:
            if directory in done:
                continue
            try:
                self.files.fsync_directory(directory)
            except FileNotFoundError:
                continue  # the topic was deleted: nothing of it has to last
            except OSError as error:
                raise SyncFailed(
                    directory, f"cannot sync the directory: {reason_of(error, directory)}"
                ) from error
            done.add(directory)


def _sync(segment: Segment, file: File) -> None:
    try:
        file.fdatasync()
    except FileClosed as error:
        # Retention or the deletion of the topic may have removed it meanwhile.
        if not segment.is_deleted:
            raise SyncFailed(file.path, "was closed before it was synced") from error
    except OSError as error:
        raise SyncFailed(file.path, f"cannot sync: {reason_of(error, file.path)}") from error


def _sync_indexes(segment: Segment) -> None:
    try:
        segment.sync_indexes()
    except FileNotFoundError:
        return  # removed meanwhile; else they are made anew when they are wanted
    except OSError as error:
        raise SyncFailed(segment.path, f"cannot sync its indexes: {reason_of(error)}") from error
