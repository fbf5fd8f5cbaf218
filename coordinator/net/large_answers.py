"""Answers that are too long to be written while everybody waits.

A client may name one fat group five hundred times: what an answer repeats need not have been in its request. So an
answer that gets longer than `route.AT_ONCE_BYTES` is begun again here: in a thread, one at a time, and up to
`MAX_ANSWER_BYTES`; beyond that its connection is closed. Nothing else of the connection is processed meanwhile.

Such answers are in memory until they are read. While peers leave more than `ROOM_BYTES` unread the next one waits;
after `PATIENCE_S` the peers that have read nothing since then are cut off.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from coordinator import clock
from coordinator.net.slot import Slot
from coordinator.net.unread_answers import UnreadAnswers
from protocol.malformed import TooLong

_LOG: Final = logging.getLogger("SocketServer")

MAX_ANSWER_BYTES: Final = 100_000_000
"""What librdkafka takes at most (`receive.message.max.bytes`), and as much as a request may have."""
ROOM_BYTES: Final = 64 * 1024 * 1024
PATIENCE_S: Final = 5.0
LOOK_S: Final = 0.05


class Reader(Protocol):
    """A connection whose peer may or may not read."""

    @property
    def peer(self) -> str:
        """Host and port, for a log line."""

    @property
    def answer_bytes(self) -> int:
        """The size of the answers that have not left yet."""

    def abort(self) -> None:
        """Closes at once."""


class AnswerTooLong(Exception):
    """An answer has more bytes than any may have."""


class _Large(NamedTuple):
    slot: Slot
    response: object


class LargeAnswers:
    """The large answers of all connections. All methods belong to the loop's thread."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, unread: UnreadAnswers, readers: Callable[[], Iterable[Reader]]
    ) -> None:
        """In: what peers have not read yet, and who they are."""
        self._loop = loop
        self._unread = unread
        self._readers = readers
        self._waiting: deque[_Large] = deque()
        self._is_busy = False
        self._unread_at_first: Mapping[Reader, int] = {}
        self._patience_ends_ns = 0

    def add(self, slot: Slot, response: object) -> None:
        """Fills a slot with an answer, in time."""
        slot.dropped = lambda: self._forget(slot)
        self._waiting.append(_Large(slot, response))
        if not self._is_busy:
            self._is_busy = True
            self._begin()

    def _forget(self, slot: Slot) -> None:
        self._waiting = deque(large for large in self._waiting if large.slot is not slot)

    def _begin(self) -> None:
        if not self._waiting:
            self._is_busy = False
        elif self._unread.held_bytes <= ROOM_BYTES:
            self._patience_ends_ns = 0
            large = self._waiting.popleft()
            self._loop.create_task(self._write(large))
        else:
            self._wait_for_room()
            self._loop.call_later(LOOK_S, self._begin)

    async def _write(self, large: _Large) -> None:
        slot, frame = large.slot, bytearray()
        slot.dropped = None  # it would keep the slot, and the frame in it, until the next collection
        try:
            await self._loop.run_in_executor(
                None, slot.form.write, large.response, slot.correlation_id, frame, MAX_ANSWER_BYTES
            )
        except TooLong:
            slot.owner.has_failed(AnswerTooLong(f"an answer of more than {MAX_ANSWER_BYTES} bytes"))
        except Exception as problem:  # noqa: BLE001 - the connections behind this one wait for their answers
            slot.owner.has_failed(problem)
        else:
            slot.owner.fill_written(slot, frame)
        self._begin()

    def _wait_for_room(self) -> None:
        """Cuts off whoever has let others wait for too long."""
        now_ns = clock.monotonic_ns()
        if not self._patience_ends_ns:
            self._patience_ends_ns = now_ns + round(PATIENCE_S * 1e9)
            self._unread_at_first = {reader: reader.answer_bytes for reader in self._readers()}
        elif now_ns >= self._patience_ends_ns:
            self._patience_ends_ns = 0
            at_first, self._unread_at_first = self._unread_at_first, {}
            for reader, before_bytes in at_first.items():
                if 0 < before_bytes <= reader.answer_bytes:
                    self._cut_off(reader)

    def _cut_off(self, reader: Reader) -> None:
        _LOG.warning(
            "Closing connection from %s: it has left %d bytes of answers unread for %.0f s, and others wait for "
            "their memory",
            reader.peer,
            reader.answer_bytes,
            PATIENCE_S,
        )
        reader.abort()
