"""What opening a log came to."""

from collections.abc import Sequence
from typing import NamedTuple


class RecoveryReport(NamedTuple):
    """Its text is one line for the operator."""

    directory: str
    was_clean: bool
    recovery_point: int
    log_start_offset: int
    log_end_offset: int
    durable_offset: int
    """Everything before it is on the disk; what comes after has to be synced again."""
    scanned_bytes: int
    cut_bytes: int = 0
    cut_path: str = ""
    cut_position: int = -1
    cut_reason: str = ""
    put_off: Sequence[OSError] = ()
    """What could not be written and can wait: it is made anew when it is wanted, or at the next start."""
    replayed_bytes: int = 0
    """Which the segments had lost, and the journal not."""

    def without(self, error: OSError) -> "RecoveryReport":
        """The same, with one more thing that could not be written."""
        return self._replace(put_off=[*self.put_off, error])

    def __str__(self) -> str:
        end = f"{self.directory}: offsets {self.log_start_offset} to {self.log_end_offset}"
        how = "clean" if self.was_clean else f"recovered from offset {self.recovery_point}"
        checked = f"{end}, {how}, {self.scanned_bytes} bytes checked"
        if self.replayed_bytes:
            checked = f"{checked}, {self.replayed_bytes} bytes taken from the journal"
        if not self.cut_bytes:
            return checked
        cut = f"{self.cut_bytes} bytes cut at {self.cut_path}: byte {self.cut_position}: {self.cut_reason}"
        return f"{checked}, {cut}"
