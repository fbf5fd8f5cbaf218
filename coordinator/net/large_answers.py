"""Answers that are too long to be written while everybody waits.

A client may name one fat group five hundred times: what an answer repeats need not have been in its request. So an
answer that gets longer than `route.AT_ONCE_BYTES` is begun again here: in a thread, one at a time, and up to
`MAX_ANSWER_BYTES`; beyond that its connection is closed. Nothing else of the connection is processed meanwhile.

Such answers are in memory until they are read. While peers have more than `ROOM_BYTES` of them unread the next one
waits; who then reads too little of what it has, in each `PATIENCE_S`, is cut off: so nobody waits for long.
"""

import asyncio
import logging
from collections import deque
from typing import Final, NamedTuple

from coordinator import clock
from coordinator.net.slot import Slot, SlotOwner
from protocol.malformed import TooLong

_LOG: Final = logging.getLogger("SocketServer")

MAX_ANSWER_BYTES: Final = 100_000_000
"""What librdkafka takes at most (`receive.message.max.bytes`), and as much as a request may have."""
ROOM_BYTES: Final = 64 * 1024 * 1024
PATIENCE_S: Final = 5.0
PATIENCES: Final = 6
"""In so many a peer has to have read what it was given, if others wait for that."""
LOOK_S: Final = 0.05


class AnswerTooLong(Exception):
    """An answer has more bytes than any may have."""


class _Large(NamedTuple):
    slot: Slot
    response: object


class _Given(NamedTuple):
    """Large answers that a peer may not have read yet: their bytes, and where the last of them ends in all that is
    sent to it. What comes after that is no large answer."""

    size_bytes: int
    until_bytes: int

    def unread_bytes(self, owner: SlotOwner) -> int:
        """What the peer has not read of them."""
        return min(self.size_bytes, max(0, self.until_bytes - owner.read_bytes), owner.answer_bytes)


class LargeAnswers:
    """The large answers of all connections. All methods belong to the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[_Large] = deque()
        self._is_busy = False
        self._given: dict[SlotOwner, _Given] = {}
        self._read_at_first: dict[SlotOwner, int] = {}
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
        elif self._unread_bytes() <= ROOM_BYTES:
            self._patience_ends_ns = 0
            self._read_at_first.clear()
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
            self._give(slot, frame)
        except TooLong:
            slot.owner.has_failed(AnswerTooLong(f"an answer of more than {MAX_ANSWER_BYTES} bytes"))
        except Exception as problem:  # noqa: BLE001 - the connections behind this one wait for their answers
            slot.owner.has_failed(problem)
        finally:
            self._begin()

    def _give(self, slot: Slot, frame: bytearray) -> None:
        owner, earlier = slot.owner, self._given.get(slot.owner)
        unread_bytes = 0 if earlier is None else earlier.unread_bytes(owner)
        until_bytes = owner.read_bytes + owner.answer_bytes + len(frame)
        owner.fill_written(slot, frame)
        self._given[owner] = _Given(unread_bytes + len(frame), until_bytes)

    def _unread_bytes(self) -> int:
        """What peers have not read of the answers that they were given here."""
        unread = {owner: given.unread_bytes(owner) for owner, given in self._given.items()}
        self._given = {owner: given for owner, given in self._given.items() if unread[owner]}
        return sum(unread.values())

    def _wait_for_room(self) -> None:
        """Cuts off whoever lets others wait for too long."""
        now_ns = clock.monotonic_ns()
        if not self._patience_ends_ns:
            self._patience_ends_ns = now_ns + round(PATIENCE_S * 1e9)
            self._read_at_first = {owner: owner.read_bytes for owner in self._given}
        elif now_ns >= self._patience_ends_ns:
            self._patience_ends_ns = 0
            at_first, self._read_at_first = self._read_at_first, {}
            for owner, before_bytes in at_first.items():
                given = self._given.get(owner)
                if given is not None and owner.read_bytes - before_bytes < given.size_bytes // PATIENCES:
                    self._cut_off(owner)

    def _cut_off(self, owner: SlotOwner) -> None:
        _LOG.warning(
            "Closing connection from %s: it reads too slowly while others wait for the memory of its answers (%d "
            "bytes)",
            owner.peer,
            owner.answer_bytes,
        )
        owner.abort()
