"""A recording as a test for pytest-groupd: one consumer is real, groupd plays the others in the recorded order, and
the test asserts what the ledger says, without ids and times.

A stand-in does not lead. The real consumer is therefore the one that led the first generation, unless another is
asked for, and it comes first.
"""

from collections.abc import Iterator
from pprint import pformat
from typing import Final, NamedTuple

from coordinator.control.ledger.entry import EntryResult, LedgerEntry
from coordinator.control.replay.cast import Cast
from coordinator.control.replay.changes import BadChange
from coordinator.control.replay.player import Played, Player
from coordinator.control.replay.recorded import BadRecording, Line, Recorded
from coordinator.control.replay.told import Told
from coordinator.group.events import (
    GroupEmptied,
    GroupStabilized,
    MemberExpired,
    MemberJoined,
    MemberLeft,
    RebalanceCompleted,
)
from coordinator.net.peer import printable
from protocol.consumer_protocol import PROTOCOL_TYPE, subscribed_topics
from protocol.malformed import Malformed
from protocol.messages.join_group import JoinGroupRequest

_WIDTH: Final = 100
_TEMPLATE: Final = '''"""What happened in group {title}, from a recording of {inputs} inputs.

{me_title} is a real consumer, groupd plays the others.
"""

from threading import Event, Thread

import pytest
from confluent_kafka import Consumer

GROUP = {group!r}
SHAPE = {shape}
"""Why the group rebalanced: cause, whose doing it was, who was in it then, with which partitions."""


class RealConsumer:
    """Put yours here: it subscribes, polls and is closed."""

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
        """It leaves the group. A second time changes nothing."""
        self._closing.set()
        self._thread.join()


def shape_of(entry):
    """What an entry of the ledger says, without ids and times."""
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


class _Join(NamedTuple):
    """What a client said when it joined."""

    topics: tuple[str, ...]
    assignors: tuple[str, ...]
    session_ms: int


def pytest_text(recorded: Recorded, me: str | None) -> str:
    """The text of the test. In: the client id of the real consumer, None for the first leader. Raises BadRecording
    where the recording has nothing that can be played so; BadChange where `me` is nobody."""
    if recorded.header["start"] != "empty":
        raise BadRecording("such a test begins with a new group, and this recording with one that was there")
    story = _Story(recorded)
    real = story.real_one(me)
    shape = [_shape(entry, story) for entry in story.told.entries() if entry.result in _ENDED]
    join, config = story.joins[real], recorded.header["config"]
    word = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in recorded.group_id)
    steps = [
        f"        {line}"
        for line in (*story.script(real), "assert [shape_of(entry) for entry in group.ledger] == SHAPE")
    ]
    client_id = story.cast.client_id(real)
    return _TEMPLATE.format(
        title=_harmless(recorded.group_id),
        me_title=_harmless(client_id),
        inputs=recorded.inputs,
        group=recorded.group_id,
        me=client_id,
        shape=pformat(shape, width=_WIDTH),
        assignors=",".join(join.assignors),
        session_ms=join.session_ms,
        heartbeat_ms=max(1, join.session_ms // 3),
        my_topics=list(join.topics),
        topics=story.partitions(),
        config={name: str(config[name]) for name in _CONFIG},
        name=word.lower() or "group",
        steps="\n".join(steps),
    )


_CONFIG: Final = ("group.initial.rebalance.delay.ms", "group.min.session.timeout.ms", "group.max.size")
"""The properties that the test sets."""
_ENDED: Final = (EntryResult.STABLE, EntryResult.EMPTY)


class _Story:
    """What the members did, in order: (what, name), with what became of the group in between."""

    def __init__(self, recorded: Recorded) -> None:
        self.cast = Cast()
        self.joins: dict[str, _Join] = {}
        self.acts: list[tuple[str, str, int]] = []
        self.leaders: list[str] = []
        self._player = Player(recorded)
        self.told = Told(self._player)
        for line in recorded.lines:
            sender = self._learn(line)
            played = self._player.play(line)
            self.cast.hear(played)
            self.told.hear(played)
            self._follow(played, sender)
        if not self.joins:
            raise BadRecording("no member of the classic protocol joins in it: there is nothing to play")

    def _learn(self, line: Line) -> str | None:
        """Who sent it."""
        if line.kind not in ("request", "beat") or "body" not in line.said:
            return None
        request = line.value("body")
        name = self.cast.sender(request, line.context)
        if not isinstance(request, JoinGroupRequest) or request.protocol_type != PROTOCOL_TYPE:
            return name
        try:
            topics = tuple(subscribed_topics(request.protocols[0].metadata)) if request.protocols else ()
        except (AttributeError, TypeError):
            # Its fields are not what a request of that name has.
            raise BadRecording(f"input {line.number} is no request that a client sends") from None
        except Malformed:
            return name
        self.joins.setdefault(
            name, _Join(topics, tuple(one.name for one in request.protocols), request.session_timeout_ms)
        )
        return name

    def _follow(self, played: Played, sender: str | None) -> None:
        for event in () if played.outcome is None else played.outcome.events:
            if isinstance(event, MemberJoined) and sender is not None:
                # Its answer may be withheld, and with it the word of which id it got.
                self.cast.learn(event.member.member_id, sender)
            name = None if event.member is None else self.cast.name_of(event.member.member_id)
            match event:
                case MemberJoined() if name in self.joins:
                    self.acts.append(("join", str(name), 0))
                case MemberLeft() if name in self.joins:
                    self.acts.append(("leave", str(name), 0))
                case MemberExpired() if name in self.joins:
                    self.acts.append(("expire", str(name), 0))
                case GroupStabilized():
                    leader = self.cast.name_of(event.leader_id or "")
                    self.leaders += [leader] if leader is not None else []
                case RebalanceCompleted() if event.members:
                    self.acts.append(("stable", "", len(event.members)))
                case GroupEmptied():
                    self.acts.append(("empty", "", 0))

    def real_one(self, me: str | None) -> str:
        """The name of the real consumer."""
        if me is None:
            return next((name for name in self.leaders if name in self.joins), next(iter(self.joins)))
        for name in self.joins:
            if self.cast.client_id(name) == me:
                return name
        known = ", ".join(printable(self.cast.client_id(name)) for name in self.joins)
        raise BadChange(f"nobody in it is called {printable(me)}: there are {known}")

    def script(self, real: str) -> Iterator[str]:
        """The lines of the test."""
        acts, there = list(self.acts), set[str]()
        first = next((place for place, act in enumerate(acts) if act[:2] == ("join", real)), None)
        stable = next((place for place, act in enumerate(acts) if act[0] == "stable"), len(acts))
        if first is not None and 0 < first < stable:
            acts.insert(0, acts.pop(first))
        variables = {name: f"stand_in_{number}" for number, name in enumerate(self.joins, 1)}
        is_initial = self._player.recorded.header["config"]["group.initial.rebalance.delay.ms"] > 0
        for place, (what, name, members) in enumerate(acts):
            is_initial = is_initial and what != "stable"
            variable, client_id = variables.get(name, ""), self.cast.client_id(name) if name else ""
            match what:
                case "join" if name == real:
                    yield "real = RealConsumer(broker.bootstrap)"
                    if acts[place + 1 : place + 2] and acts[place + 1][0] != "stable":
                        # A consumer takes its time, and who comes next comes behind it.
                        awaited = 'state="PreparingRebalance"' if is_initial else f"clients=[{client_id!r}]"
                        yield f'group.wait({awaited}, within="30s")'
                case "join" if name in there:
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
            there.add(name)

    def partitions(self) -> dict[str, int]:
        """The topics that members read, with their partitions."""
        known = self._player.shard.topics.by_name
        wanted = {topic: 1 for join in self.joins.values() for topic in join.topics}
        for entry in self.told.entries():
            for member in entry.members:
                for topic, owned in (member.owned or {}).items():
                    wanted[topic] = max(wanted.get(topic, 1), *(number + 1 for number in owned), 1)
        return {
            topic: known[topic].partitions if topic in known else least for topic, least in wanted.items()
        }


def _shape(entry: LedgerEntry, story: _Story) -> tuple[str, str | None, dict[str, dict[str, list[int]]]]:
    members = {one.client_id: one.owned or {} for one in entry.members if one.gone is None}
    return str(entry.cause), None if entry.actor is None else entry.actor.client_id, members


def _harmless(text: str) -> str:
    """For a docstring."""
    return printable(text).replace("\\", "/").replace('"', "'")
