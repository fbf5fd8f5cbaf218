"""Follows the event stream of a daemon across lost connections and restarts. Source of the parser:
Server-Sent Events, https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Mapping
from threading import Event
from typing import Any, Final, NamedTuple

import msgspec

from coordinator.cli.command_errors import DaemonError, ServerUnreachable
from coordinator.cli.control.api_client import ApiClient

_MAX_LINE: Final = 8 * 1024 * 1024


class ServerEvent(NamedTuple):
    """An event as the daemon sent it. `id` is None until the stream has sent one."""

    id: str | None
    kind: str
    data: str


class ServerEventParser:
    """Parses chunks of bytes, cut anywhere, into complete events."""

    def __init__(self) -> None:
        self._decoder = getincrementaldecoder("utf-8-sig")(errors="replace")
        self._rest = ""
        self.last_id: str | None = None
        """The id to resume from: of the last complete event, or of the last id without an event."""
        self._id: str | None = None
        self._kind = ""
        self._data: list[str] = []

    def parse_chunk(self, piece: bytes) -> Iterator[ServerEvent]:
        """Yield the events that a chunk completes. Raises ValueError for a line that is too long."""
        text = self._rest + self._decoder.decode(piece)
        # A carriage return at the end may be the first half of a line end.
        held = "\r" if text.endswith("\r") else ""
        *lines, rest = text.removesuffix("\r").replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._rest = rest + held
        if len(self._rest) > _MAX_LINE:
            raise ValueError(f"a line of the stream is longer than {_MAX_LINE} characters")
        for line in lines:
            if line:
                self._parse_line(line)
            elif (event := self._dispatch_event()) is not None:
                yield event

    def _parse_line(self, line: str) -> None:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._kind = value
        elif field == "id" and "\0" not in value:
            self._id = value

    def _dispatch_event(self) -> ServerEvent | None:
        kind, data = self._kind or "message", self._data
        self.last_id = self._id
        self._kind, self._data = "", []
        return ServerEvent(self._id, kind, "\n".join(data)) if data else None


GAP: Final = "gap"
_IDLE_TIMEOUT_S: Final = 60.0
"""The idle timeout. The daemon sends at least a comment every 15 s."""
_FIRST_PAUSE_S: Final = 0.1
_MAX_PAUSE_S: Final = 2.0
_SERVER_ERROR: Final = 500


class FollowedEvent(NamedTuple):
    """One event; `value` is its JSON from the API. `is_restart`: a gap because the daemon has restarted."""

    kind: str
    value: Mapping[str, Any]
    is_restart: bool


class EventFollower:
    """Iterates over events without end. Raises ServerUnreachable or DaemonError before the first answer; later only
    DaemonError, when the daemon rejects the request."""

    def __init__(
        self,
        client: ApiClient,
        *,
        group: str | None = None,
        kinds: tuple[str, ...] = (),
        after: int | str | None = None,
        on_status_change: Callable[[str], None],
    ) -> None:
        """Create a follower of the event stream.

        Args:
            client: The client of the daemon.
            group: The group to follow, or None for all groups.
            kinds: The event kinds to follow. Empty means all kinds.
            after: The number or id of the last known event, or None to begin with new events.
            on_status_change: Called with a text when the connection is lost and when it is back.
        """
        self._client = client
        self._query = {"group": group, "kind": kinds}
        self._after = after
        self._on_status_change = on_status_change
        self._last_id: str | None = None
        self._has_answered = False
        self._is_lost = False
        self._pause_s = _FIRST_PAUSE_S

    def __iter__(self) -> Iterator[FollowedEvent]:
        while True:
            try:
                yield from self._follow_connection()
            except ServerUnreachable as error:
                if not self._has_answered:
                    raise
                self._report_lost(str(error))
            except DaemonError as error:
                if not self._has_answered or error.status < _SERVER_ERROR:
                    raise
                self._report_lost(str(error))
            except ValueError as error:
                self._report_lost(str(error))
            Event().wait(self._pause_s)
            self._pause_s = min(2 * self._pause_s, _MAX_PAUSE_S)

    def _follow_connection(self) -> Iterator[FollowedEvent]:
        query = self._query | {"after": self._after}
        with self._client.open_stream(
            "stream", query=query, last_id=self._last_id, idle_timeout_s=_IDLE_TIMEOUT_S
        ) as pieces:
            if self._is_lost:
                self._on_status_change(f"the daemon at {self._client.url} answers again")
            self._has_answered, self._is_lost, self._pause_s = True, False, _FIRST_PAUSE_S
            parser = ServerEventParser()
            for piece in pieces:
                for event in parser.parse_chunk(piece):
                    self._remember_id(event.id)
                    yield _parse_event(event)
                self._remember_id(parser.last_id)

    def _remember_id(self, last_id: str | None) -> None:
        """Keep the id of the last event, unless a header cannot carry it."""
        if last_id and last_id.isascii() and last_id.isprintable():
            self._last_id = last_id

    def _report_lost(self, why: str) -> None:
        if not self._is_lost:
            self._on_status_change(f"{why.split('. ')[0]}; retrying until it answers")
        self._is_lost = True
        if self._last_id is None and self._after is None:
            self._after = -1  # a restarted daemon has only new events


def _parse_event(event: ServerEvent) -> FollowedEvent:
    """Parse the JSON of an event. Raises ValueError."""
    value = msgspec.json.decode(event.data)
    if not isinstance(value, dict):
        raise ValueError("an event is not a JSON object")
    return FollowedEvent(event.kind, value, event.kind == GAP and value.get("restarted") is True)
