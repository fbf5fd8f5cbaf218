"""The conditions of a wait: the body of the request, and its validation."""

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from coordinator.control.diagnosis.group_conditions import (
    Condition,
    GenerationCondition,
    MemberCountCondition,
    MembersAbsentCondition,
    MembersPresentCondition,
    QuietCondition,
    RebalancedCondition,
    StateCondition,
)
from coordinator.control.diagnosis.member_labels import format_name
from coordinator.control.diagnosis.partition_conditions import (
    CommittedOffsetsCondition,
    MaxLagCondition,
    PartitionOwnersCondition,
    TopicsOwnedCondition,
)
from coordinator.control.field_parsers import parse_duration_ms
from coordinator.control.problem import Problem, ProblemKind
from coordinator.core.message_text import suggest
from coordinator.core.wire_name import wire_name
from coordinator.group.event_details import RebalanceCause
from coordinator.group.group_types import STATE_NAMES

LONGEST_WAIT_MS: Final = 10 * 60_000
MAX_NAMES: Final = 1_000
"""The maximum number of elements in each list of a body."""
_NO_NAMES: Final[tuple[Any, ...]] = ([], {})
_CAUSES: Final = [cause.value for cause in RebalanceCause]


@wire_name("MembersBetween")
class MembersBetween(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A minimum and a maximum number of members. A null maximum means no limit."""

    min: int = 0
    max: int | None = None


@wire_name("GenerationFrom")
class GenerationFrom(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A generation. The condition also holds in later ones."""

    min: int = 0


@wire_name("Rebalanced")
class RebalanceMatch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rebalance with a cause (of the ledger) and an actor (client, instance or member id). Null matches any."""

    cause: str | None = None
    client: str | None = None


@wire_name("Conditions")
class GroupConditions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The conditions of a group, all of which must hold. Null, an empty list and an empty object mean no condition.

    - `state` is a state of classic or consumer groups (Dead: the group does not exist).
    - `members`: a member counts from its first completed rebalance.
    - `clients` and `absent` are client, instance or member ids.
    - `owned`: topics of which each partition has exactly one owner. `owner` names owners ("orders-3": "alice"). All
      members have fetched that assignment.
    - `committed`: minimum durable committed offsets ("orders-0": 100).
    - `lag_max` applies to each partition of `topics`, or of the subscribed topics. Without a commit the lag
      counts from the log start offset.
    - `rebalanced`: an entry of the ledger that ended after the event `after` (431, or "5f3a9c1e.431" with the
      mark of the process). An entry that was replaced ends with the entry that replaced it.
    - `quiet`: the time without a rebalance, in group time ("5s").
    """

    state: str | None = None
    members: int | MembersBetween | None = None
    clients: list[str] | None = None
    absent: list[str] | None = None
    owned: list[str] | None = None
    owner: dict[str, str] | None = None
    committed: dict[str, int] | None = None
    lag_max: int | None = None
    topics: list[str] | None = None
    generation: GenerationFrom | None = None
    rebalanced: RebalanceMatch | None = None
    after: int | str | None = None
    quiet: int | str | None = None


@wire_name("WaitConditions")
class WaitConditions(GroupConditions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Conditions, and `within`: the maximum real time to wait for them, at most 10 minutes."""

    within: int | str = "10s"


def parse_within_ms(body: WaitConditions) -> int:
    """Parse the time limit of a wait into milliseconds. Raises Problem (bad-request)."""
    waited_ms = parse_duration_ms(body.within, "within")
    if waited_ms > LONGEST_WAIT_MS:
        raise _invalid_conditions("within", f"{body.within} is longer than 10 minutes")
    return waited_ms


def build_conditions(body: GroupConditions) -> list[Condition]:
    """Build the conditions of a body, in the order of their evaluation. Raises Problem (bad-request)."""
    _check_names(body)
    if body.topics and body.lag_max is None:
        raise _invalid_conditions("topics", "selects the topics of lag_max, which is missing")
    if body.after is not None and body.rebalanced is None:
        raise _invalid_conditions(
            "after", "selects the event before the rebalance, but rebalanced is missing"
        )
    given = [field for field in _BUILDERS if getattr(body, field) is not None]
    if not given:
        raise _invalid_conditions("", "it has no condition")
    return [_BUILDERS[field](body) for field in given if getattr(body, field) not in _NO_NAMES]


def _check_names(body: GroupConditions) -> None:
    for field in ("clients", "absent", "owned", "owner", "committed", "topics"):
        names = getattr(body, field) or ()
        if len(names) > MAX_NAMES:
            raise _invalid_conditions(field, f"it has {len(names)} entries, more than {MAX_NAMES}")


def _build_member_count(body: GroupConditions) -> Condition:
    wanted = body.members
    if not isinstance(wanted, MembersBetween):
        count = _check_minimum(wanted or 0, "members")
        return MemberCountCondition(count, count)
    least, most = _check_minimum(wanted.min, "members/min"), wanted.max
    if most is not None and most < least:
        raise _invalid_conditions("members/max", f"{most} is less than min, {least}")
    return MemberCountCondition(least, most)


def _build_owners(body: GroupConditions) -> Condition:
    return PartitionOwnersCondition(
        {_parse_partition(name, "owner"): owner for name, owner in (body.owner or {}).items()}
    )


def _build_committed(body: GroupConditions) -> Condition:
    offsets = (body.committed or {}).items()
    return CommittedOffsetsCondition(
        {
            _parse_partition(name, "committed"): _check_minimum(one, f"committed/{name}")
            for name, one in offsets
        }
    )


def _build_rebalanced(body: GroupConditions) -> Condition:
    wanted = body.rebalanced or RebalanceMatch()
    if wanted.cause is not None:
        _check_choice(wanted.cause, _CAUSES, "rebalanced/cause")
    return RebalancedCondition(wanted.cause, wanted.client, -1 if body.after is None else int(body.after))


_BUILDERS: Final[dict[str, Callable[[GroupConditions], Condition]]] = {
    "state": lambda body: StateCondition(_check_choice(body.state or "", STATE_NAMES, "state")),
    "members": _build_member_count,
    "clients": lambda body: MembersPresentCondition(body.clients or []),
    "absent": lambda body: MembersAbsentCondition(body.absent or []),
    "generation": lambda body: GenerationCondition(0 if body.generation is None else body.generation.min),
    "quiet": lambda body: QuietCondition(parse_duration_ms(body.quiet or 0, "quiet")),
    "owned": lambda body: TopicsOwnedCondition(body.owned or []),
    "owner": _build_owners,
    "committed": _build_committed,
    "lag_max": lambda body: MaxLagCondition(
        _check_minimum(body.lag_max or 0, "lag_max"), body.topics or None
    ),
    "rebalanced": _build_rebalanced,
}


def _check_minimum(value: int, field: str) -> int:
    if value < 0:
        raise _invalid_conditions(field, f"{value} is less than 0")
    return value


def _check_choice(value: str, words: list[str], field: str) -> str:
    if value not in words:
        raise _invalid_conditions(field, f"{format_name(value)!r} is not valid {suggest(value, words)}")
    return value


def _parse_partition(name: str, field: str) -> tuple[str, int]:
    topic, _, number = name.rpartition("-")
    if not topic or not (number.isascii() and number.isdigit()) or len(number) > 9:
        raise _invalid_conditions(
            f"{field}/{name}", f'{format_name(name)!r} is not a partition: write "orders-3"'
        )
    return topic, int(number)


def _invalid_conditions(field: str, why: str) -> Problem:
    title = "The conditions are invalid" if not field else f"{format_name(field)} is invalid"
    detail = f"{why[0].upper()}{why[1:]}." if not field else f"{format_name(field)}: {why}."
    pointer = f"/{field}" if field else ""
    return Problem(ProblemKind.BAD_REQUEST, title, detail, {"pointer": pointer})
