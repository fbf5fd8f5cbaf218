"""A file of the simulated disk: the contents that the process sees, and those on disk."""

from dataclasses import dataclass, field
from random import Random

BLOCK_BYTES = 512
"""Of the disk: one is written whole or not at all."""


@dataclass(slots=True, eq=False)
class Inode:
    """A file (or directory, then without contents)."""

    is_directory: bool = False
    data: bytearray = field(default_factory=bytearray)
    disk: bytearray = field(default_factory=bytearray)
    dirty_from: int = 0
    overwritten: list[tuple[int, bytes]] = field(default_factory=list)
    """What was written over bytes that were on disk, and where; not synced."""

    def persist(self) -> None:
        self.overwritten.clear()
        del self.disk[len(self.data) :]
        self.disk.extend(bytes(max(0, self.dirty_from - len(self.disk))))
        self.disk[self.dirty_from :] = self.data[self.dirty_from :]
        self.dirty_from = len(self.data)

    def overwrite(self, data: bytes, position: int) -> None:
        self.data.extend(bytes(max(0, position - len(self.data))))
        self.data[position : position + len(data)] = data
        self.dirty_from = min(self.dirty_from, position)
        self.overwritten.append((position, data))

    def after_crash(self, random: Random | None) -> bytes:
        if self.overwritten:
            return self._some_overwritten(random)
        unsynced = self.data[self.dirty_from :]
        if random is None or not unsynced or len(self.disk) != self.dirty_from:
            return bytes(self.disk)
        # Any prefix may have reached the disk; so may the size without the bytes.
        kept = unsynced[: random.randrange(len(unsynced) + 1)]
        if kept and random.random() < 0.3:
            start = random.randrange(len(kept))
            kept[start:] = bytes(len(kept) - start)
        return bytes(self.disk + kept)

    def _some_overwritten(self, random: Random | None) -> bytes:
        """Any of the disk's blocks may have been written, and any not."""
        found = bytearray(self.disk)
        if random is None:
            return bytes(found)
        for position, data in self.overwritten:
            for start in range(0, len(data), BLOCK_BYTES):
                block = data[start : start + BLOCK_BYTES]
                if random.random() < 0.5:
                    found.extend(bytes(max(0, position + start + len(block) - len(found))))
                    found[position + start : position + start + len(block)] = block
        return bytes(found)
