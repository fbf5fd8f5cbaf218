"""The checks detect a single planted fault in the core or shell.

Each fault is a realistic mistake. A check that detects none of them is useless.
"""

import re
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from msgspec import structs

from coordinator.core.outcome import NO_PRODUCER_ID, Context, Fact, Now, Outcome
from coordinator.group.group_config import GroupConfig
from coordinator.group.group_interface import GroupTimeSource
from coordinator.group.group_requests import (
    FetchOffsets,
    GroupTimerKey,
    GroupTimerKind,
    RepeatedCommit,
    Request,
)
from coordinator.group.group_shard import GroupShard
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_fetch import OffsetFetchResponseGroup
from protocol.messages.sync_group import SyncGroupResponse
from tests.group.new_shard import new_shard
from tests.simulation.planted_faults import find_violation
from tests.simulation.run import Simulation
from tests.simulation.shell import Shell

SEEDS = 60
STEPS = 600


class Mutant(GroupShard):
    """A core that passes its outcomes through `spoil`."""

    def handle(self, request: Request, context: Context, now: Now) -> Outcome:
        return self.spoil(super().handle(request, context, now), request)

    def fire_timer(self, key: GroupTimerKey, now: Now, time_source: GroupTimeSource | None = None) -> Outcome:
        return self.spoil(super().fire_timer(key, now, time_source), None)

    def spoil(self, outcome: Outcome, request: Request | None) -> Outcome:
        return outcome


class AnswersTwice(Mutant):
    def spoil(self, outcome: Outcome, request: Request | None) -> Outcome:
        return structs.replace(outcome, replies=[*outcome.replies, *outcome.replies[:1]])


class ForgetsFollowers(Mutant):
    """The leader's SyncGroup answers only the leader."""

    def spoil(self, outcome: Outcome, request: Request | None) -> Outcome:
        synced = [entry for entry in outcome.replies if isinstance(entry[1], SyncGroupResponse)]
        return structs.replace(outcome, replies=synced[:1]) if len(synced) > 1 else outcome


class CountsBackwards(Mutant):
    def spoil(self, outcome: Outcome, request: Request | None) -> Outcome:
        for waiter, message in outcome.replies:
            if isinstance(message, JoinGroupResponse) and waiter % 5 == 0:
                message.generation_id -= 1
        return outcome


class CrownsEverybody(Mutant):
    def spoil(self, outcome: Outcome, request: Request | None) -> Outcome:
        for _, message in outcome.replies:
            if isinstance(message, JoinGroupResponse) and message.error_code == 0:
                message.leader = message.member_id
        return outcome


class SharesPartitions(Mutant):
    """Every member gets the same assignment from SyncGroup."""

    part = b""

    def spoil(self, outcome: Outcome, request: Request | None) -> Outcome:
        for _, message in outcome.replies:
            if isinstance(message, SyncGroupResponse) and message.error_code == 0:
                self.part = self.part or message.assignment
                message.assignment = self.part
        return outcome


class DropsRecords(Mutant):
    def spoil(self, outcome: Outcome, request: Request | None) -> Outcome:
        return structs.replace(outcome, records=outcome.records[1:])


class ShowsOldOffsets(Mutant):
    """A fetch returns the result of the previous fetch."""

    seen: dict[tuple[str, str, int], int]

    def spoil(self, outcome: Outcome, request: Request | None) -> Outcome:
        if not isinstance(request, FetchOffsets):
            return outcome
        self.seen = getattr(self, "seen", {})
        for _, group in outcome.replies:
            assert isinstance(group, OffsetFetchResponseGroup)
            for topic in group.topics:
                for partition in topic.partitions:
                    place = (group.group_id, topic.name, partition.partition_index)
                    found = partition.committed_offset
                    partition.committed_offset = self.seen.get(place, found)
                    self.seen[place] = found
        return outcome


class AcknowledgesNothing(Mutant):
    """A commit gets a successful response and is never stored."""

    def handle(self, request: Request, context: Context, now: Now) -> Outcome:
        if not isinstance(request, OffsetCommitRequest) or context.waiter % 3:
            return super().handle(request, context, now)
        elsewhere = deepcopy(request)
        for topic in elsewhere.topics:
            topic.name = "elsewhere"
        outcome = super().handle(elsewhere, context, now)
        for _, response in outcome.replies:
            for topic, asked in zip(getattr(response, "topics", []), request.topics, strict=True):
                topic.name = asked.name
        return outcome


class RepeatsFirstOffsets(Mutant):
    """A repeated commit stores the offsets of the first one."""

    def handle(self, request: Request, context: Context, now: Now) -> Outcome:
        if isinstance(request, RepeatedCommit):
            return super().handle(request.prepared.request, context, now)
        return super().handle(request, context, now)


class NeverExpiresMembers(Mutant):
    def spoil(self, outcome: Outcome, request: Request | None) -> Outcome:
        timers = {key: at for key, at in outcome.timers.items() if key.kind is not GroupTimerKind.HEARTBEAT}
        return structs.replace(outcome, timers=timers)


class LoadsOtherwise(Mutant):
    """A load ignores tombstones."""

    def replay(self, record: Fact, producer_id: int = NO_PRODUCER_ID) -> None:
        if record.value is not None:
            super().replay(record, producer_id)


class ForgetsTheParked(Mutant):
    def unload(self) -> list[tuple[int, object]]:
        return super().unload()[1:]


def expires_early(config: GroupConfig, *_: object) -> GroupShard:
    """Return a core that retains offsets for one minute under every configuration."""
    return new_shard(
        structs.replace(config, offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000)
    )


class AnswersBeforeDurable(Shell):
    """A shell without a gate: it acknowledges data before it is durable."""

    def _open_gate(self) -> None:
        while self._gate:
            _, waiter, message = self._gate.popleft()
            self._release(waiter, message)


def finding(shard: Callable[..., GroupShard], shell: type[Shell] = Shell, first_seed: int = 0) -> str:
    """Return the checker's report on the first run that breaks a rule."""
    return find_violation(lambda seed: Simulation(seed, shard, shell).run(STEPS), SEEDS, first_seed)


@pytest.mark.parametrize(
    ("mutant", "rule", "first_seed"),
    [
        (AnswersTwice, "second answer|did not ask", 8),
        (ForgetsFollowers, "never answered|unload forgot", 4),
        (CountsBackwards, "generation", 11),
        (CrownsEverybody, "is led by", 10),
        (SharesPartitions, "is given to", 10),
        (DropsRecords, "not what the log says|another number of batches", 1),
        (ShowsOldOffsets, "older than|is lost", 7),
        (AcknowledgesNothing, "older than|is lost", 19),
        (RepeatsFirstOffsets, "older than|is lost", 0),
        (NeverExpiresMembers, "run$|nobody is left|is (Preparing|Completing)Rebalance", 30),
        (LoadsOtherwise, "prefix gives another state", 5),
        (ForgetsTheParked, "unload forgot", 5),
        (expires_early, "before its time", 17),
    ],
)
def test_a_faulty_core_is_found(mutant: Any, rule: str, first_seed: int) -> None:
    said = finding(mutant, first_seed=first_seed)
    assert re.search(rule, said), said


def test_a_shell_that_answers_too_early_is_found() -> None:
    assert "violation" in finding(GroupShard, AnswersBeforeDurable, first_seed=16)
