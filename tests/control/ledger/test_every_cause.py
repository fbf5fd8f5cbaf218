"""Two hundred random events of a group: each entry names the cause and the actor."""

from collections import Counter
from random import Random

import pytest

from coordinator.control.ledger.ledger_entry import EntryResult
from coordinator.group.event_details import RebalanceCause
from protocol.messages.leave_group import MemberIdentity
from tests.control.ledger.observed_coordinator import SUBSCRIPTION, ObservedCoordinator, story_of
from tests.group.config import group_config

STEPS = 200
SESSION_MS = 10_000
MOST_MEMBERS = 10
Expected = tuple[RebalanceCause, str]
"""The cause and the actor's client."""


class Driver:
    """Perform an action on a group; return the rebalances that it must cause."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.group = ObservedCoordinator(group_config(group_initial_rebalance_delay_ms=0))
        self._names = 0

    def new_name(self) -> str:
        self._names += 1
        return f"client{self._names}"

    def any_member(self) -> str:
        return self.random.choice(list(self.group.member_ids))

    def step(self) -> list[Expected]:
        """One of them; the group is Stable, or Empty, before and after."""
        group = self.group
        if len(group.member_ids) < 2:
            return self.joins()
        if len(group.member_ids) > MOST_MEMBERS:
            return self.random.choice([self.is_killed, self.leaves])()
        actions = [
            self.joins, self.joins, self.joins_static, self.is_killed, self.leaves, self.changes_subscription,
            self.leader_rejoins, self.restarts_static, self.restarts_static_in_sync_phase, self.joins_in_sync_phase,
            self.is_killed_in_join_phase, self.never_syncs,
        ]  # fmt: skip
        return self.random.choice(actions)()

    def joins(self, instance: str | None = None) -> list[Expected]:
        name = self.new_name()
        self.group.come(name, instance=instance and f"{instance}-{name}")
        self.group.settle()
        return [(RebalanceCause.MEMBER_JOINED, name)]

    def joins_static(self) -> list[Expected]:
        return self.joins("instance")

    def is_killed(self) -> list[Expected]:
        name = self.any_member()
        others = [other for other in self.group.member_ids if other != name]
        self.group.beat(name)
        while self.group.state() == "Stable":
            self.group.beat(*others)
            self.group.advance(SESSION_MS // 4)
        self.group.part(name)
        self.group.settle()
        return [(RebalanceCause.SESSION_EXPIRED, name)]

    def leaves(self) -> list[Expected]:
        name = self.any_member()
        identity = MemberIdentity(
            member_id=self.group.member_ids[name], group_instance_id=self.group.instances[name]
        )
        self.group.leave(identity)
        self.group.part(name)
        self.group.settle()
        return [(RebalanceCause.MEMBER_LEFT, name)]

    def changes_subscription(self) -> list[Expected]:
        name = self.any_member()
        leads = name == self.group.leader
        self.group.subscriptions[name] = SUBSCRIPTION + bytes([self.random.randrange(1, 256)] * 3)
        self.group.rejoin(name)
        if self.group.state() == "Stable":
            return []  # it drew the same again
        self.group.settle()
        return [(RebalanceCause.LEADER_REJOINED if leads else RebalanceCause.METADATA_CHANGED, name)]

    def leader_rejoins(self) -> list[Expected]:
        name = self.group.leader
        self.group.rejoin(name)
        self.group.settle()
        return [(RebalanceCause.LEADER_REJOINED, name)]

    def _any_static(self) -> str | None:
        static = [name for name, instance in self.group.instances.items() if instance is not None]
        return self.random.choice(static) if static else None

    def restarts_static(self) -> list[Expected]:
        """Restart a static member. It has no effect, which is the purpose of static members."""
        name = self._any_static()
        if name is not None:
            self.group.come(name, instance=self.group.instances[name])
        return []

    def _opens_sync_phase(self) -> Expected:
        name = self.new_name()
        self.group.come(name)
        names = [other for other in self.group.member_ids if other != name]
        self.group.rejoin(*names)
        assert self.group.state() == "CompletingRebalance"
        return (RebalanceCause.MEMBER_JOINED, name)

    def restarts_static_in_sync_phase(self) -> list[Expected]:
        name = self._any_static()
        if name is None:
            return []
        first = self._opens_sync_phase()
        self.group.come(name, instance=self.group.instances[name])
        self.group.settle()
        return [first, (RebalanceCause.STATIC_MEMBER_REPLACED, name)]

    def joins_in_sync_phase(self) -> list[Expected]:
        first = self._opens_sync_phase()
        if self.random.random() < 0.5:
            self.group.ask(next(name for name in self.group.member_ids if name != self.group.leader))
        return [first, *self.joins()]

    def is_killed_in_join_phase(self) -> list[Expected]:
        """The member does not rejoin, which causes no rebalance of its own."""
        name = self.new_name()
        dynamic = [one for one, instance in self.group.instances.items() if instance is None]
        self.group.come(name)
        if dynamic:
            dead = self.random.choice(dynamic)
            others = [one for one in self.group.member_ids if one not in (dead, name)]
            self.group.rejoin(*others)
            beats = [dead] if self.random.random() < 0.5 else []
            while self.group.state() == "PreparingRebalance":
                self.group.beat(*beats)
                self.group.advance(SESSION_MS // 4)
            self.group.part(dead)
            self.group.settle()
            gone = "did not rejoin" if beats else "session expired"
            assert story_of(self.group.last, dead).gone == gone
        else:
            self.group.settle()
        return [(RebalanceCause.MEMBER_JOINED, name)]

    def never_syncs(self) -> list[Expected]:
        first = self._opens_sync_phase()
        leader = self.group.leader
        silent = next(name for name in self.group.member_ids if name != leader)
        self.group.lead()
        others = [name for name in self.group.member_ids if name not in (leader, silent)]
        self.group.ask(*others)
        while self.group.state() == "Stable":
            self.group.beat(*self.group.member_ids)
            self.group.advance(5_000)
        self.group.part(silent)
        self.group.settle()
        return [first, (RebalanceCause.SYNC_EXPIRED, silent)]


@pytest.mark.parametrize("seed", range(3))
def test_every_entry_names_the_cause_and_the_actor(seed: int) -> None:
    driver = Driver(seed)
    expected: list[Expected] = []
    for _ in range(STEPS):
        expected += driver.step()
        driver.group.advance(driver.random.randrange(100))
    entries = driver.group.entries
    named = [(entry.cause, entry.actor and entry.actor.client_id) for entry in entries]
    assert named == [(cause.value, name) for cause, name in expected]
    metrics = driver.group.metrics
    assert Counter(entry.cause for entry in entries) == metrics.rebalances
    stable = [entry for entry in entries if entry.result is EntryResult.STABLE]
    assert len(stable) == metrics.completed_rebalances
    assert not [entry for entry in entries if entry.result is EntryResult.OPEN]
    generations = [entry.generation_id for entry in entries]
    assert generations == list(range(1, len(entries) + 1))
    assert [entry.seq for entry in entries] == sorted({entry.seq for entry in entries})
    for entry in stable:
        owners = [name for story in entry.members for name in _owned(story.owned)]
        assert sorted(owners) == [f"orders-{number}" for number in range(6)]
        assert not entry.unowned
    # The driver used every action.
    assert {cause for cause, _ in expected} == set(RebalanceCause) - {
        RebalanceCause.OVER_CAPACITY,
        RebalanceCause.ASSIGNMENT_TOO_LARGE,
    }


def _owned(owned: dict[str, list[int]] | None) -> list[str]:
    return [f"{topic}-{number}" for topic, numbers in (owned or {}).items() for number in numbers]
