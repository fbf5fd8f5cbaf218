"""The leader epochs of a log with their first offsets, in Kafka's checkpoint file.

    0              version
    2              number of entries
    0 0            epoch, start offset
    3 1042

Every batch carries the epoch in which it was appended. A log that groupd created keeps epoch 0 unless its
owner begins others. A log of a Kafka broker has the epochs of its elections. groupd continues with the latest
one, because clients refuse to go back to an older one (KIP-320).

Source: Kafka's `LeaderEpochFileCache`, `LeaderEpochCheckpointFile`.
"""

from itertools import pairwise
from typing import Final, NamedTuple

from storage.files import Files
from storage.storage_errors import DamagedFile

LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
UNKNOWN_EPOCH: Final = -1
UNKNOWN_OFFSET: Final = -1

_VERSION: Final = "0"


class EpochStart(NamedTuple):
    """An epoch and the first offset of its batches."""

    epoch: int
    start_offset: int


class LeaderEpochs:
    """The epochs of one log, oldest first."""

    __slots__ = ("_entries", "current")

    def __init__(self, entries: list[EpochStart]) -> None:
        """Create the epochs from at least one entry. Epochs increase, and start offsets do not decrease."""
        assert entries
        assert all(before.epoch < after.epoch for before, after in pairwise(entries)), entries
        self._entries = entries
        self.current = entries[-1].epoch
        """The epoch of new batches."""

    @classmethod
    def read(cls, files: Files, directory: str) -> "LeaderEpochs | None":
        """Read the checkpoint of a log. Return None for a missing, empty or torn one.

        A killed broker leaves empty checkpoints. Only groupd leaves torn ones, because it writes them without
        a sync. Raises DamagedFile, OSError.
        """
        path = f"{directory}/{LEADER_EPOCHS}"
        data = files.read(path) if files.exists(path) else b""
        if not data.endswith(b"\n") or (_VERSION + "\n1\n").encode().startswith(data):
            return None
        entries = _parse_entries(path, data)
        return cls(entries) if entries else None

    @classmethod
    def create_first(cls, log_start_offset: int) -> "LeaderEpochs":
        """Create the leader epochs of a log that has none yet."""
        return cls([EpochStart(0, log_start_offset)])

    def with_next_epoch(self, log_end_offset: int, *, above: int) -> "LeaderEpochs":
        """Return these epochs and the next one, which begins at the end of the log.

        The current epoch is reused if it has no batch. `above` is an epoch of batches in the log. Epochs without a
        batch are dropped, also those whose batches a crash has lost.

        Source: Kafka's `LeaderEpochFileCache.maybeTruncateNonMonotonicEntries`.
        """
        if self.current > above and self._entries[-1].start_offset == log_end_offset:
            return self
        kept = [entry for entry in self._entries if entry.start_offset < log_end_offset]
        return LeaderEpochs([*kept, EpochStart(max(self.current, above) + 1, log_end_offset)])

    def write(self, files: Files, directory: str) -> None:
        """Write the checkpoint without a sync. Raises OSError; a torn file counts as missing."""
        files.write(f"{directory}/{LEADER_EPOCHS}", self._format_entries())

    def write_durably(self, files: Files, directory: str) -> None:
        """Replace the checkpoint durably; blocks. Raises OSError; the old checkpoint remains."""
        files.write_atomically(f"{directory}/{LEADER_EPOCHS}", self._format_entries())

    def _format_entries(self) -> bytes:
        lines = [_VERSION, str(len(self._entries)), *(f"{epoch} {start}" for epoch, start in self._entries)]
        return "".join(f"{line}\n" for line in lines).encode()

    def find_epoch(self, offset: int) -> int:
        """Return the epoch of the batch with an offset, or the first epoch for an offset before all batches."""
        epochs = [entry.epoch for entry in self._entries if entry.start_offset <= offset]
        return epochs[-1] if epochs else self._entries[0].epoch

    def find_end_offset(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the greatest epoch of the log that is not above `epoch`, and its end offset.

        The result is (-1, -1) if it is unknown: for -1, and for an epoch that has not begun. For an epoch
        before the first one it is that epoch and the start of the first one.
        """
        if epoch == self.current:
            return epoch, log_end_offset
        if epoch == UNKNOWN_EPOCH or epoch > self.current:
            return UNKNOWN_EPOCH, UNKNOWN_OFFSET
        floor = epoch
        for entry in self._entries:
            if entry.epoch > epoch:
                return floor, min(entry.start_offset, log_end_offset)
            floor = entry.epoch
        raise AssertionError("the current epoch is above")


def _parse_entries(path: str, data: bytes) -> list[EpochStart]:
    try:
        version, count, *lines = data.decode().splitlines()
        if version != _VERSION:
            raise DamagedFile(path, f"version {version!r} is not {_VERSION}")
        entries = [EpochStart(*map(int, line.split(" "))) for line in lines[: int(count)]]
    except (ValueError, TypeError) as error:
        raise DamagedFile(path, f"is not a checkpoint of leader epochs: {error}") from error
    if len(entries) != int(count):
        raise DamagedFile(path, f"announces {count} entries but has {len(entries)}")
    for before, after in pairwise(entries):
        if after.epoch <= before.epoch or after.start_offset < before.start_offset:
            raise DamagedFile(path, f"epoch {after.epoch} does not follow epoch {before.epoch}")
    return entries
