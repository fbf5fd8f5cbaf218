"""A disk that refuses one call, and may be full from then on."""

import errno
import os

from tests.storage.faulty_files import FaultyFiles


class FullDisk(FaultyFiles):
    """A disk that refuses one call from `arm` on, and may then be full."""

    def __init__(self) -> None:
        super().__init__()
        self._left = 0
        self._stays_full = False

    def arm(self, nth: int, *, stays_full: bool) -> None:
        """Reject the nth call from now, 1 for the next."""
        self._left, self._stays_full = nth, stays_full

    def call(self, operation: str) -> int:
        if self._left:
            self._left -= 1
            if not self._left:
                self.is_full |= self._stays_full
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), operation)
        return super().call(operation)
