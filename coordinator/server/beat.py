"""The heartbeat that a connection sends again and again.

A member of a quiet group repeats one request for most of its life, the same bytes but for the correlation id, and
gets the same answer to it. So the bytes are kept: what arrives is compared with them instead of being decoded, and
the group is asked whether its member has anything to hear. Several of them in one read are one heartbeat to the
group, since they arrive at the same instant, and as many answers.

Where things are: a request's frame begins with size, api key and version (bytes 0 to 7) and the correlation id (8
to 11); an answer's with its size (0 to 3) and the correlation id (4 to 7).
"""

from coordinator.group.classic.heartbeat import RESPONSES
from coordinator.server.offsets_partition import OffsetsPartition
from coordinator.server.route import Route
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest


class Beat:
    """A heartbeat that was answered, and its answer."""

    __slots__ = (
        "_after",
        "_answer_end",
        "_answer_size",
        "_answers_between",
        "_before",
        "_between",
        "_partition",
        "_request",
        "counts",
        "frame_bytes",
    )

    def __init__(
        self, frame: bytes, request: HeartbeatRequest, partition: OffsetsPartition, route: Route
    ) -> None:
        """In: the whole frame, size included, and what it says."""
        self.counts = route.counts
        self.frame_bytes = len(frame)
        self._request = request
        self._partition = partition
        self._before = frame[:8]
        self._after = frame[12:]
        self._between = self._after + self._before
        answer = bytearray()
        route.write(RESPONSES[ErrorCode.NONE], 0, answer)
        self._answer_size = bytes(answer[:4])
        self._answer_end = bytes(answer[8:])
        self._answers_between = self._answer_end + self._answer_size

    def answer(self, data: bytes, monotonic_ms: int) -> bytes | None:
        """The answers to `data`, if it is this heartbeat, whole, any number of times, and all is well with the
        member; else None, and nothing was done."""
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
        shard = self._partition.shard
        if shard is None or not shard.beat(self._request, monotonic_ms):
            return None
        return self._answer_size + correlation_ids + self._answer_end
