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

from coordinator.net.caller import Caller
from coordinator.net.route import Route

MAX_KEPT: Final = 16
"""Requests of one connection. With what is kept beside its bytes, one takes about a kilobyte."""
MAX_FRAME_BYTES: Final = 1024
"""Of a request that is kept: names may be far longer, but hardly anybody's are."""
MISSES_UNTIL_ANEW: Final = 16 * MAX_KEPT
"""How many requests find no room before what is kept is forgotten: their senders may be those that are left."""

_START_BYTES: Final = 8
_REST_FROM: Final = 12


class _Kept:
    """A request that was answered, and its answer."""

    __slots__ = ("answer_end", "answer_size", "counts", "is_well", "request", "response", "start")

    def __init__(
        self, frame: bytes, request: object, response: object, is_well: Callable[[int], bool], route: Route
    ) -> None:
        answer = bytearray()
        route.write(response, 0, answer)
        self.start = frame[:_START_BYTES]
        self.request = request
        self.response = response
        self.is_well = is_well
        self.answer_size = bytes(answer[:4])
        self.answer_end = bytes(answer[8:])
        self.counts = route.counts


class Repeated:
    """Of one connection."""

    __slots__ = ("_kept", "_missed", "epoch")

    def __init__(self) -> None:
        self.epoch: object = None
        """Of the routes by which the requests were answered. By those of another one nothing may be asked."""
        self._kept: dict[bytes, _Kept] = {}
        """By what follows the correlation id."""
        self._missed = 0

    def keep(
        self, frame: bytes, request: object, response: object, caller: Caller, route: Route, epoch: object
    ) -> None:
        """Takes a request that is likely to come again just so, if its answer was that all is well.

        In: the whole frame, size included; its answer; who sent it; by which route it was answered, of which epoch.
        """
        assert route.repeat is not None
        if epoch is not self.epoch:
            self.epoch = epoch
            self._kept.clear()
        rest = frame[_REST_FROM:]
        if len(frame) > MAX_FRAME_BYTES or rest in self._kept:
            return
        if len(self._kept) >= MAX_KEPT:
            self._missed += 1
            if self._missed < MISSES_UNTIL_ANEW:
                return
            self._kept.clear()
            self._missed = 0
        is_well = route.repeat(request, response, caller)
        if is_well is not None:
            self._kept[rest] = _Kept(frame, request, response, is_well, route)

    def requests(self) -> Iterator[object]:
        """What is kept: nobody else sends it as long as this connection does."""
        return (kept.request for kept in self._kept.values())

    def response(self, frame: bytes, monotonic_ms: int) -> object | None:
        """The answer to a request, if it is kept and all is well; else None, and nothing was done."""
        kept = self._kept.get(frame[_REST_FROM:])
        if kept is None or not frame.startswith(kept.start) or not kept.is_well(monotonic_ms):
            return None
        return kept.response

    def answers(self, data: bytes, monotonic_ms: int) -> bytes | None:
        """The answers, as they are sent, to `data`, if it is one request that is kept, whole, any number of times,
        and all is well; else None, and nothing was done."""
        kept = self._kept.get(data[_REST_FROM:])
        if kept is not None:
            if not data.startswith(kept.start) or not kept.is_well(monotonic_ms):
                return None
            kept.counts.add(0)
            return kept.answer_size + data[_START_BYTES:_REST_FROM] + kept.answer_end
        frame_bytes = 4 + int.from_bytes(data[:4], "big")
        if len(data) == frame_bytes or len(data) % frame_bytes:
            return None
        rest = data[_REST_FROM:frame_bytes]
        kept = self._kept.get(rest)
        if kept is None:
            return None
        ids = [data[at : at + 4] for at in range(_START_BYTES, len(data), frame_bytes)]
        if kept.start + (rest + kept.start).join(ids) + rest != data or not kept.is_well(monotonic_ms):
            return None
        kept.counts.add(0, len(ids))
        return kept.answer_size + (kept.answer_end + kept.answer_size).join(ids) + kept.answer_end
