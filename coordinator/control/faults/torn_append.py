"""An append of which only the first bytes reach the file, as a crash or a full disk leaves it."""

import os

from storage.append_result import AppendResult
from storage.errors import AppendFailed
from storage.log import PartitionLog


class TornAppends:
    """Stands in for a log whose next append is torn. The log is poisoned then: nobody knows what its file holds."""

    def __init__(self, log: PartitionLog, torn_bytes: int, error: int) -> None:
        """In: how many bytes are written; the system's error with which it fails, 0 where the process ends next."""
        self._log = log
        self._torn_bytes = torn_bytes
        self._error = error

    def append(self, batch: bytes) -> AppendResult:
        """See `PartitionLog`. Raises AppendFailed."""
        log = self._log
        path = log.segments[-1].path
        data = log.log_end_offset.to_bytes(8, "big") + batch[8:]
        file = log.files.open_append(path)
        try:
            # One byte less than all: a whole batch would be no torn one.
            file.write(data[: min(self._torn_bytes, len(data) - 1)])
        finally:
            file.close()
        if not self._error:
            return AppendResult(log.log_end_offset, log.log_end_offset, len(data), is_rolled=False)
        cause = OSError(self._error, os.strerror(self._error), path)
        failure = AppendFailed(path, f"cannot append: {cause.strerror}, after {self._torn_bytes} bytes")
        failure.__cause__ = cause
        raise log.poison(failure)
