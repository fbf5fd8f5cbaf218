"""One connection: bytes in, requests processed in order, answers out in the same order.

The fast path is straight: a request that is answered at once, on a connection with no open slot, never touches
anything but the bytes and its handler, and all answers of one read leave in one write.

Processing is *held* while a slot parks (as Kafka mutes a connection while it works on a request), while too many
slots are open, while the peer does not read its answers, or while it waits in line because its requests take long
(`run_queue.py`). What arrives meanwhile is kept up to a bound; beyond it nothing more is read from the socket. So a
connection holds a bounded number of bytes in every direction, save for the one request that is being received and
the one answer that is being sent. The requests being received share `queued.max.request.bytes`.

Bytes that are no request cost this connection and one log line, nothing else.
"""

import asyncio
from collections.abc import Iterator
from functools import partial
from struct import Struct, error
from typing import Final, cast

from coordinator import clock
from coordinator.answers import GOODBYE, NO_ANSWER, Later
from coordinator.net.endpoint import Endpoint
from coordinator.net.outgoing import Outgoing
from coordinator.net.peer import peer_address, peer_name
from coordinator.net.repeat import Repeated
from coordinator.net.route import Route
from coordinator.net.run_queue import SLICE_NS
from coordinator.security.principal import ANONYMOUS, Principal
from protocol.apis import ApiKey
from protocol.malformed import Malformed, TooLong, TooManyElements
from protocol.primitives import MAX_UNKNOWN_TAGS, read_uvarint, skip_tagged_fields

HELD_INPUT_BYTES: Final = 64 * 1024
"""What is kept of a held connection's input before reading stops."""
WRITE_BYTES: Final = 256 * 1024
"""Answers of one read that are gathered before they are written."""

MAX_PLAIN_REQUEST_BYTES: Final = 16 * 1024 * 1024
"""The largest request that carries no records: decoding a larger one would keep everybody waiting."""

_MIN_REQUEST_BYTES: Final = 10
_SIZE_BYTES: Final = 4
_START: Final = Struct(">ih")  # size, api key
_HEADER: Final = Struct(
    ">iIih"
)  # size, key and version as one number, correlation id, length of the client id


class Connection(Outgoing):
    """A client's connection. Made for each socket; `peername` is what the system calls its other end."""

    __slots__ = (
        "_client_id_bytes",
        "_is_reading",
        "_is_starved",
        "_is_working",
        "_pending",
        "_repeated",
        "_reserved_bytes",
        "_wanted",
        "api_version",
    )

    def __init__(self, endpoint: Endpoint, peername: object) -> None:
        super().__init__(endpoint, "/" + peer_address(peername), peer_name(peername))
        self._pending = bytearray()
        self._wanted = 0
        self._reserved_bytes = 0
        self._is_reading = True
        self._is_starved = self._is_working = False
        self._repeated = Repeated()
        self._client_id_bytes = b""
        self.api_version = -1
        """Of the request at hand."""

    is_large: Final = False

    @property
    def principal(self) -> Principal:
        """Who the client has shown itself to be."""
        return ANONYMOUS

    @property
    def api_name(self) -> str:
        """Of the request at hand."""
        return self._route.api.name

    def repeated_requests(self) -> Iterator[object]:
        """What it sends again and again: heartbeats, which tell whom it speaks for."""
        return self._repeated.requests()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is ready to be used."""
        # uvloop's transports are no subclasses of asyncio's, only alike.
        transport = cast("asyncio.Transport", transport)
        self._transport = transport
        self.node = self._endpoint.node_for(transport.get_extra_info("sockname"))
        if self._is_closing:  # the daemon stops
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone: nobody waits for its answers any more."""
        self._is_closing = self._is_held = True
        self._transport = None
        self._pending = bytearray()
        self._endpoint.memory.forget(self)
        if self._is_in_line:
            self._endpoint.run_queue.remove(self)
        self._forget_answers()
        self._give_back(self._reserved_bytes)
        self._endpoint.closed(self)

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
                del pending  # a large request would be in memory once more while it is worked on
                self._work_or_wait()
            return
        if self._is_held:
            self._pending += data
            return
        repeated = self._repeated
        if repeated.epoch is self._endpoint.routes.epoch and not self._slots:
            try:
                answers = repeated.answers(data, started_ns // 1_000_000)
            except Exception as problem:  # noqa: BLE001 - whatever a request causes costs this connection only
                self._give_up(problem, bytearray(), was_decoded=True)
                return
            if answers is not None:
                assert self._transport is not None
                # A few microseconds: not worth a look at the clock.
                self._transport.write(answers)
                return
        if self._endpoint.run_queue.is_iteration_over:
            self._pending += data
            self._work_or_wait()
        else:
            self._process(bytes(data), started_ns)

    # Processing

    def _work_or_wait(self) -> None:
        if self._endpoint.run_queue.is_iteration_over:
            self._wait_in_line()
        else:
            self._work()

    def _wait_in_line(self) -> None:
        """Lets others go on first."""
        self._is_in_line = self._is_held = True
        self._endpoint.run_queue.add(self)

    def go_on(self) -> None:
        """This connection is the first in line."""
        self._is_in_line = False
        self._weigh()
        self._work()
        self._close_if_done()

    def _work(self) -> None:
        """Processes what was kept, as far as that goes now."""
        if self._is_working or self._transport is None or (self._is_reading and not self._pending):
            return
        while (
            self._pending and len(self._pending) >= self._wanted and not (self._is_held or self._is_starved)
        ):
            data = bytes(self._pending)
            self._pending = bytearray()
            received_bytes, self._reserved_bytes = self._reserved_bytes, 0
            if received_bytes:
                self._endpoint.memory.received(self)
            self._process(data, clock.monotonic_ns())
            if not self._endpoint.large_requests.keeps(self, received_bytes):
                self._give_back_in_time(received_bytes)
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
        self._is_working, self._wanted = True, _START.size
        endpoint = self._endpoint
        endpoint.arrival.advance(started_ns)
        table, message, counted, count = endpoint.routes.by_version, None, None, 0
        out, position, end = bytearray(), 0, len(data)
        try:
            while end - position >= 14:
                if position and clock.monotonic_ns() - started_ns > SLICE_NS:
                    self._wait_in_line()
                    break
                size, key_version, correlation_id, length = _HEADER.unpack_from(data, position)
                frame_end = position + 4 + size
                if frame_end > end or not _MIN_REQUEST_BYTES <= size <= endpoint.max_request_bytes:
                    break
                frame, base = (data, position) if frame_end == end else (data[position:frame_end], 0)
                position = frame_end
                route = table.get(key_version) or endpoint.routes.find(key_version)
                if route is None:
                    self._answer_bytes(endpoint.routes.refuse_version(key_version, correlation_id), out)
                    continue
                self._route, self._correlation_id, self.api_version = route, correlation_id, route.version
                response = None if route.repeat is None else self._repeated_response(frame[base:], started_ns)
                if response is None:
                    body = self._body(frame, base + 14, length, is_flexible=route.is_flexible)
                    message = route.decode(frame, body)
                    response = route.handle(message, self)
                    if route.repeat is not None:
                        self._keep_repeated(frame[base:], message, response)
                    message = None
                if type(response) is Later or (self._slots and response is not GOODBYE):
                    if type(response) is not Later:
                        self._queue(response)
                    if self._is_held:
                        break
                    continue
                if route is not counted:
                    if counted is not None:
                        counted.counts.add(clock.monotonic_ns() - started_ns, count)
                    counted, count = route, 0
                count += 1
                if response is GOODBYE:
                    self._is_closing = True
                    break
                if response is not NO_ANSWER:
                    try:
                        route.write(response, correlation_id, out)
                    except TooLong:
                        count -= 1
                        self._write_in_time(self.answer_later(parks=True), response)
                        break
                    if len(out) > WRITE_BYTES:
                        self._write(out)
                        out = bytearray()
                        if self._is_held:
                            break
        except TooManyElements:
            self._decode_elsewhere(frame, body)
        except Exception as problem:  # noqa: BLE001 - whatever a request causes costs this connection only
            self._give_up(problem, out, was_decoded=message is not None)
            return
        finally:
            self._is_working = False
        if out:
            self._write(out)
        self._has_worked(started_ns, counted, count)
        if position != end or self._is_closing:
            self._keep(data, position)

    def _has_worked(self, started_ns: int, counted: Route | None, count: int) -> None:
        """Counts the last answers, all of one route, and the time that all have taken."""
        took_ns = clock.monotonic_ns() - started_ns
        if counted is not None:
            counted.counts.add(took_ns, count)
        if took_ns > SLICE_NS:
            self._endpoint.run_queue.spent(took_ns)

    def _decode_elsewhere(self, frame: bytes, body: int) -> None:
        """The request at hand is a large one: nothing else is processed until it is answered."""
        slot = self.answer_later(parks=True)
        self._endpoint.large_requests.add(self, slot, self._route, frame, body, self._endpoint.arrival)

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
            most = self._endpoint.max_request_bytes
            if api_key != ApiKey.PRODUCE:
                most = min(most, MAX_PLAIN_REQUEST_BYTES)
            if not _MIN_REQUEST_BYTES <= size <= most:
                self._endpoint.refused(self, f"a request of {size} bytes (the limit is {most})")
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
        if self._endpoint.memory.reserve(self, self._wanted):
            self._reserved_bytes = self._wanted
        else:
            self._is_starved = True
            self._stop_reading()

    def memory_taken(self, size_bytes: int) -> None:
        """There is memory for the request that this connection has waited to receive."""
        self._is_starved = False
        self._reserved_bytes = size_bytes
        self._work()

    @property
    def kept_bytes(self) -> int:
        """How much of the request that is being received has come; all of it, where that is for us to do."""
        return self._wanted if self._parked or self._is_in_line else len(self._pending)

    def give_up_receiving(self) -> None:
        """Others wait for the memory of this request, and it does not come."""
        self._endpoint.refused(
            self,
            f"of a request of {self._wanted} bytes only {len(self._pending)} have come, and others wait for the "
            "memory (queued.max.request.bytes, queued.max.request.stall.ms)",
        )
        self.abort()

    def _give_back(self, size_bytes: int) -> None:
        if size_bytes:
            self._endpoint.memory.give_back(size_bytes)

    def _repeated_response(self, frame: bytes, started_ns: int) -> object | None:
        """The answer to a request that came again just so, among others; None: it is to be decoded."""
        repeated = self._repeated
        if repeated.epoch is not self._endpoint.routes.epoch:
            return None
        return repeated.response(frame, started_ns // 1_000_000)

    def _keep_repeated(self, frame: bytes, request: object, response: object) -> None:
        """Keeps the request at hand with its answer, as far as it may come again just so."""
        self._repeated.keep(frame, request, response, self, self._route, self._endpoint.routes.epoch)

    def _give_back_in_time(self, size_bytes: int) -> None:
        """A request that is still being worked on, in slices or in a thread, is in memory until that is done."""
        slot = self._slots[-1] if self._slots else None
        if size_bytes and slot is not None and slot.done is not None and slot.data is None:
            slot.done = partial(self._give_back, size_bytes)
        else:
            self._give_back(size_bytes)

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
            self._endpoint.refused(self, str(problem))
        else:
            self._endpoint.handler_failed(self, problem)
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


def _skip_tags(frame: bytes, position: int) -> int:
    count, position = read_uvarint(frame, position)
    if count > MAX_UNKNOWN_TAGS:
        raise Malformed(f"there are more than {MAX_UNKNOWN_TAGS} unknown tagged fields in the header")
    return skip_tagged_fields(frame, position, count)
