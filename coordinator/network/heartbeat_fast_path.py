"""The requests that a connection sends again and again.

A member of a quiet group repeats one heartbeat for most of its life, the same bytes but for the correlation id, and
gets the same answer to it. So the bytes are kept: what arrives is looked up among them instead of being decoded,
and whoever answers it is asked whether all is well. Most connections speak for one member; proxies, Connect workers
and the drivers of tests speak for several, so that several requests are kept, up to a bound. Several of the same in
one read are one to whoever answers, since they arrive at the same instant.

Where things are: a request's frame begins with size, api key and version (bytes 0 to 7) and the correlation id (8
to 11); an answer's with its size (0 to 3) and the correlation id (4 to 7).
"""

from collections.abc import Callable, Iterator
from typing import Final

from coordinator.network.request_context import RequestContext
from coordinator.network.request_routes import Route

MAX_CACHED: Final = 16
"""Requests of one connection. With what is kept beside its bytes, one takes about a kilobyte."""
MAX_FRAME_BYTES: Final = 1024
"""Of a request that is kept: names may be far longer, but hardly anybody's are."""
MISSES_UNTIL_RESET: Final = 16 * MAX_CACHED
"""How many requests find no room before what is kept is forgotten: their senders may be those that are left."""

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
        """Of the routes by which the requests were answered. By those of another one nothing may be asked."""
        self._cached: dict[bytes, _CachedHeartbeat] = {}
        """By what follows the correlation id."""
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
        """Takes a request that is likely to come again just so, if its answer was that all is well.

        In: the whole frame, size included; its answer; its context; by which route it was answered, of which epoch.
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
        """What is kept: nobody else sends it as long as this connection does."""
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
