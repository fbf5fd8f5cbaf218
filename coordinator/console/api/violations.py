"""Violations and notices of the invariant checks (oracles)."""

from datetime import UTC, datetime
from typing import Annotated, Final

from msgspec import Meta, Struct

from coordinator.console.api.route import ApiRoute, Call
from coordinator.control.control import Control
from coordinator.control.oracles.violation import OracleName, Severity, Violation
from coordinator.control.problem import ProblemKind
from coordinator.control.stream.event_number import number_after
from coordinator.net.peer import printable


class ViolationsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which: of one group, of one oracle, of one severity (all if left out), those with a `seq` above `after` (7,
    or "5f3a9c1e.7" with the mark of the process), and of them the first so many."""

    group: str | None = None
    oracle: OracleName | None = None
    severity: Severity | None = None
    after: str = "-1"
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class ViolationList(Struct, frozen=True, kw_only=True):
    """Oldest first. `forgotten` older ones had to make room since the start. Ask again with `after` set to `next`,
    or to "`mark`.`next`", for later ones; `mark` is that of the process, with which numbers begin anew."""

    violations: list[Violation]
    forgotten: int
    next: int
    mark: str


class Cleared(Struct, frozen=True, kw_only=True):
    """How many were forgotten."""

    cleared: int


async def list_violations(control: Control, call: Call) -> ViolationList:
    """GET. Raises Problem."""
    query: ViolationsQuery = call.query
    kept, stream = control.oracles.violations, control.stream
    after = number_after(stream, query.after, kept.newest_seq)
    found = kept.after(after, query.limit, group_id=query.group, oracle=query.oracle, severity=query.severity)
    last = found[-1].seq if found else after
    return ViolationList(violations=found, forgotten=kept.forgotten, next=last, mark=stream.instance)


async def clear_violations(control: Control, call: Call) -> Cleared:
    """DELETE."""
    return Cleared(cleared=control.oracles.violations.clear())


def as_text(listed: ViolationList) -> str:
    """A line or two for each."""
    if not listed.violations:
        return "No violation was found.\n"
    return "".join(map(_lines, listed.violations))


def _lines(violation: Violation) -> str:
    at = datetime.fromtimestamp(violation.at_ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
    times = "" if violation.times == 1 else f"  {violation.times} times"
    return (
        f"#{violation.seq}  {at}Z  {violation.severity.upper()}  {violation.oracle}  "
        f"{printable(violation.group_id)}{times}\n    {violation.detail}\n"
    )


def _cleared_text(cleared: Cleared) -> str:
    return f"{cleared.cleared} forgotten.\n"


ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        method="GET",
        path="/violations",
        summary="What the oracles found",
        handle=list_violations,
        query=ViolationsQuery,
        answer=ViolationList,
        text=as_text,
        problems=(ProblemKind.RESTARTED,),
    ),
    ApiRoute(
        method="DELETE",
        path="/violations",
        summary="Forget what the oracles found",
        handle=clear_violations,
        answer=Cleared,
        text=_cleared_text,
        changes=True,
    ),
)
