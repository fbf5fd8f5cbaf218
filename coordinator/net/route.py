"""One version of one API: how its requests are decoded, who answers them, how answers are encoded."""

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from coordinator.net.api_counts import ApiCounts
from coordinator.net.caller import Caller
from protocol.apis import Api, ApiKey
from protocol.budget import Budget
from protocol.codec import bounded_writer, request_decoder
from protocol.framing import has_flexible_response_header
from protocol.malformed import TooLong, TooManyElements

Handler = Callable[[Any, Caller], object]
"""Takes a request and who sent it; gives the response, or one of `coordinator.answers`."""

Repeat = Callable[[Any, Any, Caller], Callable[[int], bool] | None]
"""Takes a request, its answer, and who sent it; does nothing. Gives what tells, at a monotonic time of the process
in milliseconds, whether that is the answer again, and takes the request if so; None where that is not likely."""

SIZE_AND_CORRELATION: Final = Struct(">ii")
AT_ONCE_ELEMENTS: Final = 2_000
"""A request of more, in all its arrays, is not decoded on the loop: see `large_requests.py`. So many of anything
take milliseconds from bytes to answer."""
AT_ONCE_BYTES: Final = 256 * 1024
"""An answer of more is not written on the loop: see `large_answers.py`. Nearly all are shorter."""


class Route:
    """See the top of this file. Made when a version of an API is first asked for."""

    __slots__ = (
        "_decode_large",
        "_header",
        "_write_body",
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
        budget = Budget(api.most_elements)
        if api.most_elements > AT_ONCE_ELEMENTS:
            budget = Budget(AT_ONCE_ELEMENTS, too_many=TooManyElements)
        self.decode = request_decoder(api.request, version, budget)
        """Raises Malformed; TooManyElements for a request that is to be decoded elsewhere, by `decode_large`."""
        self._decode_large: Callable[..., Any] | None = None
        self._header = bytes(9 if has_flexible_response_header(api, version) else 8)
        self._write_body: Callable[[Any, bytearray, int], None] | None = None

    def decode_large(self, frame: bytes, position: int) -> Any:
        """A request with all elements that its API allows. Raises Malformed. In any thread, one at a time."""
        decode = self._decode_large
        if decode is None:
            decode = request_decoder(self.api.request, self.version, Budget(self.api.most_elements))
            self._decode_large = decode
        return decode(frame, position)

    def write(
        self, response: Any, correlation_id: int, out: bytearray, most_bytes: int | None = None
    ) -> None:
        """Appends the frame of a response, size included.

        Raises TooLong, and `out` is as before, when it has more than `most_bytes`; None: more than may be written
        while others wait."""
        write = self._write_body
        if write is None:
            write = self._write_body = bounded_writer(self.api.response, self.version)
        start = len(out)
        out += self._header
        try:
            if most_bytes is None:
                most_bytes = AT_ONCE_BYTES
                if self.api.key is ApiKey.FETCH:
                    most_bytes += _records_bytes(response)
            write(response, out, start + most_bytes)
        except TooLong:
            del out[start:]
            raise
        SIZE_AND_CORRELATION.pack_into(out, start, len(out) - start - 4, correlation_id)


def _records_bytes(response: Any) -> int:
    """The records in an answer to Fetch: they are copied as they are, and have a bound of their own."""
    return sum(len(part.records or b"") for topic in response.responses for part in topic.partitions)
