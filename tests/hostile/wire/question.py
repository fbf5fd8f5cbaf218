"""A request, and the check of its response."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any, Final

from protocol.apis import APIS
from protocol.schema import message_info
from tests.hostile.wire.reading import Reading

TOPICS: Final = {"orders": 3, "payments": 2}
GROUPS: Final = ("red", "green", "blue")
"""Of consumers. They are never deleted, so that their generations never begin again."""
SIMPLE_GROUPS: Final = ("tool", "script")
"""Groups of clients that commit without membership. They are deleted from time to time."""


@dataclass(eq=False)
class Member:
    """The identity of a member. Any connection may use it."""

    group_id: str
    member_id: str
    generation_id: int = -1
    members: list[str] = field(default_factory=list)
    """Of the generation, where this one leads it."""


@dataclass
class Stage:
    """What the players of one play share."""

    chance: Random
    reading: Reading = field(default_factory=Reading)
    members: list[Member] = field(default_factory=list)
    offsets: Iterator[int] = field(default_factory=count)

    def some_member(self) -> Member:
        """Return a known member, mostly a recent one, or an invented one."""
        if self.members and self.chance.random() < 0.95:
            return self.chance.choice(self.members[-12:])
        return Member(self.chance.choice(GROUPS), f"nobody-{self.chance.randrange(100)}", 1)


@dataclass
class Question:
    """A request in one version. `ask` is called as it is sent, `hear` with the answer."""

    request: Any
    version: int
    hear: Callable[[Any], None]


def some_version(chance: Random, request: type[Any], first: int = 0) -> int:
    """A version that is served, from `first` on; the lowest and the newest more often."""
    served = APIS[message_info(request).api_key].versions
    return chance.choice(
        (max(first, served.first), served.last, chance.randint(max(first, served.first), served.last))
    )


def ignore(answer: Any) -> None:
    """Ignore the content of the response."""
