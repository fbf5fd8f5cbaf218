"""The consumer-group checks detect a single planted fault in the core.

Each fault is a realistic mistake. A check that detects none of them is useless.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from coordinator.core.outcome import NO_PRODUCER_ID, Context, Fact, Now, Outcome
from coordinator.group import group_shard
from coordinator.group.consumer import (
    classic_member_requests,
    consumer_group,
    consumer_heartbeat,
    pending_update,
    reconciliation,
)
from coordinator.group.consumer.target_assignment import TARGET_WORK
from coordinator.group.group_requests import EndTransaction, GroupTimerKind, Request
from coordinator.group.group_shard import WORK_RESULT_HANDLERS, GroupShard
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from protocol.records.group_record_schemas import ConsumerGroupRegularExpressionKey
from tests.simulation.consumers.run import ConsumerSimulation
from tests.simulation.planted_faults import find_violation
from tests.simulation.test_mutations import Mutant

SEEDS = 40
STEPS = 400


class TellsOldEpochs(Mutant):
    def spoil(self, outcome: Outcome, request: object) -> Outcome:
        for waiter, message in outcome.replies:
            if isinstance(message, ConsumerGroupHeartbeatResponse) and message.member_epoch > 2:
                message.member_epoch -= waiter % 3
        return outcome


class DropsRecords(Mutant):
    def spoil(self, outcome: Outcome, request: object) -> Outcome:
        return structs.replace(outcome, records=outcome.records[:-1])


class ForgetsSessions(Mutant):
    """Members without heartbeats do not expire."""

    def spoil(self, outcome: Outcome, request: object) -> Outcome:
        timers = {
            key: at for key, at in outcome.timers.items() if key.kind is not GroupTimerKind.CONSUMER_SESSION
        }
        return structs.replace(outcome, timers=timers)


class LoadsNoRegexes(Mutant):
    def replay(self, record: Fact, producer_id: int = NO_PRODUCER_ID) -> None:
        if not isinstance(record.key, ConsumerGroupRegularExpressionKey):
            super().replay(record, producer_id)


class ShowsWhatIsPending(Mutant):
    """Offsets of a transaction are committed at once."""

    def spoil(self, outcome: Outcome, request: object) -> Outcome:
        return structs.replace(outcome, in_transaction=None)

    def handle(self, request: Request, context: Context, now: Now) -> Outcome:
        outcome = super().handle(request, context, now)
        if isinstance(request, TxnOffsetCommitRequest):
            self.end_transaction(request.producer_id, is_committed=True)
        return outcome


class ForgetsTransactions(Mutant):
    """The marker of a committed transaction drops its offsets."""

    def handle(self, request: Request, context: Context, now: Now) -> Outcome:
        if isinstance(request, EndTransaction):
            request = structs.replace(request, is_committed=False)
        return super().handle(request, context, now)


class LoadsNoMarkers(Mutant):
    """After a reload the offsets of a committed transaction are pending again."""

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        pass


class ForgetsWork(Mutant):
    """The core never computes a requested target."""

    def spoil(self, outcome: Outcome, request: object) -> Outcome:
        return structs.replace(outcome, work=[])


def finding(shard: Callable[..., GroupShard] = GroupShard, first_seed: int = 0) -> str:
    """Return the checker's report on the first run that breaks a rule."""
    return find_violation(lambda seed: ConsumerSimulation(seed, shard).run(STEPS), SEEDS, first_seed)


@pytest.mark.parametrize(
    ("mutant", "rule", "first_seed"),
    [
        (TellsOldEpochs, "is told epoch|run$|has .* and is to have", 37),
        (DropsRecords, "not what the log says|another number of batches", 1),
        (ForgetsSessions, "run$|who runs is no member|gone|Reconciling", 3),
        (LoadsNoRegexes, "prefix gives another state", 32),
        (ShowsWhatIsPending, "nobody committed|not what the log says", 26),
        (ForgetsTransactions, "an acknowledged commit is lost|is older than what was acknowledged", 12),
        (LoadsNoMarkers, "prefix gives another state", 5),
        (ForgetsWork, "never answered|unload forgot|run$|no member|are assigned, not", 20),
    ],
)
def test_a_faulty_core_is_found(mutant: Any, rule: str, first_seed: int) -> None:
    said = finding(mutant, first_seed)
    assert re.search(rule, said), said


def test_partitions_that_others_have_yet_to_give_up_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition becomes free as soon as it leaves its owner's target."""
    real = reconciliation.reconcile_member
    monkeypatch.setattr(
        pending_update,
        "reconcile_member",
        lambda member, goal, owned: real(member, structs.replace(goal, find_holders=lambda _: {}), owned),
    )
    said = finding(first_seed=29)
    assert re.search("both own|another's too", said), said


def test_a_member_that_need_not_confirm_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The group treats partitions as revoked before the member acknowledges the revocation."""
    real = reconciliation.reconcile_member
    monkeypatch.setattr(
        pending_update, "reconcile_member", lambda member, goal, owned: real(member, goal, ())
    )
    said = finding(first_seed=36)
    assert re.search("both own", said), said


def test_a_member_that_may_keep_its_partitions_for_ever_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_heartbeat, "watch_revocation", lambda *_: None)
    assert "may take forever" in finding(first_seed=37)


def test_classic_members_that_hear_of_no_rebalance_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classic_member_requests, "_has_to_rejoin", lambda *_: False)
    said = finding(first_seed=6)
    assert re.search("is not at its target|run$|are assigned, not|Reconciling", said), said


def test_parked_heartbeats_that_are_forgotten_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the heartbeats that wait for a target, the core answers only the first one."""

    def first_only(groups: Any, done: Any, builder: Any) -> None:
        awaited = groups.pending_targets.get(done.work.argument.group_id)
        if awaited is not None:
            del awaited.parked[1:]
        group_shard.on_target_computed(groups, done, builder)

    monkeypatch.setitem(WORK_RESULT_HANDLERS, TARGET_WORK, first_only)
    said = finding(first_seed=13)
    assert re.search("never answered|unload forgot", said), said


def test_sessions_that_are_not_restarted_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats do not extend the session, so live members are fenced again and again."""
    real = consumer_group.restart_consumer_session

    def only_first(group: Any, member_id: str, *rest: Any) -> None:
        if member_id not in group.sessions:
            real(group, member_id, *rest)

    monkeypatch.setattr(consumer_heartbeat, "restart_consumer_session", only_first)
    said = finding(first_seed=21)
    assert re.search("epochs go on changing|run$|no member", said), said
