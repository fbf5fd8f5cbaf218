"""The half of a connection that leaves it: answers in the order of their requests, and what holds them up.

Answers that cannot be given at once have slots; whatever comes after an open slot waits behind it. How much may
wait there, and behind a peer that does not read, is bounded: beyond it no further request is processed.
"""

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Iterator
from typing import Final

from coordinator import clock
from coordinator.answers import NO_ANSWER
from coordinator.names import Node
from coordinator.net.endpoint import Endpoint
from coordinator.net.large_answers import AnswerTooLong
from coordinator.net.route import Route
from coordinator.net.slot import Slot
from protocol.malformed import Malformed, TooLong

MAX_OPEN_SLOTS: Final = 512
HELD_OUTPUT_BYTES: Final = 1024 * 1024
"""Answers that may wait behind an open slot before processing stops."""
COPIED_BYTES: Final = 256 * 1024
"""Answers up to this size leave together."""
LINGER_S: Final = 5.0
"""How long a connection that is being closed may take to read its last answers."""


class Outgoing(asyncio.Protocol):
    """See the top of this file. `_is_held`: no further request is processed for now."""

    __slots__ = (
        "_correlation_id",
        "_endpoint",
        "_has_ended",
        "_held_output",
        "_is_closing",
        "_is_flush_due",
        "_is_held",
        "_is_in_line",
        "_is_write_paused",
        "_parked",
        "_route",
        "_slots",
        "_transport",
        "_unread_bytes",
        "_unsent_bytes",
        "_written_bytes",
        "client_host",
        "client_id",
        "connection_id",
        "last_received_ns",
        "node",
        "peer",
    )

    def __init__(self, endpoint: Endpoint, client_host: str, peer: str) -> None:
        """In: the listener; the address of the other end, with Java's slash, and its name for log lines."""
        self._endpoint = endpoint
        self._transport: asyncio.Transport | None = None
        self._slots: deque[Slot] = deque()
        self._parked = 0
        self._held_output = 0
        self._unread_bytes = 0
        self._unsent_bytes = 0
        self._written_bytes = 0
        self._has_ended = False
        self._is_closing = False
        self._is_flush_due = False
        self._is_held = False
        self._is_in_line = False
        self._is_write_paused = False
        self._route: Route
        self._correlation_id = 0
        self.client_host = client_host
        self.node: Node = endpoint.fallback_node
        """The broker, as this client should know it."""
        self.client_id = ""
        self.connection_id = endpoint.next_connection_id()
        self.peer = peer
        self.last_received_ns = clock.monotonic_ns()

    @abstractmethod
    def _work(self) -> None:
        """Processes what was kept, as far as that goes now."""

    @abstractmethod
    def memory_taken(self, size_bytes: int) -> None:
        """There is memory for the request that this connection has waited to receive."""

    @abstractmethod
    def repeated_requests(self) -> Iterator[object]:
        """What it sends again and again."""

    @property
    @abstractmethod
    def kept_bytes(self) -> int:
        """How much of the request that is being received has come; all of it, where that is for us to do."""

    @abstractmethod
    def give_up_receiving(self) -> None:
        """Others wait for the memory of this request, and it does not come."""

    # How much waits

    def pause_writing(self) -> None:
        """The peer reads slower than it asks."""
        self._is_write_paused = self._is_held = True
        if self._transport is not None:
            self._left_unread(self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """The peer has caught up."""
        self._is_write_paused = False
        self._left_unread(0)
        self._weigh()
        self._work()

    def _hold(self, size_bytes: int) -> None:
        """Counts answers that wait for others, or no longer do."""
        self._held_output += size_bytes
        self._endpoint.unread.held_bytes += size_bytes

    def _left_unread(self, size_bytes: int) -> None:
        self._endpoint.unread.held_bytes += size_bytes - self._unread_bytes
        self._unread_bytes = size_bytes

    def _weigh(self) -> bool:
        """Decides whether processing is held; called whenever something that matters for it has changed."""
        self._is_held = (
            self._is_write_paused
            or self._is_in_line
            or self._parked > 0
            or self._is_closing
            or len(self._slots) >= MAX_OPEN_SLOTS
            or self._held_output > HELD_OUTPUT_BYTES
        )
        return self._is_held

    # Answers

    def answer_later(self, *, parks: bool) -> Slot:
        """A place for the answer to the request at hand, which comes later."""
        slot = Slot(self, self._route, self._correlation_id, parks, clock.monotonic_ns())
        self._slots.append(slot)
        if parks:
            self._parked += 1
            self._is_held = True
        elif len(self._slots) >= MAX_OPEN_SLOTS:
            self._is_held = True
        return slot

    def _queue(self, response: object) -> None:
        """An answer that is there, behind others that are not."""
        slot = self.answer_later(parks=False)
        data = bytearray()
        if response is not NO_ANSWER:
            try:
                slot.form.write(response, slot.correlation_id, data)
            except TooLong:
                self._write_in_time(slot, response)
                return
        slot.data = data
        self._hold(len(data))
        self._weigh()

    def _write_in_time(self, slot: Slot, response: object) -> None:
        """An answer that is too long to be written now: nothing else is processed until it is."""
        self.park(slot)
        self._endpoint.large_answers.add(slot, response)

    def park(self, slot: Slot) -> None:
        """Processes nothing else until a slot is filled that would not have kept others waiting."""
        if not slot.parks:
            slot.parks = self._is_held = True
            self._parked += 1

    def _answer_bytes(self, frame: bytes | bytearray, out: bytearray) -> None:
        if self._slots:
            slot = Slot(self, self._slots[0].form, 0, False, opened_ns=0)  # of no API that is counted
            slot.data = frame
            self._hold(len(frame))
            self._slots.append(slot)
        else:
            out += frame

    def fill(self, slot: Slot, response: object) -> None:
        """Puts an answer in its slot; it leaves at the end of this iteration, if none before it is missing."""
        assert slot.data is None, "answered twice"
        data = bytearray()
        if response is not NO_ANSWER and not self._is_closing:
            try:
                if slot.finish is not None:
                    response = slot.finish(response)
                slot.form.write(response, slot.correlation_id, data)
            except TooLong:
                self._write_in_time(slot, response)
                return
            except Exception as problem:  # noqa: BLE001 - whoever answers many must get on to the others
                self._endpoint.handler_failed(self, problem)
                self.abort()
        self.fill_written(slot, data)

    def fill_written(self, slot: Slot, frame: bytearray) -> None:
        """The same, with what is to be sent."""
        if self._is_closing:
            frame = bytearray()
        slot.data = frame
        self._hold(len(frame))
        if slot.parks:
            self._parked -= 1
        if not self._is_flush_due:
            self._is_flush_due = True
            self._endpoint.outbox.add(self._flush)

    def has_failed(self, problem: Exception) -> None:
        """A slot cannot be filled."""
        if isinstance(problem, Malformed):
            self._endpoint.refused(self, str(problem))
            self.close()
            return
        if isinstance(problem, AnswerTooLong):
            self._endpoint.refused(self, str(problem))
        else:
            self._endpoint.handler_failed(self, problem)
        self.abort()

    def _flush(self) -> None:
        """Sends the answers that nothing stands in front of, and goes on with what was held back."""
        self._is_flush_due = False
        slots = self._slots
        if self._transport is None:
            return
        out = bytearray()
        left_bytes = 0
        now_ns = clock.monotonic_ns()
        while slots and (data := slots[0].data) is not None:
            slot = slots.popleft()
            left_bytes += len(data)
            if len(data) > COPIED_BYTES:
                self._write(out)
                self._write(data)
                out = bytearray()
            else:
                out += data
            if slot.opened_ns:
                slot.form.counts.add(now_ns - slot.opened_ns)
        self._hold(-left_bytes)
        if out:
            self._write(out)
        self._weigh()
        self._work()
        if self._has_ended:
            self._close_if_done()

    # The end of what a peer sends

    def eof_received(self) -> bool:
        """The client sends nothing more. What waits for others is not answered, as in Kafka; but what the daemon is
        at work on, or has not come to, is still done: it may be a Produce that wants no answer."""
        self._has_ended = self._is_at_work
        return self._has_ended

    @property
    def _is_at_work(self) -> bool:
        return self._is_in_line or any(slot.ends for slot in self._slots)

    def _close_if_done(self) -> None:
        if self._has_ended and not self._is_at_work:
            self.close()

    def _write(self, data: bytes | bytearray) -> None:
        transport = self._transport
        if data and transport is not None and not transport.is_closing():
            self._written_bytes += len(data)
            transport.write(data)

    # Ending

    def _forget_answers(self) -> None:
        """The connection is lost: nobody waits for its answers any more."""
        self._left_unread(0)
        self._hold(-self._held_output)
        slots, self._slots = self._slots, deque()
        for slot in slots:
            if slot.data is None:
                slot.drop()

    @property
    def open_answers(self) -> int:
        """Requests that were processed and have no answer yet."""
        return sum(slot.data is None for slot in self._slots)

    @property
    def read_bytes(self) -> int:
        """How many bytes have left, all in all; those of repeated requests aside."""
        transport = self._transport
        return self._written_bytes - (0 if transport is None else transport.get_write_buffer_size())

    @property
    def answer_bytes(self) -> int:
        """The size of the answers that have not left yet."""
        transport = self._transport
        return self._held_output + (0 if transport is None else transport.get_write_buffer_size())

    def is_idle_since(self, oldest_ns: int) -> bool:
        """Whether nothing came or left since then, and nothing is being answered. Asked from time to time."""
        transport = self._transport
        if self._slots or transport is None:
            return False
        unsent_bytes = transport.get_write_buffer_size()
        if unsent_bytes < self._unsent_bytes:
            self.last_received_ns = clock.monotonic_ns()  # it reads, if slowly
        self._unsent_bytes = unsent_bytes
        return self.last_received_ns < oldest_ns

    def close(self) -> None:
        """Sends what is ready, then closes; a peer that does not read is cut off after a while."""
        transport = self._transport
        self._is_closing = self._is_held = True
        if transport is None or transport.is_closing():
            return
        transport.close()
        if transport.get_write_buffer_size():
            self._endpoint.loop.call_later(LINGER_S, self.abort)

    def abort(self) -> None:
        """Closes at once."""
        if self._transport is not None:
            self._is_closing = self._is_held = True
            self._transport.abort()
