"""The outgoing half of a connection: the queue of its replies, and the limits at which processing stops.

A response that cannot be given at once has a reply in the queue; later responses wait behind it. The bytes that
wait there, or for a peer that does not read, are bounded. Beyond the bound the connection processes no further
request.
"""

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Iterator
from typing import Final

from coordinator.core import clock
from coordinator.core.response_status import NO_RESPONSE
from coordinator.network.endpoint import Endpoint
from coordinator.network.large_messages import ResponseTooLarge
from coordinator.network.request_context import ClientInfo, QueuedReply, ResponseEncoder
from coordinator.security.core.principal import ANONYMOUS
from protocol.primitives import Malformed, TooLong

MAX_OPEN_REPLIES: Final = 512
MAX_HELD_OUTPUT_BYTES: Final = 1024 * 1024
"""The size of the responses behind an open reply at which processing stops, in bytes."""
MAX_COMBINED_BYTES: Final = 256 * 1024
"""The maximum size of responses that are joined into one write, in bytes."""
LINGER_S: Final = 5.0
"""The time in which a peer must read its last responses when the connection closes, in seconds."""


class ReplyQueue(asyncio.Protocol):
    """Keeps the responses of a connection in the order of its requests. While `_is_held` is set, no further
    request is processed."""

    __slots__ = (
        "_blocking_replies",
        "_endpoint",
        "_has_eof",
        "_held_output",
        "_is_closing",
        "_is_flush_due",
        "_is_held",
        "_is_queued",
        "_is_write_paused",
        "_replies",
        "_transport",
        "_unread_bytes",
        "_unsent_bytes",
        "_written_bytes",
        "client",
        "last_received_ns",
    )

    def __init__(self, endpoint: Endpoint, client_host: str, peer: str) -> None:
        """Create an empty queue. `client_host` is the client's address with Java's slash; `peer` is its name for
        log lines.
        """
        self._endpoint = endpoint
        self._transport: asyncio.Transport | None = None
        self._replies: deque[QueuedReply] = deque()
        self._blocking_replies = 0
        self._held_output = 0
        self._unread_bytes = 0
        self._unsent_bytes = 0
        self._written_bytes = 0
        self._has_eof = False
        self._is_closing = False
        self._is_flush_due = False
        self._is_held = False
        self._is_queued = False
        self._is_write_paused = False
        self.client = ClientInfo(
            client_id="",
            host=client_host,
            connection_id=endpoint.next_connection_id(),
            principal=ANONYMOUS,
            node=endpoint.fallback_node,
            peer=peer,
        )
        self.last_received_ns = clock.monotonic_ns()

    @abstractmethod
    def _process_pending(self) -> None:
        """Process buffered requests until one blocks or the slice ends."""

    @abstractmethod
    def on_memory_reserved(self, size_bytes: int) -> None:
        """Continue to receive the request for which the connection waited. Its memory is reserved now."""

    @abstractmethod
    def repeated_requests(self) -> Iterator[object]:
        """Return the requests that the client repeats."""

    @property
    @abstractmethod
    def received_bytes(self) -> int:
        """The number of received bytes of the incoming request. It is the full size while groupd itself delays
        the request."""

    @abstractmethod
    def abort_receiving(self) -> None:
        """Close the connection because other requests wait for memory and its own request does not arrive."""

    # The amount of waiting output

    def pause_writing(self) -> None:
        """Hold the connection, because the peer reads more slowly than groupd writes."""
        self._is_write_paused = self._is_held = True
        if self._transport is not None:
            self._set_unread_bytes(self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Resume processing, because the peer has read most of its data."""
        self._is_write_paused = False
        self._set_unread_bytes(0)
        self._update_hold()
        self._process_pending()

    def _count_held_output(self, size_bytes: int) -> None:
        """Add to the size of the responses that wait behind earlier ones. A negative size removes them."""
        self._held_output += size_bytes
        self._endpoint.unread_responses.held_bytes += size_bytes

    def _set_unread_bytes(self, size_bytes: int) -> None:
        self._endpoint.unread_responses.held_bytes += size_bytes - self._unread_bytes
        self._unread_bytes = size_bytes

    def _update_hold(self) -> bool:
        """Recompute whether processing is held. Called after each change of a condition."""
        self._is_held = (
            self._is_write_paused
            or self._is_queued
            or self._blocking_replies > 0
            or self._is_closing
            or len(self._replies) >= MAX_OPEN_REPLIES
            or self._held_output > MAX_HELD_OUTPUT_BYTES
        )
        return self._is_held

    # Replies

    def open_reply(self, encoder: ResponseEncoder, correlation_id: int, blocks: bool) -> QueuedReply:
        """Open the reply of the current request. See `RequestContext.defer`."""
        reply = QueuedReply(self, encoder, correlation_id, blocks, clock.monotonic_ns())
        self._replies.append(reply)
        if blocks:
            self._blocking_replies += 1
            self._is_held = True
        elif len(self._replies) >= MAX_OPEN_REPLIES:
            self._is_held = True
        return reply

    def _queue_response(self, encoder: ResponseEncoder, correlation_id: int, response: object) -> None:
        """Queue a complete response behind open replies."""
        reply = self.open_reply(encoder, correlation_id, False)
        frame = bytearray()
        if response is not NO_RESPONSE:
            try:
                encoder.write(response, correlation_id, frame)
            except TooLong:
                self.encode_in_thread(reply, response)
                return
        reply.frame = frame
        self._count_held_output(len(frame))
        self._update_hold()

    def _queue_frame(self, frame: bytes | bytearray, out: bytearray) -> None:
        """Add a complete frame to `out`, or queue it behind open replies. No metric counts it."""
        if self._replies:
            reply = QueuedReply(self, self._replies[0].encoder, 0, False, opened_ns=0, frame=frame)
            self._count_held_output(len(frame))
            self._replies.append(reply)
        else:
            out += frame

    def encode_in_thread(self, reply: QueuedReply, response: object) -> None:
        """Complete a reply with a response that is too long to be encoded now. It blocks the connection."""
        if self._is_closing:
            self.add_frame(reply, bytearray())
            return
        self.block(reply)
        self._endpoint.large_responses.add_response(reply, response)

    def block(self, reply: QueuedReply) -> None:
        """Stop processing until a reply is complete that has not blocked the connection so far."""
        if not reply.blocks:
            reply.blocks = self._is_held = True
            self._blocking_replies += 1

    def add_frame(self, reply: QueuedReply, frame: bytearray) -> None:
        """Complete a reply. Its frame leaves at the end of this iteration, unless an earlier reply is open."""
        if self._is_closing:
            frame = bytearray()
        reply.frame = frame
        size_bytes = len(frame)
        self._held_output += size_bytes
        self._endpoint.unread_responses.held_bytes += size_bytes
        if reply.blocks:
            self._blocking_replies -= 1
        if not self._is_flush_due:
            self._is_flush_due = True
            self._endpoint.write_batcher.schedule_flush(self._send_complete_replies)

    def fail(self, problem: Exception) -> None:
        """Close the connection, because a request has failed."""
        if isinstance(problem, Malformed):
            self._endpoint.on_invalid_request(self, str(problem))
            self.close()
            return
        if isinstance(problem, ResponseTooLarge):
            self._endpoint.on_invalid_request(self, str(problem))
        else:
            self._endpoint.on_handler_failed(self, problem)
        self.abort()

    def _send_complete_replies(self) -> None:
        """Send the complete replies at the head of the queue, and process the held requests."""
        self._is_flush_due = False
        replies, transport = self._replies, self._transport
        if transport is None:
            return
        out: bytes | bytearray = b""
        left_bytes = 0
        now_ns = clock.monotonic_ns()
        while replies:
            reply = replies[0]
            frame = reply.frame
            if frame is None:
                break
            replies.popleft()
            size_bytes = len(frame)
            left_bytes += size_bytes
            if not out:
                out = frame
            elif size_bytes <= MAX_COMBINED_BYTES:
                out += frame
            else:
                self._write_data(out)
                out = frame
            if reply.opened_ns:
                reply.encoder.counts.count_responses(now_ns - reply.opened_ns)
        self._held_output -= left_bytes
        self._endpoint.unread_responses.held_bytes -= left_bytes
        if out and not transport.is_closing():
            self._written_bytes += len(out)
            transport.write(out)
        if self._is_held:
            self._update_hold()
            self._process_pending()
        if self._has_eof:
            self._close_if_done()

    # The end of the client's input

    def eof_received(self) -> bool:
        """Handle the end of the client's input. As in Kafka, requests that wait for other clients get no
        response. Requests that are buffered or being processed are still completed, because a Produce with acks=0
        expects no response."""
        self._has_eof = self._has_work
        return self._has_eof

    @property
    def _has_work(self) -> bool:
        return self._is_queued or any(reply.is_in_progress for reply in self._replies)

    def _close_if_done(self) -> None:
        if self._has_eof and not self._has_work:
            self.close()

    def _write_data(self, data: bytes | bytearray) -> bytearray:
        """Write responses, and return a buffer for later ones."""
        transport = self._transport
        if data and transport is not None and not transport.is_closing():
            self._written_bytes += len(data)
            transport.write(data)
        return bytearray()

    # Closing

    def _abandon_replies(self) -> None:
        """Abandon all replies, because the connection is lost."""
        self._set_unread_bytes(0)
        self._count_held_output(-self._held_output)
        replies, self._replies = self._replies, deque()
        for reply in replies:
            if reply.frame is None:
                reply.abandon()

    @property
    def unanswered_requests(self) -> int:
        """The number of processed requests that have no response yet."""
        return sum(reply.frame is None for reply in self._replies)

    @property
    def read_bytes(self) -> int:
        """The number of bytes that were sent since the connection opened, without those of repeated requests."""
        transport = self._transport
        return self._written_bytes - (0 if transport is None else transport.get_write_buffer_size())

    @property
    def answer_bytes(self) -> int:
        """The size of the unsent responses, in bytes."""
        transport = self._transport
        return self._held_output + (0 if transport is None else transport.get_write_buffer_size())

    def is_idle_since(self, oldest_ns: int) -> bool:
        """Return whether no byte arrived or was sent since `oldest_ns` (monotonic nanoseconds) and no request is
        pending. Called periodically."""
        transport = self._transport
        if self._replies or transport is None:
            return False
        unsent_bytes = transport.get_write_buffer_size()
        if unsent_bytes < self._unsent_bytes:
            self.last_received_ns = clock.monotonic_ns()  # the peer reads, if slowly
        self._unsent_bytes = unsent_bytes
        return self.last_received_ns < oldest_ns

    def close(self) -> None:
        """Send the ready responses, then close. Abort a peer that does not read them within a time."""
        transport = self._transport
        self._is_closing = self._is_held = True
        if transport is None or transport.is_closing():
            return
        transport.close()
        if transport.get_write_buffer_size():
            self._endpoint.loop.call_later(LINGER_S, self.abort)

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._is_closing = self._is_held = True
            self._transport.abort()
