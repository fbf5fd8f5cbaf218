"""Exports a recording as a test for pytest-groupd.

In the test one consumer is real, and groupd plays the others in the recorded order. The test asserts the
content of the ledger, without ids and times. A stand-in does not lead. So the real consumer is the leader of
the first generation, unless another one is chosen, and it joins first.
"""

from collections.abc import Iterator
from pprint import pformat
from typing import Final, NamedTuple

from coordinator.control.ledger.ledger_entry import EntryResult, LedgerEntry
from coordinator.control.replay.client_names import ClientNames
from coordinator.control.replay.recording_file import BadRecording, RecordingFile, RecordingLine
from coordinator.control.replay.recording_player import PlayedInput, RecordingPlayer
from coordinator.control.replay.replay_diagnosis import ReplayLedger
from coordinator.control.replay.what_if import InvalidChange
from coordinator.core.message_text import printable
from coordinator.group.group_event_types import (
    GroupEmptied,
    GroupStabilized,
    MemberExpired,
    MemberJoined,
    MemberLeft,
    RebalanceCompleted,
)
from protocol.consumer_protocol import PROTOCOL_TYPE, find_subscribed_topics
from protocol.messages.join_group import JoinGroupRequest
from protocol.primitives import Malformed

_WIDTH: Final = 100
_TEMPLATE: Final = '''"""Replays group {title}, from a recording of {inputs} inputs.

{me_title} is a real consumer, groupd plays the others.
"""

from threading import Event, Thread

import pytest
from confluent_kafka import Consumer

GROUP = {group!r}
SHAPE = {shape}
"""The rebalances: the cause, the client that caused it, and the members with their partitions."""


class RealConsumer:
    """Replace it by your consumer, which subscribes, polls and closes."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer(
            {{
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "client.id": {me!r},
                "partition.assignment.strategy": {assignors!r},
                "session.timeout.ms": {session_ms},
                "heartbeat.interval.ms": {heartbeat_ms},
            }}
        )
        self._consumer.subscribe({my_topics!r})
        self._closing = Event()
        self._thread = Thread(target=self._poll)
        self._thread.start()

    def _poll(self) -> None:
        while not self._closing.is_set():
            self._consumer.poll(0.1)
        self._consumer.close()

    def close(self) -> None:
        """Leave the group. A second call changes nothing."""
        self._closing.set()
        self._thread.join()


def shape_of(entry):
    """Return the content of a ledger entry without ids and times."""
    members = {{one.client_id: dict(one.owned or {{}}) for one in entry.members if one.gone is None}}
    return entry.cause, entry.actor.client_id if entry.actor else None, members


@pytest.mark.groupd(topics={topics!r}, config={config!r})
def test_{name}(broker):
    group = broker.group(GROUP)
    real = None
    try:
{steps}
    finally:
        if real is not None:
            real.close()
'''


class _JoinSettings(NamedTuple):
    """The JoinGroup fields of a client."""

    topics: tuple[str, ...]
    assignors: tuple[str, ...]
    session_ms: int


def format_pytest(recorded: RecordingFile, me: str | None) -> str:
    """Return the text of the test. `me` is the client id of the real consumer, or None for the first leader.

    Raises BadRecording if the recording has nothing to play, and InvalidChange if `me` is unknown.
    """
    if recorded.header["start"] != "empty":
        raise BadRecording(
            "a test needs a recording that begins with a new group; this one begins with an existing group"
        )
    story = _TestStory(recorded)
    real = story.choose_real_client(me)
    shape = [_build_shape(entry, story) for entry in story.ledger.list_entries() if entry.result in _ENDED]
    join, config = story.joins[real], recorded.header["config"]
    word = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in recorded.group_id)
    steps = [
        f"        {line}"
        for line in (*story.write_steps(real), "assert [shape_of(entry) for entry in group.ledger] == SHAPE")
    ]
    client_id = story.client_names.find_client_id(real)
    return _TEMPLATE.format(
        title=_escape_docstring(recorded.group_id),
        me_title=_escape_docstring(client_id),
        inputs=recorded.inputs,
        group=recorded.group_id,
        me=client_id,
        shape=pformat(shape, width=_WIDTH),
        assignors=",".join(join.assignors),
        session_ms=join.session_ms,
        heartbeat_ms=max(1, join.session_ms // 3),
        my_topics=list(join.topics),
        topics=story.count_partitions(),
        config={name: str(config[name]) for name in _CONFIG},
        name=word.lower() or "group",
        steps="\n".join(steps),
    )


_CONFIG: Final = ("group.initial.rebalance.delay.ms", "group.min.session.timeout.ms", "group.max.size")
"""The properties that the test sets."""
_ENDED: Final = (EntryResult.STABLE, EntryResult.EMPTY)


class _TestStory:
    """The actions of the members in order (action, name), with the rebalances between them."""

    def __init__(self, recorded: RecordingFile) -> None:
        self.client_names = ClientNames()
        self.joins: dict[str, _JoinSettings] = {}
        self.actions: list[tuple[str, str, int]] = []
        self.leaders: list[str] = []
        self._player = RecordingPlayer(recorded)
        self.ledger = ReplayLedger(self._player)
        for line in recorded.lines:
            sender = self._name_sender(line)
            played = self._player.play_line(line)
            self.client_names.on_played(played)
            self.ledger.on_step(played)
            self._record_actions(played, sender)
        if not self.joins:
            raise BadRecording(
                "the recording has no JoinGroup of a classic member, so there is nothing to play"
            )

    def _name_sender(self, line: RecordingLine) -> str | None:
        """Return the name of the sender."""
        if line.kind not in ("request", "beat") or "body" not in line.fields:
            return None
        request = line.decode_field("body")
        name = self.client_names.name_sender(request, line.context)
        if not isinstance(request, JoinGroupRequest) or request.protocol_type != PROTOCOL_TYPE:
            return name
        try:
            topics = tuple(find_subscribed_topics(request.protocols[0].metadata)) if request.protocols else ()
        except (AttributeError, TypeError):
            # The line has fields that a request of this type cannot have.
            raise BadRecording(f"input {line.number} is not a client request") from None
        except Malformed:
            return name
        self.joins.setdefault(
            name,
            _JoinSettings(topics, tuple(one.name for one in request.protocols), request.session_timeout_ms),
        )
        return name

    def _record_actions(self, played: PlayedInput, sender: str | None) -> None:
        for event in () if played.outcome is None else played.outcome.events:
            if isinstance(event, MemberJoined) and sender is not None:
                # The response with the member id may never be sent, so the id is learned from the event.
                self.client_names.add_member_id(event.member.member_id, sender)
            name = None if event.member is None else self.client_names.find_name(event.member.member_id)
            match event:
                case MemberJoined() if name in self.joins:
                    self.actions.append(("join", str(name), 0))
                case MemberLeft() if name in self.joins:
                    self.actions.append(("leave", str(name), 0))
                case MemberExpired() if name in self.joins:
                    self.actions.append(("expire", str(name), 0))
                case GroupStabilized():
                    leader = self.client_names.find_name(event.leader_id or "")
                    self.leaders += [leader] if leader is not None else []
                case RebalanceCompleted() if event.members:
                    self.actions.append(("stable", "", len(event.members)))
                case GroupEmptied():
                    self.actions.append(("empty", "", 0))

    def choose_real_client(self, me: str | None) -> str:
        """Return the name of the client that is the real consumer. Raises InvalidChange for an unknown `me`."""
        if me is None:
            return next((name for name in self.leaders if name in self.joins), next(iter(self.joins)))
        for name in self.joins:
            if self.client_names.find_client_id(name) == me:
                return name
        known = ", ".join(printable(self.client_names.find_client_id(name)) for name in self.joins)
        raise InvalidChange(f"client {printable(me)} is not in the recording. Its clients are {known}")

    def write_steps(self, real: str) -> Iterator[str]:
        """Yield the lines of the test."""
        actions, started = list(self.actions), set[str]()
        first = next((place for place, action in enumerate(actions) if action[:2] == ("join", real)), None)
        stable = next((place for place, action in enumerate(actions) if action[0] == "stable"), len(actions))
        if first is not None and 0 < first < stable:
            actions.insert(0, actions.pop(first))
        variables = {name: f"stand_in_{number}" for number, name in enumerate(self.joins, 1)}
        is_initial = self._player.recorded.header["config"]["group.initial.rebalance.delay.ms"] > 0
        for place, (what, name, members) in enumerate(actions):
            is_initial = is_initial and what != "stable"
            variable, client_id = (
                variables.get(name, ""),
                self.client_names.find_client_id(name) if name else "",
            )
            match what:
                case "join" if name == real:
                    yield "real = RealConsumer(broker.bootstrap)"
                    if actions[place + 1 : place + 2] and actions[place + 1][0] != "stable":
                        # A consumer needs time to join, so the next member must wait for it.
                        awaited = 'state="PreparingRebalance"' if is_initial else f"clients=[{client_id!r}]"
                        yield f'group.wait({awaited}, within="30s")'
                case "join" if name in started:
                    yield f"{variable}.rejoin()"
                case "join":
                    topics = list(self.joins[name].topics)
                    yield f"{variable} = group.stand_in({client_id!r}, topics={topics!r})"
                case "leave":
                    yield "real.close()" if name == real else f"{variable}.leave()"
                case "expire":
                    if name != real:
                        yield f"{variable}.stall()"
                    yield f"group.member({client_id!r}).expire()"
                case "stable":
                    yield f'group.wait(state="Stable", members={members}, within="30s")'
                case "empty":
                    yield 'group.wait(state="Empty", within="30s")'
            started.add(name)

    def count_partitions(self) -> dict[str, int]:
        """Return the topics to which members subscribe, with their numbers of partitions."""
        known = self._player.shard.topics.by_name
        wanted = {topic: 1 for join in self.joins.values() for topic in join.topics}
        for entry in self.ledger.list_entries():
            for member in entry.members:
                for topic, owned in (member.owned or {}).items():
                    wanted[topic] = max(wanted.get(topic, 1), *(number + 1 for number in owned), 1)
        return {
            topic: known[topic].partitions if topic in known else least for topic, least in wanted.items()
        }


def _build_shape(
    entry: LedgerEntry, story: _TestStory
) -> tuple[str, str | None, dict[str, dict[str, list[int]]]]:
    members = {one.client_id: one.owned or {} for one in entry.members if one.gone is None}
    return str(entry.cause), None if entry.actor is None else entry.actor.client_id, members


def _escape_docstring(text: str) -> str:
    """Escape text for a docstring."""
    return printable(text).replace("\\", "/").replace('"', "'")
