"""Server-Sent Events, read from the bytes of a stream: https://html.spec.whatwg.org/multipage/server-sent-events.html"""

from codecs import getincrementaldecoder
from collections.abc import Iterator
from typing import Final, NamedTuple

_MAX_LINE: Final = 8 * 1024 * 1024


class ServerEvent(NamedTuple):
    """An event as it was sent; `id` is None where the stream has named none yet."""

    id: str | None
    kind: str
    data: str


class ServerEventParser:
    """Takes bytes as they come, cut anywhere, and gives the events that are whole."""

    def __init__(self) -> None:
        self._decoder = getincrementaldecoder("utf-8-sig")(errors="replace")
        self._rest = ""
        self.last_id: str | None = None
        """The one to come back with: of the last event that is whole, or named without one."""
        self._id: str | None = None
        self._kind = ""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> Iterator[ServerEvent]:
        """Raises ValueError for a line without an end."""
        text = self._rest + self._decoder.decode(piece)
        # A carriage return at the very end may be the first half of a line's end.
        held = "\r" if text.endswith("\r") else ""
        *lines, rest = text.removesuffix("\r").replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._rest = rest + held
        if len(self._rest) > _MAX_LINE:
            raise ValueError(f"a line of the stream is longer than {_MAX_LINE} characters")
        for line in lines:
            if line:
                self._take(line)
            elif (event := self._dispatch()) is not None:
                yield event

    def _take(self, line: str) -> None:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._kind = value
        elif field == "id" and "\0" not in value:
            self._id = value

    def _dispatch(self) -> ServerEvent | None:
        kind, data = self._kind or "message", self._data
        self.last_id = self._id
        self._kind, self._data = "", []
        return ServerEvent(self._id, kind, "\n".join(data)) if data else None
