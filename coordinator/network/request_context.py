"""The context of a request: its client, its API version, and its reply.

A handler takes a decoded message and a `RequestContext`. The context never changes, so it stays valid after the
handler has returned. For a later call, or to transform the response, make another one (`with_reply`,
`map_reply`).

Responses leave a connection in the order of its requests. A request that is not answered at once has a
`QueuedReply`; later responses wait behind it. Source: Kafka's `RequestContext`, `RequestChannel`.
"""

from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from struct import Struct as BinaryFormat
from typing import Any, Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.reply import DeferReply, Reply, TransformResponse, defer_mapped
from coordinator.core.response_status import BLOCKED, CLOSE_CONNECTION, NoResponse
from coordinator.core.shared_types import Node
from coordinator.security.core.principal import Principal
from protocol.apis import Api, ApiKey
from protocol.codec import bounded_writer
from protocol.framing import has_flexible_response_header
from protocol.primitives import TooLong

LATENCY_BOUNDS_NS: Final = tuple(
    int(seconds * 1e9)
    for seconds in (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 30, 300)
)
"""Upper bounds of the buckets of the latency histogram, nanoseconds. A last bucket has no upper bound."""

_FIRST_BOUND_NS: Final = LATENCY_BOUNDS_NS[0]
SIZE_AND_CORRELATION: Final = BinaryFormat(">ii")
MAX_INLINE_BYTES: Final = 256 * 1024
"""The maximum size in bytes of a response that is encoded on the event loop. `large_messages.py` encodes longer
ones in a thread."""


class ClientInfo(Struct, frozen=True):
    """The client of a connection. The connection replaces it when the client id or the principal changes."""

    client_id: str
    """The client id of the last request; "" before the first request."""
    host: str
    """The IP address of the client, with Java's leading slash ("/127.0.0.1")."""
    connection_id: int
    """A number that no other connection of this process has."""
    principal: Principal
    """The authenticated identity of the client."""
    node: Node
    """This broker, as the client should know it."""
    peer: str
    """Host and port, for log lines."""


class ApiCounts:
    """The metrics of one API: responses by latency bucket, and the sum of the latencies in nanoseconds."""

    __slots__ = ("buckets", "sum_ns")

    def __init__(self) -> None:
        self.buckets = [0] * (len(LATENCY_BOUNDS_NS) + 1)
        self.sum_ns = 0

    def copy(self) -> "ApiCounts":
        """Return a copy of the counts."""
        copied = ApiCounts()
        copied.buckets = self.buckets.copy()
        copied.sum_ns = self.sum_ns
        return copied

    def count_responses(self, latency_ns: int, count: int = 1) -> None:
        """Count `count` responses with a latency of `latency_ns` nanoseconds each."""
        if latency_ns <= _FIRST_BOUND_NS:
            self.buckets[0] += count
        else:
            self.buckets[bisect_left(LATENCY_BOUNDS_NS, latency_ns)] += count
        self.sum_ns += latency_ns * count


class ResponseEncoder:
    """Encodes the responses of one version of an API, and counts them."""

    __slots__ = ("_has_records", "_header", "_write_body", "api", "counts", "version")

    def __init__(self, api: Api, version: int, counts: ApiCounts) -> None:
        self.api = api
        self.version = version
        self.counts = counts
        self._header = bytes(9 if has_flexible_response_header(api, version) else 8)
        self._write_body: Callable[[Any, bytearray, int], None] | None = None
        self._has_records = api.key is ApiKey.FETCH
        """Whether responses carry records. Records have a size limit of their own."""

    def write(
        self, response: Any, correlation_id: int, out: bytearray, most_bytes: int | None = None
    ) -> None:
        """Append the frame of a response, size included.

        Raises TooLong, and leaves `out` unchanged, if the response has more than `most_bytes` bytes. None means
        `MAX_INLINE_BYTES`, not counting the records of a Fetch.
        """
        write = self._write_body
        if write is None:
            write = self._write_body = bounded_writer(self.api.response, self.version)
        start = len(out)
        out += self._header
        try:
            if most_bytes is None:
                most_bytes = MAX_INLINE_BYTES
                if self._has_records:
                    most_bytes += _count_record_bytes(response)
            write(response, out, start + most_bytes)
        except TooLong:
            del out[start:]
            raise
        SIZE_AND_CORRELATION.pack_into(out, start, len(out) - start - 4, correlation_id)


def _count_record_bytes(response: Any) -> int:
    """Return the size of the records in a Fetch response. They are copied unchanged and have a limit of their
    own."""
    return sum(len(part.records or b"") for topic in response.responses for part in topic.partitions)


class ReplyConnection(Protocol):
    """The part of a connection that the replies of its requests use."""

    @property
    def client(self) -> ClientInfo:
        """The client at the other end."""

    @property
    def answer_bytes(self) -> int:
        """The size of the unsent responses, in bytes."""

    @property
    def read_bytes(self) -> int:
        """The number of bytes that were sent since the connection was opened."""

    def open_reply(self, encoder: ResponseEncoder, correlation_id: int, blocks: bool) -> "QueuedReply":
        """Open the reply of the current request. `blocks` tells whether it blocks the connection."""

    def block(self, reply: "QueuedReply") -> None:
        """Stop processing until a reply is complete that has not blocked the connection so far."""

    def add_frame(self, reply: "QueuedReply", frame: bytearray) -> None:
        """Complete a reply with an encoded frame. The frame is empty if no response is sent."""

    def encode_in_thread(self, reply: "QueuedReply", response: object) -> None:
        """Complete a reply with a response that is too long to be encoded on the event loop."""

    def fail(self, problem: Exception) -> None:
        """Close the connection, because a request has failed."""

    def close(self) -> None:
        """Send the complete replies, then close the connection."""

    def abort(self) -> None:
        """Close the connection at once."""


class QueuedReply(Reply):
    """The reply to a request of a client, in the queue of its connection."""

    connection: ReplyConnection
    encoder: ResponseEncoder
    correlation_id: int
    blocks: bool
    """Whether the connection processes no other request until the reply is complete."""
    opened_ns: int
    """The time when the reply was opened, monotonic nanoseconds; 0 for a response that no metric counts."""
    frame: bytes | bytearray | None = None
    """The encoded response after it is complete. It is empty if no response is sent."""

    def send(self, response: object) -> None:
        assert self.frame is None, "answered twice"
        frame = bytearray()
        if type(response) is not NoResponse:
            try:
                if self.transform is not None:
                    transform, self.transform = self.transform, None
                    response = transform(response)
                    if response is BLOCKED:
                        return
                self.encoder.write(response, self.correlation_id, frame)
            except TooLong:
                self.connection.encode_in_thread(self, response)
                return
            except Exception as problem:  # noqa: BLE001 - the caller completes other replies too
                self.connection.fail(problem)
                return
        self.connection.add_frame(self, frame)
        if response is CLOSE_CONNECTION:
            self.connection.close()

    def fail(self, problem: Exception) -> None:
        self.connection.fail(problem)

    def block(self) -> None:
        self.connection.block(self)

    def close_connection(self) -> None:
        self.connection.close()

    def abort_connection(self) -> None:
        self.connection.abort()


class RequestContext(Struct, frozen=True, eq=False):
    """The context of one request."""

    client: ClientInfo
    encoder: ResponseEncoder
    correlation_id: int
    connection: ReplyConnection | None
    """The connection, or None for a request that groupd itself makes. Such a request brings its own reply."""
    api_version: int
    is_large: bool = False
    """Whether the handler must work in steps because the request has many elements."""
    open_reply: DeferReply | None = None
    """Opens the reply. None: the connection opens it."""

    @property
    def api_name(self) -> str:
        """Kafka's name of the API."""
        return self.encoder.api.name

    def defer(self, blocks: bool) -> Reply:
        """Open the reply of a request that is not answered at once.

        Args:
            blocks: whether the connection processes no other request until the reply is complete.
        """
        if self.open_reply is not None:
            return self.open_reply(blocks)
        assert self.connection is not None
        return self.connection.open_reply(self.encoder, self.correlation_id, blocks)

    def with_reply(self, reply: Reply) -> "RequestContext":
        """Return the context for a handler that is called after the reply was opened."""
        return replace(self, open_reply=reply.reopen)

    def notify_deferred(self, on_deferred: Callable[[Reply], object]) -> "RequestContext":
        """Return a context that calls `on_deferred` with the reply when the handler defers it."""

        def open_reply(blocks: bool) -> Reply:
            reply = self.defer(blocks)
            on_deferred(reply)
            return reply

        return replace(self, open_reply=open_reply)

    def map_reply(self, transform: TransformResponse) -> "RequestContext":
        """Return a context whose reply transforms the response.

        If the handler returns a response at once, its caller transforms it.
        """
        return replace(self, open_reply=partial(defer_mapped, self.defer, transform))
