"""The outgoing half of a connection: the queue of its replies, and the limits that hold up processing.

A response that cannot be given at once has a reply in the queue; later responses wait behind it. How much may wait
there, and behind a peer that does not read, is bounded: beyond it no further request is processed.
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
"""Responses that may wait behind an open reply before processing stops."""
MAX_COMBINED_BYTES: Final = 256 * 1024
"""Answers up to this size leave together."""
LINGER_S: Final = 5.0
"""How long a connection that is being closed may take to read its last answers."""


class ReplyQueue(asyncio.Protocol):
    """Keeps the responses of a connection in the order of its requests. `_is_held`: no further request is
    processed for now."""

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
        """There is memory for the request that this connection has waited to receive."""

    @abstractmethod
    def repeated_requests(self) -> Iterator[object]:
        """What it sends again and again."""

    @property
    @abstractmethod
    def received_bytes(self) -> int:
        """How much of the request that is being received has come; all of it, where that is for us to do."""

    @abstractmethod
    def abort_receiving(self) -> None:
        """Others wait for the memory of this request, and it does not come."""

    # How much waits

    def pause_writing(self) -> None:
        """The peer reads slower than it asks."""
        self._is_write_paused = self._is_held = True
        if self._transport is not None:
            self._set_unread_bytes(self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """The peer has caught up."""
        self._is_write_paused = False
        self._set_unread_bytes(0)
        self._update_hold()
        self._process_pending()

    def _count_held_output(self, size_bytes: int) -> None:
        """Counts answers that wait for others, or no longer do."""
        self._held_output += size_bytes
        self._endpoint.unread_responses.held_bytes += size_bytes

    def _set_unread_bytes(self, size_bytes: int) -> None:
        self._endpoint.unread_responses.held_bytes += size_bytes - self._unread_bytes
        self._unread_bytes = size_bytes

    def _update_hold(self) -> bool:
        """Decides whether processing is held; called whenever something that matters for it has changed."""
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
        """Open the reply of the request that is being processed. See `RequestContext.defer`."""
        reply = QueuedReply(self, encoder, correlation_id, blocks, clock.monotonic_ns())
        self._replies.append(reply)
        if blocks:
            self._blocking_replies += 1
            self._is_held = True
        elif len(self._replies) >= MAX_OPEN_REPLIES:
            self._is_held = True
        return reply

    def _queue_response(self, encoder: ResponseEncoder, correlation_id: int, response: object) -> None:
        """Queue a response that is complete behind replies that are not."""
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
        """Add a response to `out`, or queue it behind replies that are not complete. No metric counts it."""
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
        """Process no further request until a reply is complete that did not block until now."""
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
        """Close the connection, since a request has failed."""
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
        """Send the complete replies at the head of the queue, and process the requests that were held back."""
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

    # The end of what a peer sends

    def eof_received(self) -> bool:
        """The client sends nothing more. What waits for others is not answered, as in Kafka; but what the daemon is
        at work on, or has not come to, is still done: it may be a Produce that wants no answer."""
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

    # Ending

    def _abandon_replies(self) -> None:
        """The connection is lost."""
        self._set_unread_bytes(0)
        self._count_held_output(-self._held_output)
        replies, self._replies = self._replies, deque()
        for reply in replies:
            if reply.frame is None:
                reply.abandon()

    @property
    def unanswered_requests(self) -> int:
        """Requests that were processed and have no answer yet."""
        return sum(reply.frame is None for reply in self._replies)

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
        if self._replies or transport is None:
            return False
        unsent_bytes = transport.get_write_buffer_size()
        if unsent_bytes < self._unsent_bytes:
            self.last_received_ns = clock.monotonic_ns()  # it reads, if slowly
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
