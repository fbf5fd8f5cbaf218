"""The same request from a client with more and more permissions, and its rejections."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.oracle.play import Play, Topic
from tests.oracle.rights import grant, revoke
from tests.oracle.secured import enter

NAMES: Final = ("secret", "orders", "hidden")
"""Topics, groups and transactional ids of requests.

The client first gets permissions for the second name, so that its position in a response shows the position of
rejected names. Kafka often orders rejected names by a hash map.
"""
CLIENT: Final = "alice"
ONE: Final = "one"
"""The step at which one of three is allowed."""


@dataclass
class Stage:
    """The data from which a session builds its requests."""

    play: Play
    version: int
    topics: list[Topic] = field(default_factory=list)
    """With the names `NAMES`, where there are any."""

    @property
    def names(self) -> list[str]:
        """`NAMES` on the wire."""
        return [self.play.name(name) for name in NAMES]

    @property
    def name(self) -> str:
        """The one of these that a client may have first."""
        return self.play.name(NAMES[1])


@dataclass(frozen=True)
class Guarded:
    """One request type in some versions, with the permissions that a client gets step by step."""

    versions: tuple[int, ...]
    """The lowest and highest version and some between, of Apache Kafka 4.4."""
    request: Callable[[Stage], Any]
    steps: Mapping[str, tuple[str, ...]]
    order: Callable[[Any], Iterable[str | bytes | None]] | None = None
    """The names or topic ids in an answer about several."""
    own: bool = False
    """Whether the request lists all objects."""
    has_topics: bool = True
    prepare: Callable[[Stage], None] | None = None


def of_each(operation: str, kind: str = "TOPIC") -> dict[str, tuple[str, ...]]:
    """First a right on one of three, then on the others."""
    first, one, last = (f"{operation} {kind} {name}" for name in NAMES)
    return {ONE: (one,), "all": (first, last)}


def cases(table: Mapping[str, Guarded]) -> list[str]:
    """What sessions are about: `Fetch-v12`."""
    return [f"{name}-v{version}" for name, each in table.items() for version in each.versions]


def play_guarded(play: Play, table: Mapping[str, Guarded], case: str) -> None:
    """Asks without any right, after every step, and when all rights are taken away again."""
    name, _, version = case.rpartition("-v")
    guarded, stage = table[name], Stage(play, int(version))
    if guarded.has_topics:
        stage.topics = [play.topic(short, 1) for short in NAMES]
    if guarded.prepare is not None:
        with play.quietly():
            guarded.prepare(stage)
    enter(play, CLIENT)
    _ask(stage, guarded, "nothing")
    for note, rights in guarded.steps.items():
        grant(play, CLIENT, *rights)
        _ask(stage, guarded, note)
    revoke(play, CLIENT)
    _ask(stage, guarded, "nothing again")


def _ask(stage: Stage, guarded: Guarded, note: str) -> None:
    play = stage.play
    answer = play.ask(guarded.request(stage), stage.version, CLIENT, note, guarded.own)
    if guarded.order is not None and note == ONE:
        allowed = (stage.name, *(topic.id for topic in stage.topics[1:2]))
        play.tell("the place of the one", [each in allowed for each in guarded.order(answer)].index(True))
