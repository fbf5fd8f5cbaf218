"""Log directories of tests."""

from pathlib import Path

from storage.batch import walk_batches
from tests.pipeline.random_logs import Log


class LogDirectory:
    """A broker's data directory with partitions of `__consumer_offsets`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)

    @property
    def path(self) -> str:
        """As the pipeline takes it."""
        return str(self.root)

    def partition(self, number: int) -> Path:
        """The directory of one partition."""
        directory = self.root / f"__consumer_offsets-{number}"
        directory.mkdir(exist_ok=True)
        return directory

    def write(self, number: int, batches: list[bytes], *, per_segment: int = 3) -> None:
        """Replace the partition's log with segments of `per_segment` batches."""
        directory = self.partition(number)
        for old in directory.glob("*.log"):
            old.unlink()
        for first in range(0, max(1, len(batches)), per_segment):
            data = b"".join(batches[first : first + per_segment])
            before = b"".join(batches[first - 1 : first])
            # A torn batch alone does not say where it begins: where the one before ends.
            due = next((header.next_offset for _, header in walk_batches(before)), 0)
            base_offset = next((header.base_offset for _, header in walk_batches(data)), due)
            (directory / segment_name(base_offset)).write_bytes(data)

    def write_log(self, number: int, log: Log, upto: int | None = None, *, per_segment: int = 3) -> None:
        """The first batches of a log."""
        self.write(number, log.batches[:upto], per_segment=per_segment)

    def segments(self, number: int) -> list[Path]:
        """The segment files of a partition, in order."""
        return sorted(self.partition(number).glob("*.log"))


def segment_name(base_offset: int) -> str:
    """The name of a segment's file."""
    return f"{base_offset:020d}.log"
