"""Work that a server does again and again, as long as it serves."""

import asyncio
import logging
from collections.abc import Callable

from coordinator.ongoing_failures import OngoingFailures, times
from storage.errors import StorageError
from storage.os_error import reason_of

_LOG = logging.getLogger("KafkaServer")


class Upkeep:
    """Calls of the event loop, each made anew when it has come."""

    def __init__(self, loop: asyncio.AbstractEventLoop, failures: OngoingFailures) -> None:
        """In: who counts what the disk refuses."""
        self._loop = loop
        self._failures = failures
        self._handles: dict[Callable[[], None], asyncio.TimerHandle] = {}

    def every(self, interval_ms: int, work: Callable[[], None]) -> None:
        """Does some work from now on, first after one interval. What the disk refuses is told, and tried again."""

        def run() -> None:
            self._handles[work] = self._loop.call_later(interval_ms / 1000, run)
            try:
                work()
            except (OSError, StorageError) as error:
                count = self._failures.counted(error)
                if count:
                    _LOG.error("Upkeep failed, and is tried again: %s%s", reason_of(error), times(count))

        self._handles[work] = self._loop.call_later(interval_ms / 1000, run)

    def stop(self) -> None:
        """Nothing of it is done any more."""
        for handle in self._handles.values():
            handle.cancel()
