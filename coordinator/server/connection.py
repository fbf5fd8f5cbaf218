"""One connection: bytes in, requests processed in order, answers out in the same order.

The fast path is straight: a request that is answered at once, on a connection with no open slot, never touches
anything but the bytes and its handler, and all answers of one read leave in one write.

Processing is *held* while a slot parks (as Kafka mutes a connection while it works on a request), while too many
slots are open, or while the peer does not read its answers. What arrives meanwhile is kept up to a bound; beyond
it nothing more is read from the socket. So a connection holds a bounded number of bytes in every direction, save
for the one request that is being received and the one answer that is being sent. The requests being received
share `queued.max.request.bytes`: a connection that is to receive one and finds nothing free is not read from.

Bytes that are no request cost this connection and one log line, nothing else.
"""

import asyncio
from collections import deque
from struct import Struct, error
from typing import TYPE_CHECKING, Final, cast

from coordinator.server import clock
from coordinator.server.peer import peer_address, peer_name
from coordinator.server.route import Route
from coordinator.server.slot import GOODBYE, NO_ANSWER, Slot
from protocol.apis import ApiKey
from protocol.malformed import Malformed
from protocol.primitives import read_uvarint, skip_tagged_fields

if TYPE_CHECKING:
    from coordinator.server.acceptor import Acceptor
    from coordinator.server.beat import Beat
    from coordinator.topics.answer import Node

MAX_OPEN_SLOTS: Final = 512
HELD_INPUT_BYTES: Final = 64 * 1024
"""What is kept of a held connection's input before reading stops."""
HELD_OUTPUT_BYTES: Final = 1024 * 1024
"""Answers that may wait behind an open slot before processing stops."""
WRITE_BYTES: Final = 256 * 1024
"""Answers of one read that are gathered before they are written."""
LINGER_S: Final = 5.0
"""How long a connection that is being closed may take to read its last answers."""

MAX_PLAIN_REQUEST_BYTES: Final = 16 * 1024 * 1024
"""The largest request that carries no records: decoding a larger one would keep everybody waiting."""

_MIN_REQUEST_BYTES: Final = 10
_SIZE_BYTES: Final = 4
_START: Final = Struct(">ih")  # size, api key
_HEADER: Final = Struct(
    ">iIih"
)  # size, key and version as one number, correlation id, length of the client id


class Connection(asyncio.Protocol):
    """A client's connection. Made for each socket; `peername` is what the system calls its other end."""

    __slots__ = (
        "_acceptor",
        "_beat",
        "_client_id_bytes",
        "_held_output",
        "_is_closing",
        "_is_flush_due",
        "_is_held",
        "_is_reading",
        "_is_starved",
        "_is_working",
        "_is_write_paused",
        "_parked",
        "_pending",
        "_reserved_bytes",
        "_slots",
        "_transport",
        "_unread_bytes",
        "_unsent_bytes",
        "_wanted",
        "client_host",
        "client_id",
        "last_received_ns",
        "node",
        "peer",
    )

    def __init__(self, acceptor: "Acceptor", peername: object) -> None:
        self._acceptor = acceptor
        self._transport: asyncio.Transport | None = None
        self._pending = bytearray()
        self._wanted = 0
        self._slots: deque[Slot] = deque()
        self._parked = 0
        self._reserved_bytes = 0
        self._held_output = 0
        self._unread_bytes = 0
        self._unsent_bytes = 0
        self._is_closing = False
        self._is_flush_due = False
        self._is_held = False
        self._is_reading = True
        self._is_starved = False
        self._is_working = False
        self._is_write_paused = False
        self._beat: Beat | None = None
        self._client_id_bytes = b""
        self.client_id = ""
        self.client_host = "/" + peer_address(peername)
        self.peer = peer_name(peername)
        self.last_received_ns = clock.monotonic_ns()
        self.node: Node = acceptor.fallback_node

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is ready to be used."""
        # uvloop's transports are no subclasses of asyncio's, only alike.
        transport = cast("asyncio.Transport", transport)
        self._transport = transport
        self.node = self._acceptor.node_for(transport.get_extra_info("sockname"))
        if self._is_closing:  # the daemon stops
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone: nobody waits for its answers any more."""
        self._is_closing = self._is_held = True
        self._transport = None
        self._left_unread(0)
        self._hold(-self._held_output)
        slots, self._slots = self._slots, deque()
        self._pending = bytearray()
        self._acceptor.memory.forget(self)
        self._give_back(self._reserved_bytes)
        for slot in slots:
            if slot.data is None:
                slot.drop()
        self._acceptor.closed(self)

    def eof_received(self) -> bool:
        """The client sends nothing more; what it has asked is not answered either, as in Kafka."""
        return False

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
        self._acceptor.unread.held_bytes += size_bytes

    def _left_unread(self, size_bytes: int) -> None:
        self._acceptor.unread.held_bytes += size_bytes - self._unread_bytes
        self._unread_bytes = size_bytes

    def data_received(self, data: bytes) -> None:
        """Bytes from the client, any number of them."""
        self.last_received_ns = started_ns = clock.monotonic_ns()
        if self._pending:
            pending = self._pending
            pending += data
            if self._is_held:
                if len(pending) > HELD_INPUT_BYTES:
                    self._stop_reading()
            elif len(pending) >= self._wanted:
                self._work()
            return
        if self._is_held:
            self._pending += data
            return
        beat = self._beat
        if beat is not None and not self._slots:
            try:
                answer = beat.answer(data, started_ns // 1_000_000)
            except Exception as problem:  # noqa: BLE001 - whatever a request causes costs this connection only
                self._give_up(problem, bytearray(), was_decoded=True)
                return
            if answer is not None:
                assert self._transport is not None
                self._transport.write(answer)
                # A few microseconds: not worth a look at the clock.
                beat.counts.add(0, len(data) // beat.frame_bytes)
                return
        self._process(bytes(data), started_ns)

    # Processing

    def _weigh(self) -> bool:
        """Decides whether processing is held; called whenever something that matters for it has changed."""
        self._is_held = (
            self._is_write_paused
            or self._parked > 0
            or self._is_closing
            or len(self._slots) >= MAX_OPEN_SLOTS
            or self._held_output > HELD_OUTPUT_BYTES
        )
        return self._is_held

    def _work(self) -> None:
        """Processes what was kept, as far as that goes now."""
        if self._is_working or self._transport is None:
            return
        while (
            self._pending and len(self._pending) >= self._wanted and not (self._is_held or self._is_starved)
        ):
            data = bytes(self._pending)
            self._pending = bytearray()
            received_bytes, self._reserved_bytes = self._reserved_bytes, 0
            self._process(data, clock.monotonic_ns())
            self._give_back(received_bytes)
        self._reserve()
        if self._is_reading or self._is_closing or self._is_starved:
            return
        # The rest of a large request has to come in, however much of it is here.
        if not self._is_held or len(self._pending) <= HELD_INPUT_BYTES:
            self._is_reading = True
            self._transport.resume_reading()

    def _stop_reading(self) -> None:
        if self._is_reading and self._transport is not None and not self._is_closing:
            self._is_reading = False
            self._transport.pause_reading()

    def _process(self, data: bytes, started_ns: int) -> None:  # noqa: C901 - the hot path: no calls to share
        """Processes the requests in `data`; what is left over is kept. `started_ns`: now."""
        self._is_working = True
        self._wanted = _START.size
        acceptor = self._acceptor
        acceptor.turn.advance(started_ns)
        routes, message, counted, count = acceptor.routes, None, None, 0
        out = bytearray()
        position, end = 0, len(data)
        try:
            while end - position >= 14:
                size, key_version, correlation_id, length = _HEADER.unpack_from(data, position)
                frame_end = position + 4 + size
                if frame_end > end or not _MIN_REQUEST_BYTES <= size <= acceptor.max_request_bytes:
                    break
                frame, base = (data, position) if frame_end == end else (data[position:frame_end], 0)
                position = frame_end
                route = routes.get(key_version) or acceptor.route(key_version)
                if route is None:
                    self._answer_bytes(acceptor.refuse_version(key_version, correlation_id), out)
                    continue
                body = self._body(frame, base + 14, length, is_flexible=route.is_flexible)
                message = route.decode(frame, body)
                if route.repeat is not None:
                    self._beat = route.repeat(frame[base:], message, route)
                response = route.handle(message, self, route, correlation_id)
                message = None
                if response is None:
                    if self._is_held:
                        break
                    continue
                if route is not counted:
                    _count(counted, count, started_ns)
                    counted, count = route, 0
                count += 1
                if self._slots and response is not GOODBYE:
                    self._queue(route, response, correlation_id)
                    if self._is_held:
                        break
                elif response is GOODBYE:
                    self._is_closing = True
                    break
                elif response is not NO_ANSWER:
                    route.write(response, correlation_id, out)
                    if len(out) > WRITE_BYTES:
                        self._write(out)
                        out = bytearray()
                        if self._is_held:
                            break
        except Exception as problem:  # noqa: BLE001 - whatever a request causes costs this connection only
            self._give_up(problem, out, was_decoded=message is not None)
            return
        finally:
            self._is_working = False
        if out:
            self._write(out)
        _count(counted, count, started_ns)
        self._keep(data, position)

    def _keep(self, data: bytes, position: int) -> None:
        """Keeps what is left over, and looks how long the request is that begins there."""
        if self._is_closing:
            self.close()
            return
        if position == len(data):
            return
        self._pending = bytearray(data[position:])
        if len(self._pending) < _START.size:
            self._wanted = _START.size
        else:
            size, api_key = _START.unpack_from(self._pending)
            most = self._acceptor.max_request_bytes
            if api_key != ApiKey.PRODUCE:
                most = min(most, MAX_PLAIN_REQUEST_BYTES)
            if not _MIN_REQUEST_BYTES <= size <= most:
                self._acceptor.refused(self, f"a request of {size} bytes (the limit is {most})")
                self.close()
                return
            self._wanted = _SIZE_BYTES + size
            self._reserve()
        if self._is_held and len(self._pending) > HELD_INPUT_BYTES:
            self._stop_reading()

    def _reserve(self) -> None:
        """Takes the memory of the request that is coming in, or stops reading until there is some.

        A held connection does not: what its peer would send next is no reason to keep others waiting.
        """
        if self._is_held or self._is_starved or self._reserved_bytes:
            return
        if not _START.size < self._wanted > len(self._pending) > 0:
            return
        if self._acceptor.memory.take(self, self._wanted):
            self._reserved_bytes = self._wanted
        else:
            self._is_starved = True
            self._stop_reading()

    def memory_taken(self, size_bytes: int) -> None:
        """There is memory for the request that this connection has waited to receive."""
        self._is_starved = False
        self._reserved_bytes = size_bytes
        self._work()

    def _give_back(self, size_bytes: int) -> None:
        if size_bytes:
            self._acceptor.memory.give_back(size_bytes)

    def _body(self, frame: bytes, position: int, length: int, *, is_flexible: bool) -> int:
        """Reads the client id, `length` bytes at `position`, and what follows it of the header; where that ends."""
        raw = frame[position : position + length] if length > 0 else b""
        if raw != self._client_id_bytes or length < -1:
            self._set_client_id(raw, length)
        position += len(raw)
        if is_flexible:
            return position + 1 if frame[position] == 0 else _skip_tags(frame, position)
        return position

    def _give_up(self, problem: Exception, out: bytearray, *, was_decoded: bool) -> None:
        """The client has sent what is no request, or a handler has failed: one line, and goodbye."""
        if not was_decoded and isinstance(problem, Malformed | error | IndexError):
            self._acceptor.refused(self, str(problem))
        else:
            self._acceptor.handler_failed(self, problem)
        self._write(out)
        self.close()

    def _set_client_id(self, raw: bytes, length: int) -> None:
        if len(raw) != max(length, 0) or length < -1:
            raise Malformed(f"a client id of {length} bytes")
        try:
            self.client_id = raw.decode()
        except UnicodeDecodeError as problem:
            raise Malformed(f"client id: {problem}") from None
        self._client_id_bytes = raw

    # Answers

    def open_slot(self, route: Route, correlation_id: int, *, parks: bool) -> Slot:
        """A place for the answer to the request at hand, which comes later."""
        slot = Slot(self, route, correlation_id, parks, clock.monotonic_ns())
        self._slots.append(slot)
        if parks:
            self._parked += 1
            self._is_held = True
        elif len(self._slots) >= MAX_OPEN_SLOTS:
            self._is_held = True
        return slot

    def _queue(self, route: Route, response: object, correlation_id: int) -> None:
        slot = self.open_slot(route, correlation_id, parks=False)
        slot.data = data = bytearray()
        if response is not NO_ANSWER:
            route.write(response, correlation_id, data)
        self._hold(len(data))
        self._weigh()

    def _answer_bytes(self, frame: bytes | bytearray, out: bytearray) -> None:
        if self._slots:
            slot = Slot(self, self._slots[0].route, 0, False, 0)
            slot.data = frame
            self._hold(len(frame))
            self._slots.append(slot)
        else:
            out += frame

    def fill(self, slot: Slot, response: object) -> None:
        """Puts an answer in its slot; it leaves at the end of this turn, if none before it is missing."""
        assert slot.data is None, "answered twice"
        data = bytearray()
        if response is not NO_ANSWER and not self._is_closing:
            try:
                if slot.finish is not None:
                    response = slot.finish(response)
                slot.route.write(response, slot.correlation_id, data)
            except Exception as problem:  # noqa: BLE001 - whoever answers many must get on to the others
                self._acceptor.handler_failed(self, problem)
                self.abort()
        slot.data = data
        self._hold(len(data))
        if slot.parks:
            self._parked -= 1
        if not self._is_flush_due:
            self._is_flush_due = True
            self._acceptor.outbox.add(self._flush)

    def _flush(self) -> None:
        """Sends the answers that nothing stands in front of, and goes on with what was held back."""
        self._is_flush_due = False
        slots = self._slots
        if self._transport is None:
            return
        out = bytearray()
        now_ns = clock.monotonic_ns()
        while slots and slots[0].data is not None:
            slot = slots.popleft()
            data = slot.data
            assert data is not None
            self._hold(-len(data))
            out += data
            slot.route.counts.add(now_ns - slot.opened_ns)
        if out:
            self._write(out)
        self._weigh()
        if self._pending or not self._is_reading:
            self._work()

    def _write(self, data: bytes | bytearray) -> None:
        transport = self._transport
        if data and transport is not None and not transport.is_closing():
            transport.write(data)

    # Ending

    @property
    def open_answers(self) -> int:
        """Requests that were processed and have no answer yet."""
        return sum(slot.data is None for slot in self._slots)

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
            self._acceptor.loop.call_later(LINGER_S, self.abort)

    def abort(self) -> None:
        """Closes at once."""
        if self._transport is not None:
            self._is_closing = self._is_held = True
            self._transport.abort()


def _skip_tags(frame: bytes, position: int) -> int:
    count, position = read_uvarint(frame, position)
    return skip_tagged_fields(frame, position, count)


def _count(route: Route | None, count: int, started_ns: int) -> None:
    """Adds answers to the counts of their API."""
    if route is not None:
        route.counts.add(clock.monotonic_ns() - started_ns, count)
