"""A fast path for the heartbeats that a connection repeats.

A member of a stable group repeats one heartbeat for most of its life. The bytes are the same except for the
correlation id, and so is the response. The connection keeps these bytes and looks up arriving requests among
them instead of decoding them. The handler only confirms that the response is still the same. Most connections
have one member; proxies, Connect workers and test drivers have several, so the cache keeps several requests.
Equal requests in one read reach the handler once, because they arrive at the same time.

A request frame begins with size, api key and version (bytes 0 to 7) and the correlation id (8 to 11). A
response begins with its size (0 to 3) and the correlation id (4 to 7)."""

from collections.abc import Callable, Iterator
from typing import Final

from coordinator.network.request_context import RequestContext
from coordinator.network.request_routes import Route

MAX_CACHED: Final = 16
"""The maximum number of cached requests of a connection. One takes about a kilobyte."""
MAX_FRAME_BYTES: Final = 1024
"""The maximum size of a cached request. Names may be longer, but rarely are."""
MISSES_UNTIL_RESET: Final = 16 * MAX_CACHED
"""After so many requests without room in the cache it is cleared, because its requests may be out of use."""

_START_BYTES: Final = 8
_REST_FROM: Final = 12


class _CachedHeartbeat:
    """A request that was answered, and its answer."""

    __slots__ = ("answer_end", "answer_size", "counts", "request", "response", "start", "try_repeat")

    def __init__(
        self, frame: bytes, request: object, response: object, try_repeat: Callable[[int], bool], route: Route
    ) -> None:
        answer = bytearray()
        route.write(response, 0, answer)
        self.start = frame[:_START_BYTES]
        self.request = request
        self.response = response
        self.try_repeat = try_repeat
        self.answer_size = bytes(answer[:4])
        self.answer_end = bytes(answer[8:])
        self.counts = route.counts


class HeartbeatCache:
    """The heartbeats of one connection that may come again."""

    __slots__ = ("_cached", "_misses", "epoch")

    def __init__(self) -> None:
        self.epoch: object = None
        """The epoch of the routes of the cached requests. Other routes must not use them."""
        self._cached: dict[bytes, _CachedHeartbeat] = {}
        """Requests by the bytes after the correlation id."""
        self._misses = 0

    def add_request(
        self,
        frame: bytes,
        request: object,
        response: object,
        context: RequestContext,
        route: Route,
        epoch: object,
    ) -> None:
        """Cache a request that clients repeat unchanged, if its response has no error.

        Args:
            frame: the whole frame with its size.
            request: the decoded request.
            response: its response.
            context: its context.
            route: the route that answered it.
            epoch: the epoch of the route.
        """
        assert route.fast_path is not None
        if epoch is not self.epoch:
            self.epoch = epoch
            self._cached.clear()
        rest = frame[_REST_FROM:]
        if len(frame) > MAX_FRAME_BYTES or rest in self._cached:
            return
        if len(self._cached) >= MAX_CACHED:
            self._misses += 1
            if self._misses < MISSES_UNTIL_RESET:
                return
            self._cached.clear()
            self._misses = 0
        try_repeat = route.fast_path(request, response, context)
        if try_repeat is not None:
            self._cached[rest] = _CachedHeartbeat(frame, request, response, try_repeat, route)

    def cached_requests(self) -> Iterator[object]:
        """Yield the cached requests. Only this connection sends them while it is open."""
        return (cached.request for cached in self._cached.values())

    def find_response(self, frame: bytes, monotonic_ms: int) -> object | None:
        """The answer to a request, if it is kept and all is well; else None, and nothing was done."""
        cached = self._cached.get(frame[_REST_FROM:])
        if cached is None or not frame.startswith(cached.start) or not cached.try_repeat(monotonic_ms):
            return None
        return cached.response

    def build_answers(self, data: bytes, monotonic_ms: int) -> bytes | None:
        """The answers, as they are sent, to `data`, if it is one request that is kept, whole, any number of times,
        and all is well; else None, and nothing was done."""
        cached = self._cached.get(data[_REST_FROM:])
        if cached is not None:
            if not data.startswith(cached.start) or not cached.try_repeat(monotonic_ms):
                return None
            cached.counts.count_responses(0)
            return cached.answer_size + data[_START_BYTES:_REST_FROM] + cached.answer_end
        frame_bytes = 4 + int.from_bytes(data[:4], "big")
        if len(data) == frame_bytes or len(data) % frame_bytes:
            return None
        rest = data[_REST_FROM:frame_bytes]
        cached = self._cached.get(rest)
        if cached is None:
            return None
        ids = [data[at : at + 4] for at in range(_START_BYTES, len(data), frame_bytes)]
        if cached.start + (rest + cached.start).join(ids) + rest != data or not cached.try_repeat(
            monotonic_ms
        ):
            return None
        cached.counts.count_responses(0, len(ids))
        return cached.answer_size + (cached.answer_end + cached.answer_size).join(ids) + cached.answer_end
