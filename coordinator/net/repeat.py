"""The request that a connection sends again and again.

A member of a quiet group repeats one heartbeat for most of its life, the same bytes but for the correlation id, and
gets the same answer to it. So the bytes are kept: what arrives is compared with them instead of being decoded, and
whoever answers it is asked whether all is well. Several of them in one read are one to them, since they arrive at
the same instant, and as many answers.

Where things are: a request's frame begins with size, api key and version (bytes 0 to 7) and the correlation id (8
to 11); an answer's with its size (0 to 3) and the correlation id (4 to 7).
"""

from collections.abc import Callable

from coordinator.net.route import Route


class Repeated:
    """A request that was answered, and its answer."""

    __slots__ = (
        "_after",
        "_answer_end",
        "_answer_size",
        "_answers_between",
        "_before",
        "_between",
        "_is_well",
        "counts",
        "epoch",
        "frame_bytes",
    )

    def __init__(
        self, frame: bytes, response: object, is_well: Callable[[int], bool], route: Route, epoch: object
    ) -> None:
        """In: the whole frame, size included; its answer; who tells whether it is the answer again, at a monotonic
        time of the process in milliseconds; the epoch of the routes that it was answered by."""
        self.counts = route.counts
        self.frame_bytes = len(frame)
        self.epoch = epoch
        self._is_well = is_well
        self._before = frame[:8]
        self._after = frame[12:]
        self._between = self._after + self._before
        answer = bytearray()
        route.write(response, 0, answer)
        self._answer_size = bytes(answer[:4])
        self._answer_end = bytes(answer[8:])
        self._answers_between = self._answer_end + self._answer_size

    def answer(self, data: bytes, monotonic_ms: int) -> bytes | None:
        """The answers to `data`, if it is this request, whole, any number of times, and all is well; else None, and
        nothing was done."""
        if len(data) == self.frame_bytes:
            if data[12:] != self._after or data[:8] != self._before:
                return None
            correlation_ids = data[8:12]
        elif len(data) % self.frame_bytes == 0:
            several = [data[at : at + 4] for at in range(8, len(data), self.frame_bytes)]
            if self._before + self._between.join(several) + self._after != data:
                return None
            correlation_ids = self._answers_between.join(several)
        else:
            return None
        if not self._is_well(monotonic_ms):
            return None
        return self._answer_size + correlation_ids + self._answer_end
