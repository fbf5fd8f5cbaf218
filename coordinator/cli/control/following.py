"""The events of a daemon as they happen, across lost connections and restarts."""

from collections.abc import Callable, Iterator, Mapping
from threading import Event
from typing import Any, Final, NamedTuple

import msgspec

from coordinator.cli.control.api_client import ApiClient
from coordinator.cli.control.failure import Refused, Unreachable
from coordinator.cli.control.server_events import ServerEvent, ServerEventParser

GAP: Final = "gap"
_SILENCE_S: Final = 60.0
"""The daemon says something every 15 s."""
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 2.0
_SERVER_ERROR: Final = 500


class Happened(NamedTuple):
    """One event; `value` is what the API says of it. `is_restart`: a gap because it is another daemon now."""

    kind: str
    value: Mapping[str, Any]
    is_restart: bool


class Following:
    """See the top of this file. It ends only with an error: Unreachable or Refused before the first answer, Refused
    when the daemon says no later on."""

    def __init__(
        self,
        client: ApiClient,
        *,
        group: str | None = None,
        kinds: tuple[str, ...] = (),
        after: int | str | None = None,
        say: Callable[[str], None],
    ) -> None:
        """In: of which group, of which kinds (all); the event to begin after, as its number or id, None for what
        happens from now on; who is told that the daemon is lost, and that it answers again."""
        self._client = client
        self._query = {"group": group, "kind": kinds}
        self._after = after
        self._say = say
        self._last_id: str | None = None
        self._has_answered = False
        self._is_lost = False
        self._pause_s = _FIRST_PAUSE_S

    def __iter__(self) -> Iterator[Happened]:
        while True:
            try:
                yield from self._once()
            except Unreachable as error:
                if not self._has_answered:
                    raise
                self._lose(str(error))
            except Refused as refused:
                if not self._has_answered or refused.status < _SERVER_ERROR:
                    raise
                self._lose(str(refused))
            except ValueError as error:
                self._lose(str(error))
            Event().wait(self._pause_s)
            self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)

    def _once(self) -> Iterator[Happened]:
        query = self._query | {"after": self._after}
        with self._client.stream(
            "stream", query=query, last_id=self._last_id, silence_s=_SILENCE_S
        ) as pieces:
            if self._is_lost:
                self._say(f"the daemon at {self._client.url} answers again")
            self._has_answered, self._is_lost, self._pause_s = True, False, _FIRST_PAUSE_S
            parser = ServerEventParser()
            for piece in pieces:
                for event in parser.feed(piece):
                    self._keep(event.id)
                    yield _happened(event)
                self._keep(parser.last_id)

    def _keep(self, last_id: str | None) -> None:
        """What a header cannot carry is no id of ours."""
        if last_id and last_id.isascii() and last_id.isprintable():
            self._last_id = last_id

    def _lose(self, why: str) -> None:
        if not self._is_lost:
            self._say(f"{why.split('. ')[0]}; asking until it answers")
        self._is_lost = True
        if self._last_id is None and self._after is None:
            self._after = -1  # nothing of what a daemon has that was started since was seen


def _happened(event: ServerEvent) -> Happened:
    """Raises ValueError."""
    value = msgspec.json.decode(event.data)
    if not isinstance(value, dict):
        raise ValueError("an event is no JSON object")
    return Happened(event.kind, value, event.kind == GAP and value.get("restarted") is True)
