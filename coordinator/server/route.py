"""One version of one API: how its requests are decoded, who answers them, how answers are encoded."""

from bisect import bisect_left
from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from protocol.apis import Api
from protocol.codec import request_decoder, writer
from protocol.framing import has_flexible_response_header

if TYPE_CHECKING:
    from coordinator.server.beat import Beat
    from coordinator.server.connection import Connection

Handler = Callable[[Any, "Connection", "Route", int], object]
"""Takes (request, connection, route, correlation id); gives the response, None when it opened a slot for it, or
NO_ANSWER.
"""

Repeat = Callable[[bytes, Any, "Route"], "Beat"]
"""Takes (frame, request, route) of a request that is likely to come again just so."""

SIZE_AND_CORRELATION: Final = Struct(">ii")

LATENCY_BOUNDS_NS: Final = tuple(
    int(seconds * 1e9)
    for seconds in (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 30, 300)
)
"""Upper bounds of the latency histogram's buckets, nanoseconds; one more bucket follows for what is above."""

_FIRST_BOUND_NS: Final = LATENCY_BOUNDS_NS[0]


class ApiCounts:
    """What the metrics know of one API: answers by latency bucket, and the sum of the latencies."""

    __slots__ = ("buckets", "sum_ns")

    def __init__(self) -> None:
        self.buckets = [0] * (len(LATENCY_BOUNDS_NS) + 1)
        self.sum_ns = 0

    def add(self, latency_ns: int, count: int = 1) -> None:
        """Counts `count` answers that took `latency_ns` each."""
        if latency_ns <= _FIRST_BOUND_NS:
            self.buckets[0] += count
        else:
            self.buckets[bisect_left(LATENCY_BOUNDS_NS, latency_ns)] += count
        self.sum_ns += latency_ns * count


class Route:
    """See the top of this file. Made when a version of an API is first asked for."""

    __slots__ = (
        "_header",
        "_writers",
        "api",
        "counts",
        "decode",
        "handle",
        "is_flexible",
        "repeat",
        "version",
    )

    def __init__(
        self, api: Api, version: int, handle: Handler, counts: ApiCounts, repeat: Repeat | None = None
    ) -> None:
        self.api = api
        self.version = version
        self.handle = handle
        self.counts = counts
        self.repeat = repeat
        self.is_flexible = version in api.flexible
        """Whether a tagged section ends the request header."""
        self.decode = request_decoder(api.request, version)
        self._header = bytes(9 if has_flexible_response_header(api, version) else 8)
        self._writers: Callable[[Any, bytearray], None] | None = None

    def write(self, response: Any, correlation_id: int, out: bytearray) -> None:
        """Appends the frame of a response, size included."""
        write = self._writers
        if write is None:
            write = self._writers = writer(self.api.response, self.version)
        start = len(out)
        out += self._header
        write(response, out)
        SIZE_AND_CORRELATION.pack_into(out, start, len(out) - start - 4, correlation_id)
