"""The ledger names each action and its actor: members of several clients join, leave, die and change subscriptions.

GROUPD_LEDGER_STEPS=200 runs longer; GROUPD_LEDGER_SEED=7 runs other actions."""

import itertools
import os
from collections.abc import Callable
from random import Random
from typing import Final

import pytest

from tests.interop.broker import Broker
from tests.interop.conftest import command_of
from tests.interop.control_room import ControlRoom
from tests.interop.crew import DEFAULT_SESSION_MS, REBALANCE_MS, seen_gone
from tests.interop.driver import DRIVERS
from tests.interop.group import Group
from tests.interop.member import Board, Member

STEPS: Final = int(os.environ.get("GROUPD_LEDGER_STEPS", "30"))
SEED: Final = int(os.environ.get("GROUPD_LEDGER_SEED", "15"))
STEP_LIMIT_S: Final = 20
HEARTBEAT_MS: Final = 100
PARTITIONS: Final = 6
SMALLEST, LARGEST = 2, 5
MIXED: Final = ("confluent", "aiokafka", "java", "franz_go")
"""They can share a group. kafkajs has assignors of its own; kafka-python as a leader can assign before it knows the
topic, and then joins again by itself."""
CHANGING: Final = "confluent"
"""What it does about a subscription that changes is one JoinGroup."""

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(120 + STEPS * STEP_LIMIT_S),
    pytest.mark.violates("flapping"),
]


class Cast:
    """The members of a group, their next actions, and the expected content of the ledger."""

    def __init__(self, broker: Broker, name: str, topics: tuple[str, str], board: Board) -> None:
        self.board = board
        self.topics = topics
        self.room = ControlRoom(broker, name)
        self.random = Random(SEED)
        self.living: dict[str, Member] = {}
        self._subscribed: dict[str, bool] = {}
        """To both topics, or only to the first."""
        self._numbers = itertools.count(1)
        self._groups: dict[str, Group] = {}
        for driver in DRIVERS:
            if driver.name in MIXED:
                group = Group(broker, driver, command_of(driver), name, board)
                group.assignor = "range"
                group.session_timeout_ms, group.rebalance_timeout_ms = DEFAULT_SESSION_MS, REBALANCE_MS
                group.heartbeat_ms = HEARTBEAT_MS
                self._groups[driver.name] = group

    def possible(self) -> list[Callable[[], tuple[str, str]]]:
        """What may be done now. Each: does it, out: the cause and the client that the ledger has to name."""
        count = len(self.living)
        acts: list[Callable[[], tuple[str, str]]] = []
        if count < LARGEST:
            acts += [self.join, self.join]
        if count > SMALLEST:
            acts += [self.kill, self.leave]
        if self._changeable():
            acts.append(self.change)
        return acts

    def join(self) -> tuple[str, str]:
        """Somebody new."""
        driver = self.random.choice(sorted(self._groups))
        name = f"{driver}-{next(self._numbers)}"
        self.living[name] = self._groups[driver].join(self.topics[0], client_id=name)
        self._subscribed[name] = False
        return "member joined", name

    def kill(self) -> tuple[str, str]:
        """Somebody dies, and 45 s pass."""
        name, member = self._taken()
        member.kill()
        seen_gone(self.room, name)
        self.room.post("/clock/advance", by=f"{DEFAULT_SESSION_MS}ms")
        return "session expired", name

    def leave(self) -> tuple[str, str]:
        """A member leaves."""
        name, member = self._taken()
        member.leave()
        return "member left", name

    def change(self) -> tuple[str, str]:
        """Somebody subscribes to the other topic too, or no more."""
        name = self.random.choice(self._changeable())
        both = self._subscribed[name] = not self._subscribed[name]
        self.living[name].say(f"subscribe {','.join(self.topics if both else self.topics[:1])}")
        return self.cause_of_change(name), name

    def cause_of_change(self, name: str) -> str:
        """A leader may always ask for a new assignment, which is a cause of its own."""
        leader = next(one["client_id"] for one in self.room.describe()["members"] if one["is_leader"])
        return "leader rejoined" if leader == name else "metadata changed"

    def owned(self) -> list[str]:
        """Return the topics with subscribers."""
        return list(self.topics if any(self._subscribed.values()) else self.topics[:1])

    def _changeable(self) -> list[str]:
        return sorted(name for name in self.living if name.startswith(CHANGING))

    def _taken(self) -> tuple[str, Member]:
        name = self.random.choice(sorted(self.living))
        del self._subscribed[name]
        return name, self.living.pop(name)


@pytest.fixture
def cast(broker: Broker, group_name: str, topic: str, board: Board) -> Cast:
    topics = (f"{topic}.a", f"{topic}.b")
    cast = Cast(broker, group_name, topics, board)
    for name in topics:
        broker.create_topic(name, PARTITIONS)
    return cast


def test_each_entry_has_the_cause_and_the_actor_that_were_chosen(cast: Cast) -> None:
    after = -1
    callbacks: list[tuple[str, str]] = []
    for step in range(STEPS):
        act = cast.random.choice(cast.possible())
        cause, name = act()
        callbacks.append((cause, name))
        seq = cast.room.wait(
            state="Stable",
            members=len(cast.living),
            clients=sorted(cast.living),
            owned=cast.owned(),
            rebalanced={"cause": cause, "client": name},
            after=after,
        )
        entries = cast.room.entries(after)
        said = [(entry["cause"], entry["actor"]["client_id"]) for entry in entries]
        assert said == [(cause, name)], f"step {step} of {callbacks}\n{entries}\n{cast.board.report()}"
        (entry,) = entries
        stories = {story["client_id"]: story for story in entry["members"]}
        assert set(stories) == {*cast.living, name}
        assert (stories[name]["gone"] is None) == (name in cast.living), stories[name]
        after = seq
