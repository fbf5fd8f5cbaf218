"""Draw a transcript of `tests/scenarios` as a Mermaid sequence diagram.

The module runs the commands of the transcript and turns the core's responses and events into arrows and notes. The
tests of `tests/scenarios` compare the same transcript with the core.
"""

import textwrap
from collections.abc import Iterable
from typing import Final

from coordinator.core.outcome import Context, Outcome, TransactionMarker
from coordinator.group.classic.classic_state_machine import EMPTY
from coordinator.group.group_event_types import MemberIdRequired, RebalanceDelayed, RebalanceStarted
from coordinator.group.group_requests import GroupTimerKey, GroupTimerKind, Request
from docs.sequence_labels import assignment_label, event_label, reply_label, request_label
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.records.group_record_schemas import GroupMetadataValue
from tests.scenarios.client import Client, shorten
from tests.scenarios.render import span
from tests.scenarios.requests import NEWEST
from tests.scenarios.runner import Story

COORDINATOR: Final = "groupd"
_EVERYBODY: Final = "<everybody>"
_INTRODUCED: Final = ("instance", "session", "rebalance")
_WIDTH: Final = 52
_REMARK_WIDTH: Final = 72


def draw(transcript: Iterable[str], paragraphs: int | None = None) -> list[str]:
    """Return the lines of the diagram of the first `paragraphs` of a transcript; None: of all. Blank lines separate
    paragraphs. Comments become notes, except those before the first command."""
    drawing, comment = Drawing(), list[str]()
    for paragraph in "\n".join(transcript).split("\n\n")[:paragraphs]:
        for line in paragraph.splitlines():
            if line.startswith("#"):
                comment.append(line.lstrip("# "))
            elif line.startswith(">"):
                if comment and drawing.has_begun:
                    drawing.remark(" ".join(comment))
                comment.clear()
                drawing.command(line[1:])
    return drawing.diagram()


class Drawing(Story):
    """A story that records its diagram while it runs."""

    def __init__(self) -> None:
        self._cast: list[str] = []
        self._body: list[str] = []
        self._waiting: set[str] = set()
        self._is_silent = False
        self._drawn_ms = 0
        self._fired: GroupTimerKey | None = None
        self._state: str = EMPTY.value
        super().__init__()

    @property
    def has_begun(self) -> bool:
        """Whether the diagram has a line."""
        return bool(self._body)

    def diagram(self) -> list[str]:
        """Return all lines. The coordinator stands between the clients, so that fewer arrows cross."""
        cast = [self._introduction(name) for name in self._cast]
        cast.insert(max(1, len(cast) // 2), COORDINATOR)
        everybody = f"{self._cast[0]},{self._cast[-1] if len(self._cast) > 1 else COORDINATOR}"
        body = [line.replace(_EVERYBODY, everybody) for line in self._body]
        lines = [*(f"participant {entry}" for entry in cast), *body]
        return ["sequenceDiagram", *(f"    {line}" for line in lines)]

    def remark(self, text: str) -> None:
        """Draw a comment of the transcript over all participants."""
        self._note(_EVERYBODY, [text])

    def begin(self) -> list[str]:
        """Start the coordinator. At a restart waiting clients lose their connection."""
        for name in sorted(self._waiting):
            self._no_longer_waits(name)
        return super().begin()

    def forget(self, words: list[str]) -> list[str]:
        """Restart a client as a new process."""
        self._note(words[0], ["restarts: a new process"])
        return super().forget(words)

    def given(self, words: list[str]) -> list[str]:
        """Draw the initial state of the story as one note."""
        self._is_silent = True
        lines = super().given(words)
        self._is_silent = False
        self._drawn_ms, self._state = self.now_ms, self._group_state()
        metadata = self._metadata()[-1]
        told = [f"{self._state}, generation {metadata.generation}"]
        for member in metadata.members:
            self._cast.append(member.client_id)
            leads = ", leads" if member.member_id == metadata.leader else ""
            told.append(shorten(f"{member.member_id} has {assignment_label(member.assignment)}{leads}"))
        self._note(COORDINATOR, told)
        return lines

    def ask(self, client: Client, message: Request, version: int) -> list[str]:
        """Draw a request and its effects. A bar on the client's line shows its wait."""
        if client.name not in self._cast and not self._is_silent:
            self._cast.append(client.name)
        self._pass_time()
        label = request_label(message, client.member_id, version)
        self._draw(f"{client.name}->>{COORDINATOR}: {_wrapped([label])}")
        place = len(self._body)
        lines = super().ask(client, message, version)
        if self.asked in self.waiters and not self._is_silent:
            self._body.insert(place, f"activate {client.name}")
            self._waiting.add(client.name)
        return lines

    def fire(self, key: GroupTimerKey) -> list[str]:
        """Run a timer; draw it if it has an effect."""
        self._fired = key
        lines = super().fire(key)
        self._fired = None
        return lines

    def follow(self, outcome: Outcome) -> list[str]:
        """Draw the events as a note, then the responses."""
        answers = [(self.waiters[waiter][0], message) for waiter, message in outcome.replies]
        lines = super().follow(outcome)
        told = self._told(outcome)
        if told:
            self._pass_time()
            self._note(COORDINATOR, told)
        for name, message in answers:
            self._draw(f"{COORDINATOR}-->>{name}: {_wrapped([reply_label(message)])}")
            self._no_longer_waits(name)
        return lines

    def _told(self, outcome: Outcome) -> list[str]:
        told = [text for text in map(event_label, outcome.events) if text is not None]
        if told and self._fired is not None:
            whose = f" of {shorten(self._fired.member_id)}" if self._fired.member_id else ""
            told.insert(0, f"the {self._fired.kind.name} timer{whose} fires")
        state = self._group_state()
        if state != self._state:
            told.append(f"{self._state} → {state}")
            self._state = state
        return told + self._awaited(outcome)

    def _awaited(self, outcome: Outcome) -> list[str]:
        """Return the waits of the timers that were set."""
        awaited = []
        is_first = any(
            isinstance(event, RebalanceDelayed)
            or (isinstance(event, RebalanceStarted) and event.state == EMPTY.value)
            for event in outcome.events
        )
        for key, deadline_ms in outcome.timers.items():
            if deadline_ms is None:
                continue
            time = span(deadline_ms - self.now_ms)
            match key.kind:
                case GroupTimerKind.JOIN if is_first:
                    awaited.append(f"waits {time} for others to join")
                case GroupTimerKind.JOIN:
                    awaited.append(f"waits for all to rejoin, {time} at most")
                case GroupTimerKind.SYNC:
                    awaited.append(f"waits for every SyncGroup, {time} at most")
                case GroupTimerKind.HEARTBEAT if any(isinstance(e, MemberIdRequired) for e in outcome.events):
                    awaited.append(shorten(f"keeps the id {key.member_id} for {time}"))
        return awaited

    def _group_state(self) -> str:
        """Return the state of the story's group from ListGroups; Empty before the group exists."""
        outcome = self.shard.handle(ListGroupsRequest(), Context(0, NEWEST["list"], "", ""), self.now())
        ((_, response),) = outcome.replies
        assert isinstance(response, ListGroupsResponse)
        return next((group.group_state for group in response.groups), EMPTY.value)

    def _metadata(self) -> list[GroupMetadataValue]:
        records = [entry[0] for entry in self.log if not isinstance(entry, TransactionMarker)]
        return [record.value for record in records if isinstance(record.value, GroupMetadataValue)]

    def _introduction(self, name: str) -> str:
        options = self.clients[name].options
        told = [f"{key} {options[key]}" for key in _INTRODUCED if key in options]
        return f"{name} as {_wrapped([name, *told])}" if told else name

    def _pass_time(self) -> None:
        if not self._is_silent and self.now_ms != self._drawn_ms:
            self._note(_EVERYBODY, [f"{span(self.now_ms - self._drawn_ms)} later"])
            self._drawn_ms = self.now_ms

    def _no_longer_waits(self, name: str) -> None:
        if name in self._waiting:
            self._waiting.remove(name)
            self._draw(f"deactivate {name}")

    def _note(self, over: str, told: list[str]) -> None:
        if told:
            width = _REMARK_WIDTH if over == _EVERYBODY else _WIDTH
            self._draw(f"Note over {over}: {_wrapped(told, width)}")

    def _draw(self, line: str) -> None:
        if not self._is_silent:
            # Mermaid ends a statement at a semicolon, and takes a number sign for the code of a character.
            self._body.append(line.replace("#", "#35<").replace(";", "#59;").replace("#35<", "#35;"))


def _wrapped(told: Iterable[str], width: int = _WIDTH) -> str:
    return "<br/>".join(line for text in told for line in textwrap.wrap(text, width))
