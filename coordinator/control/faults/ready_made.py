"""Faults that people ask for again and again, by name."""

from typing import Final

from msgspec import UNSET, structs

from coordinator.control.faults.rule import Do, FaultRule, Match, ToldCoordinator
from coordinator.control.problem import Problem, ProblemKind
from coordinator.net.peer import printable
from coordinator.suggestions import suggest

OF_COORDINATOR: Final = [
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "LeaveGroup",
    "OffsetCommit",
    "OffsetFetch",
    "OffsetDelete",
    "DescribeGroups",
    "DeleteGroups",
]
"""What only the coordinator of a group answers."""
_NOBODY: Final = ToldCoordinator(node_id=2**31 - 1, host="127.0.0.1", port=1)

LOADING: Final = "loading"
READY_MADE: Final = {
    "not-coordinator": FaultRule(
        match=Match(api=OF_COORDINATOR), times=None, do=Do(at="request", error="NOT_COORDINATOR")
    ),
    # What each API is told while a partition loads differs: see `error_answers.py`.
    LOADING: FaultRule(
        match=Match(api=OF_COORDINATOR), times=None, do=Do(at="request", error="COORDINATOR_LOAD_IN_PROGRESS")
    ),
    # FindCoordinator goes on naming a broker that is gone.
    "stale-coordinator": FaultRule(
        match=Match(api="FindCoordinator"), times=None, do=Do(at="answer", coordinator=_NOBODY)
    ),
    "lost-commit-answer": FaultRule(match=Match(api="OffsetCommit"), times=1, do=Do(at="answer", drop=True)),
}


def filled_in(rule: FaultRule) -> FaultRule:
    """A rule with what the ready-made one says that it uses. Raises Problem (bad-request)."""
    if rule.use is None:
        return structs.replace(rule, times=1) if rule.times is UNSET else rule
    made = READY_MADE.get(rule.use)
    if made is None:
        detail = f"use: {printable(rule.use)} is not a ready-made fault {suggest(rule.use, READY_MADE)}."
        raise Problem(ProblemKind.BAD_REQUEST, "no such ready-made fault", detail, {"pointer": "/use"})
    match = made.match
    if rule.match is not None and match is not None:
        given = {name: value for name, value in structs.asdict(rule.match).items() if value is not None}
        match = structs.replace(match, **given)
    times = made.times if rule.times is UNSET else rule.times
    return structs.replace(rule, match=match, do=rule.do or made.do, times=times)
