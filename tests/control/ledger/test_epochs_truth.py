"""The ledger names the cause and the actor of each epoch: members join, leave, die, change subscriptions and
assignors, and keep partitions; topics are created, grow and are deleted. All times are those of the group's
clock."""

import itertools
from collections.abc import Callable
from random import Random
from typing import Final

import pytest

from coordinator.control.ledger.ledger_entry import EntryResult
from coordinator.group.topics_image import TopicImage
from tests.control.ledger.observed_epochs import (
    INTERVAL_MS,
    ORDERS,
    REBALANCE_MS,
    Client,
    ObservedEpochs,
    topic,
)

STEPS: Final = 100
MOST: Final = 5
BEAT_MS: Final = 5_000
SESSION_MS: Final = 45_000
OTHER: Final = "payments"

Truth = tuple[str, str | None]
"""A cause, and the client that caused it."""


class EpochDriver:
    """The members of a group, their next actions, and the expected content of the ledger."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.group = ObservedEpochs()
        self.living: list[Client] = []
        self.by_name: dict[str, TopicImage] = {ORDERS.name: ORDERS}
        self._numbers = itertools.count(1)
        self._topic_ids = itertools.count(2)
        self._prefers = "uniform"
        self.told: list[Truth] = []

    def possible(self) -> list[Callable[[], Truth]]:
        """What may be done now. Each does it."""
        acts: list[Callable[[], Truth]] = []
        if len(self.living) < MOST:
            acts += [self.join, self.join]
        if len(self.living) > 1:
            acts += [self.leave, self.die, self.expire, self.subscribe, self.restart]
        if len(self.living) == 2 and not any(client.instance for client in self.living):
            acts.append(self.keep)
        if self.living:
            acts += [self.grow, self.assign]
            if any(OTHER in (client.names or ()) for client in self.living):
                acts.append(self.delete if OTHER in self.by_name else self.create)
        return acts

    def join(self) -> Truth:
        name = f"client-{next(self._numbers)}"
        instance = f"{name}-instance" if self.random.random() < 0.4 else None
        self.living.append(Client(name, instance=instance, assignor=self._prefers))
        return "member joined", name

    def leave(self) -> Truth:
        client = self._taken()
        client.leave(self.group)
        return "member left", client.name

    def die(self) -> Truth:
        client = self._taken()
        for _ in range(SESSION_MS // BEAT_MS):
            self._beat()
            self.group.advance(BEAT_MS)
        return "session expired", client.name

    def expire(self) -> Truth:
        """A static one goes for a while, and is not back in time."""
        client = self.random.choice(self.living)
        if client.instance is None:
            return self.die()
        self.living.remove(client)
        client.leave(self.group, epoch=-2)
        for _ in range(SESSION_MS // BEAT_MS):
            self._beat()
            self.group.advance(BEAT_MS)
        return "session expired", client.name

    def keep(self) -> Truth:
        """One of two members does not revoke the partitions that the target gives to a third member."""
        keeper, other = self.living
        keeper.keeps = other.keeps = True
        third = self.join()[1]
        newcomer = self.living[-1]
        newcomer.step(self.group)
        self.group.advance(INTERVAL_MS)
        other.keeps = False
        for _ in range(REBALANCE_MS // BEAT_MS):
            self._beat()
            self.group.advance(BEAT_MS)
        self.told.append(("member joined", third))
        self.living.remove(keeper)
        return "rebalance timeout", keeper.name

    def subscribe(self) -> Truth:
        client = self.random.choice(self.living)
        _turn_to_other(client)
        client.step(self.group)
        return "subscription changed", client.name

    def restart(self) -> Truth:
        """A static one is back under another id, and reads something else."""
        static = [client for client in self.living if client.instance is not None]
        if not static:
            return self.subscribe()
        client = self.random.choice(static)
        client.leave(self.group, epoch=-2)
        client.member_id, client.epoch, client.owned = f"{client.name}-{next(self._numbers)}", 0, {}
        _turn_to_other(client)
        client.step(self.group)
        return "static member replaced", client.name

    def assign(self) -> Truth:
        """All prefer another assignor, one after the other: one of them turns the scale, or several where as many
        want this one as that."""
        self._prefers = "range" if self._prefers == "uniform" else "uniform"
        turned: list[Truth] = []
        for client in self.living:
            before = len(self.group.entries())
            client.assignor = self._prefers
            client.step(self.group)
            if len(self.group.entries()) > before:
                turned.append(("assignor changed", client.name))
        self.told += turned[:-1]
        return turned[-1]

    def grow(self) -> Truth:
        old = self.by_name[ORDERS.name]
        self._topics_are(old._replace(partitions=old.partitions + 1))
        return "topic grew", None

    def create(self) -> Truth:
        self._topics_are(topic(OTHER, next(self._topic_ids), 2))
        return "topic created", None

    def delete(self) -> Truth:
        del self.by_name[OTHER]
        self.group.topics_are(*self.by_name.values())
        return "topic deleted", None

    def settle(self) -> None:
        """Until the group is Stable, or empty."""
        if self.living:
            self.group.settle(*self.living)

    def _topics_are(self, changed: TopicImage) -> None:
        self.by_name[changed.name] = changed
        self.group.topics_are(*self.by_name.values())

    def _beat(self) -> None:
        for client in self.living:
            client.step(self.group)

    def _taken(self) -> Client:
        client = self.random.choice(self.living)
        self.living.remove(client)
        return client


def _turn_to_other(client: Client) -> None:
    """It reads both topics, or only the first again."""
    is_both = OTHER in (client.names or ())
    client.names = (ORDERS.name,) if is_both else (ORDERS.name, OTHER)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_each_entry_has_the_cause_and_the_actor_that_were_chosen(seed: int) -> None:
    driver = EpochDriver(seed)
    after = -1
    for step in range(STEPS):
        driver.told.clear()
        driver.told.append(driver.random.choice(driver.possible())())
        driver.settle()
        entries = driver.group.entries(after)
        said = [(one.cause, None if one.actor is None else one.actor.client_id) for one in entries]
        assert said == driver.told, f"step {step}"
        assert entries[-1].result in (EntryResult.STABLE, EntryResult.EMPTY), f"step {step}"
        owned = [name for one in entries[-1].members for name in one.owned or ()]
        assert bool(owned) == bool(driver.living), f"step {step}"
        after = entries[-1].seq
