"""A cache of the requests that a connection repeats: heartbeats and commits.

A member of a stable group sends two requests for most of its life. Its heartbeat is the same each time, except for
the correlation id, and so is the response. Its commit has the same group, generation, member and partitions each
time; the offsets, and now and then leader epochs and metadata, differ at known places of the frame. So the
connection keeps the frames of answered requests, and looks up arriving frames among them instead of decoding them.

**Frames with gaps.** A `FrameShape` is a length and a list of gaps: the correlation id in every frame, and the
fields that differ. One `struct` reads the bytes around the gaps, which are the key of the cache; another one reads
the fields in the gaps. Equal keys mean that everything but these fields is equal: API, version, client id, group,
member, generation and partitions. So a cached request never answers another request than its own.

**A way into the coordinator, not a second one.** The cache saves decoding, the resolution of names, and encoding.
It makes no decision about a group. The API of a request creates a `Repetition`, and `Repetition.repeat` takes the
fields in the gaps. A heartbeat goes to `GroupShard.try_heartbeat`. A commit goes to its group as a
`RepeatedCommit`, as a decoded commit: through router, runtime, outcome, log and gate. When anything has changed
outside of the group, `repeat` returns None, without an effect, and the request takes the whole path: a topic was
deleted, an ACL was changed, an interceptor was added. The response to a repetition is usually equal to the first
one. The cache keeps the bytes of the first response; any other response is encoded as usual.

**Interceptors.** The routes of a listener begin another epoch when the interceptors of an API change, and the cache
is emptied. An intercepted machine gets no `RepeatedCommit`.

**What is kept.** A heartbeat is kept when it was answered, because nearly all heartbeats repeat. A client may never
repeat a commit, so that the preparation would be wasted: at most `MAX_UNREPEATED` commits are kept that were not
repeated, and further ones only after `MISSES_UNTIL_RESET` others. A connection keeps at most `MAX_CACHED` requests
with at most `MAX_CACHED_BYTES` in their frames. Most connections have one member; proxies, Connect workers and test
drivers have several.

A request frame begins with size, api key and version (bytes 0 to 7) and the correlation id (8 to 11). A response
begins with its size (0 to 3) and the correlation id (4 to 7).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from struct import Struct as BinaryFormat
from struct import calcsize
from typing import Any, Final, NamedTuple

from coordinator.core.reply import DeferReply
from coordinator.core.response_status import DeferredResponse
from coordinator.network.request_context import RequestContext, ResponseEncoder

MAX_CACHED: Final = 32
"""The maximum number of cached requests of a connection: a heartbeat and a commit of 16 members."""
MAX_FRAME_BYTES: Final = 1024
"""The maximum size of a cached request. Names may be longer, but rarely are."""
MAX_CACHED_BYTES: Final = 8 * 1024
"""The maximum size of all cached requests of a connection. A cached request takes a kilobyte, and a commit ten
times the size of its frame."""
MAX_UNREPEATED: Final = 4
"""The maximum number of commits that are kept, or could not be kept, before one of them is repeated."""
MISSES_UNTIL_RESET: Final = 256
"""After so many requests without room in the cache it is cleared, because its requests may be out of use."""

_SIZE_BYTES: Final = 4
_START_BYTES: Final = 8
_REST_FROM: Final = 12
_CORRELATION_ID: Final = BinaryFormat(">i")

Gap = tuple[int, str]
"""A gap of a frame: its position, and its fields as format characters of `struct`, without padding."""

Repeat = Callable[[int, Sequence[Any], DeferReply | None], object | None]
"""Takes a repeated request: its arrival time in monotonic milliseconds of the process, its correlation id with the
fields in its gaps, and the function that opens its reply; () and None for a request without gaps. Returns the
response or a `DeferredResponse`; None, without an effect, if the request must be decoded."""


class Repetition(NamedTuple):
    """The part of a request that stays the same, and how its repetitions are answered."""

    request: object
    """The request that was answered. Its repetitions differ only in their gaps."""
    response: object
    """The response to nearly all repetitions. All of them share it."""
    repeat: Repeat
    """Answers a repetition. Without gaps, it returns `response` or None."""
    gaps: tuple[Gap, ...] = ()
    """The gaps in the order of the frame, without the correlation id."""


class AnsweredRequest(NamedTuple):
    """A request that its handler has just answered, or deferred."""

    frame: bytes
    """The whole frame with its size."""
    body: int
    """The position behind the request header."""
    request: Any
    """The request as the handler has left it."""
    response: Any
    context: RequestContext


CreateRepetition = Callable[[AnsweredRequest], Repetition | None]
"""Creates the repetition of a request, without an effect. Returns None for a request that is not likely to come
again, or that a repetition could not answer."""


class CachedResponse(ResponseEncoder):
    """An encoder that keeps the bytes of one response. It encodes any other response as usual."""

    __slots__ = ("_end", "_size", "message")

    def __init__(self, encoder: ResponseEncoder, message: object) -> None:
        super().__init__(encoder.api, encoder.version, encoder.counts)
        frame = bytearray()
        super().write(message, 0, frame)
        self.message = message
        self._size, self._end = bytes(frame[:_SIZE_BYTES]), bytes(frame[_START_BYTES:])

    def write(
        self, response: Any, correlation_id: int, out: bytearray, most_bytes: int | None = None
    ) -> None:
        """Append the frame of a response, size included. See `ResponseEncoder.write`."""
        if response is self.message:
            out += self._size + _CORRELATION_ID.pack(correlation_id) + self._end
        else:
            super().write(response, correlation_id, out, most_bytes)

    def answer_frame(self, frame: bytes) -> bytes:
        """Return the frame of the response to the request in `frame`, and count it."""
        self.counts.buckets[0] += 1
        return self._size + frame[_START_BYTES:_REST_FROM] + self._end

    def answer_equal_frames(self, correlation_ids: Sequence[bytes]) -> bytes:
        """Return the frames of the responses to requests with these correlation ids, and count them."""
        self.counts.count_responses(0, len(correlation_ids))
        return self._size + (self._end + self._size).join(correlation_ids) + self._end


class CachedRequest:
    """A request that was answered, and the repetition of it."""

    __slots__ = ("read_changes", "repeat", "request", "response", "was_repeated")

    def __init__(
        self,
        repetition: Repetition,
        response: CachedResponse,
        read_changes: Callable[[bytes], tuple[Any, ...]] | None,
    ) -> None:
        self.request = repetition.request
        self.repeat = repetition.repeat
        self.response = response
        self.read_changes = read_changes
        """Reads correlation id and gaps of a frame; None for a request without gaps."""
        self.was_repeated = False


class FrameShape:
    """The length of frames and the positions of their gaps, and the cached requests with this shape."""

    __slots__ = ("gaps", "read_changes", "read_fixed", "requests")

    def __init__(self, frame_bytes: int, gaps: tuple[Gap, ...]) -> None:
        fixed, changes, position = f">{_START_BYTES}s4x", f">{_START_BYTES}xi", _REST_FROM
        for start, fields in gaps:
            size = calcsize(">" + fields)
            fixed += f"{start - position}s{size}x"
            changes += f"{start - position}x{fields}"
            position = start + size
        self.gaps = gaps
        self.read_fixed = BinaryFormat(f"{fixed}{frame_bytes - position}s").unpack
        """Returns the bytes around the gaps."""
        self.read_changes = BinaryFormat(f"{changes}{frame_bytes - position}x").unpack if gaps else None
        self.requests: dict[tuple[bytes, ...], CachedRequest] = {}
        """The cached requests by the bytes around their gaps."""


def find_in_shapes(shapes: Iterable[FrameShape], frame: bytes) -> CachedRequest | None:
    """Return the cached request that a frame repeats, or None. `shapes` are those of its length."""
    for shape in shapes:
        cached = shape.requests.get(shape.read_fixed(frame))
        if cached is not None:
            return cached
    return None


class RepeatedRequests:
    """The requests of one connection that may come again."""

    __slots__ = (
        "_cached_bytes",
        "_cached_count",
        "_misses",
        "_unrepeated",
        "commits_to_skip",
        "epoch",
        "equal_sizes",
        "shapes",
    )

    def __init__(self) -> None:
        self.epoch: object = None
        """The epoch of the routes of the cached requests. Other routes must not use them."""
        self.commits_to_skip = 0
        """The number of commits that are not added, because earlier ones were not repeated. The connection counts
        them."""
        self.shapes: dict[int, list[FrameShape]] = {}
        """The shapes of cached requests by the length of the frame in bytes."""
        self.equal_sizes: set[bytes] = set()
        """The first bytes, with the size, of cached requests without gaps, of which one read may have several."""
        self._clear()

    def _clear(self) -> None:
        self.shapes.clear()
        self.equal_sizes.clear()
        self._cached_count = self._cached_bytes = self._misses = 0
        self._unrepeated = 0
        """The commits that are kept, or could not be kept, and were not repeated."""

    def cached_requests(self) -> Iterator[object]:
        """Yield the cached requests. Only this connection sends them while it is open."""
        for shapes in self.shapes.values():
            for shape in shapes:
                yield from (cached.request for cached in shape.requests.values())

    def find_request(self, frame: bytes) -> CachedRequest | None:
        """Return the cached request that a frame repeats, or None."""
        return find_in_shapes(self.shapes.get(len(frame), ()), frame)

    def answer_equal_requests(self, data: bytes, monotonic_ms: int) -> bytes | None:
        """Return the responses to several whole frames of one cached request without gaps. Return None, without an
        effect, for any other `data`.

        The request reaches its handler once, because the frames have arrived at the same time.
        """
        frame_bytes = 4 + int.from_bytes(data[:4], "big")
        if len(data) == frame_bytes or len(data) % frame_bytes:
            return None
        first = data[:frame_bytes]
        cached = self.find_request(first)
        if cached is None or cached.read_changes is not None:
            return None
        start, rest = first[:_START_BYTES], first[_REST_FROM:]
        ids = [data[at : at + 4] for at in range(_START_BYTES, len(data), frame_bytes)]
        if start + (rest + start).join(ids) + rest != data:
            return None
        if cached.repeat(monotonic_ms, (), None) is None:
            return None
        return cached.response.answer_equal_frames(ids)

    def on_repeated(self, cached: CachedRequest) -> None:
        """Note the first repetition of a request with gaps, which makes room for another one."""
        cached.was_repeated = True
        self._unrepeated -= 1
        self.commits_to_skip = 0

    def remove_request(self, frame: bytes) -> None:
        """Remove the request that a frame repeats: its repetition is not valid any more."""
        shapes = self.shapes.get(len(frame), [])
        for shape in shapes:
            cached = shape.requests.pop(shape.read_fixed(frame), None)
            if cached is not None:
                self._count_removed(cached, len(frame))
        self.shapes[len(frame)] = [shape for shape in shapes if shape.requests]

    def _count_removed(self, cached: CachedRequest, frame_bytes: int) -> None:
        self._cached_count -= 1
        self._cached_bytes -= frame_bytes
        self._unrepeated -= cached.read_changes is not None and not cached.was_repeated

    def add_request(
        self,
        answered: AnsweredRequest,
        create_repetition: CreateRepetition,
        epoch: object,
    ) -> None:
        """Cache a request that its client may repeat, if there is room.

        Args:
            answered: the request.
            create_repetition: creates the repetition.
            epoch: the epoch of its route.
        """
        if epoch is not self.epoch:
            self.epoch = epoch
            self._clear()
        frame = answered.frame
        if len(frame) > MAX_FRAME_BYTES or self.find_request(frame) is not None:
            return
        is_deferred = type(answered.response) is DeferredResponse
        if is_deferred and self._unrepeated >= MAX_UNREPEATED:
            self._remove_unrepeated()
        if self._cached_count >= MAX_CACHED or self._cached_bytes + len(frame) > MAX_CACHED_BYTES:
            self._misses += 1
            if self._misses < MISSES_UNTIL_RESET:
                return
            self._clear()
        repetition = create_repetition(answered)
        if repetition is not None:
            response = CachedResponse(answered.context.encoder, repetition.response)
            self._keep(frame, repetition, response)
        if is_deferred:
            self._unrepeated += 1
            if self._unrepeated >= MAX_UNREPEATED:
                self.commits_to_skip = MISSES_UNTIL_RESET

    def _keep(self, frame: bytes, repetition: Repetition, response: CachedResponse) -> None:
        shapes = self.shapes.setdefault(len(frame), [])
        shape = next((shape for shape in shapes if shape.gaps == repetition.gaps), None)
        if shape is None:
            shape = FrameShape(len(frame), repetition.gaps)
            shapes.append(shape)
        shape.requests[shape.read_fixed(frame)] = CachedRequest(repetition, response, shape.read_changes)
        if not repetition.gaps:
            self.equal_sizes.add(frame[:_SIZE_BYTES])
        self._cached_count += 1
        self._cached_bytes += len(frame)

    def _remove_unrepeated(self) -> None:
        """Remove the commits that were not repeated. Heartbeats stay: they show the members of the connection."""
        for frame_bytes, shapes in self.shapes.items():
            for shape in shapes:
                kept: dict[tuple[bytes, ...], CachedRequest] = {}
                for key, cached in shape.requests.items():
                    if cached.read_changes is None or cached.was_repeated:
                        kept[key] = cached
                    else:
                        self._count_removed(cached, frame_bytes)
                shape.requests = kept
        self.shapes = {
            frame_bytes: used
            for frame_bytes, shapes in self.shapes.items()
            if (used := [shape for shape in shapes if shape.requests])
        }
        self._unrepeated = 0
