"""API routes for waits, checks and explanations of groups, and for the violations and notices of the oracles."""

from typing import Annotated, Final, TypeVar

from msgspec import Meta, Struct, structs

from coordinator.control.control_plane import ControlPlane
from coordinator.control.diagnosis.group_diagnosis import (
    Explanation,
    WaitResult,
    format_explanation,
    format_wait_result,
)
from coordinator.control.diagnosis.violation import OracleName, Severity, Violation
from coordinator.control.diagnosis.wait_conditions import GroupConditions, WaitConditions, parse_within_ms
from coordinator.control.event_stream import resolve_event_number
from coordinator.control.problem import ProblemKind
from coordinator.core.clock import format_time_of_day
from coordinator.core.message_text import printable
from coordinator.core.wire_name import wire_name
from coordinator.http.api.api_route import ApiCall, ApiRoute

Body = TypeVar("Body", bound=GroupConditions)

_WAIT_PROBLEMS: Final = (
    ProblemKind.BAD_REQUEST,
    ProblemKind.NOT_MET,
    ProblemKind.NOT_POSSIBLE,
    ProblemKind.RESTARTED,
    ProblemKind.TOO_MANY,
)


async def _wait_for_group(control: ControlPlane, call: ApiCall) -> WaitResult:
    body = _resolve_after(control, call.body)
    return _add_mark(
        control, await control.waits.wait_for_conditions(call.path["group"], body, parse_within_ms(body))
    )


async def _check_group(control: ControlPlane, call: ApiCall) -> WaitResult:
    return _add_mark(
        control, await control.waits.check_conditions(call.path["group"], _resolve_after(control, call.body))
    )


def _add_mark(control: ControlPlane, met: WaitResult) -> WaitResult:
    return structs.replace(met, mark=control.stream.instance)


def _resolve_after(control: ControlPlane, body: Body) -> Body:
    """Check that `after` of a body is a number of this process. Raises Problem (restarted, bad-request)."""
    return (
        body
        if body.after is None
        else structs.replace(body, after=resolve_event_number(control.stream, body.after))
    )


async def _explain_group(control: ControlPlane, call: ApiCall) -> Explanation:
    return control.waits.explain_group(call.path["group"])


WAIT_ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        method="POST",
        path="/groups/{group}/wait",
        summary="Wait until a group meets conditions; on timeout explain why it does not.",
        command="wait",
        handle=_wait_for_group,
        body=WaitConditions,
        answer=WaitResult,
        text=format_wait_result,
        lasts=True,
        problems=_WAIT_PROBLEMS,
    ),
    ApiRoute(
        method="POST",
        path="/groups/{group}/check",
        summary="Test whether a group meets conditions now, and explain why not.",
        handle=_check_group,
        body=GroupConditions,
        answer=WaitResult,
        text=format_wait_result,
        problems=_WAIT_PROBLEMS,
    ),
    ApiRoute(
        method="GET",
        path="/groups/{group}/explain",
        summary="Explain the waits of a group, the events that would end them, and unusual settings.",
        command="explain",
        handle=_explain_group,
        answer=Explanation,
        text=format_explanation,
    ),
)


class ViolationsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A filter of violations and notices. A null `group`, `oracle` or `severity` matches all. `after` selects
    entries with a greater `seq` (7, or "5f3a9c1e.7" with the mark of the process). `limit` is the maximum number
    of entries, the oldest first."""

    group: str | None = None
    oracle: OracleName | None = None
    severity: Severity | None = None
    after: str = "-1"
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


@wire_name("ViolationList")
class ViolationList(Struct, frozen=True, kw_only=True):
    """Violations and notices, oldest first. `forgotten` counts the older entries that groupd has dropped. Set
    `after` to `next`, or to "`mark`.`next`", to get later entries. `mark` identifies the process; each process
    starts its own numbers."""

    violations: list[Violation]
    forgotten: int
    next: int
    mark: str


@wire_name("Cleared")
class Cleared(Struct, frozen=True, kw_only=True):
    """The number of removed violations and notices."""

    cleared: int


async def list_violations(control: ControlPlane, call: ApiCall) -> ViolationList:
    """Return the violations and notices that a query selects. Raises Problem (restarted, bad-request)."""
    query: ViolationsQuery = call.query
    violations, stream = control.oracles.violations, control.stream
    after = resolve_event_number(stream, query.after, violations.newest_seq)
    found = violations.list_after(
        after, query.limit, group_id=query.group, oracle=query.oracle, severity=query.severity
    )
    last = found[-1].seq if found else after
    return ViolationList(violations=found, forgotten=violations.forgotten, next=last, mark=stream.instance)


async def clear_violations(control: ControlPlane, call: ApiCall) -> Cleared:
    """Remove all recorded findings."""
    return Cleared(cleared=control.oracles.violations.clear())


def format_violations(listed: ViolationList) -> str:
    """Format violations as text, in one or two lines each."""
    if not listed.violations:
        return "No violations.\n"
    return "".join(map(_format_violation, listed.violations))


def _format_violation(violation: Violation) -> str:
    times = "" if violation.times == 1 else f"  {violation.times} times"
    return (
        f"#{violation.seq}  {format_time_of_day(violation.at_ms)}  {violation.severity.upper()}  "
        f"{violation.oracle}  {printable(violation.group_id)}{times}\n    {violation.detail}\n"
    )


def _format_cleared(cleared: Cleared) -> str:
    return f"{cleared.cleared} cleared.\n"


VIOLATION_ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        method="GET",
        path="/violations",
        summary="Violations and notices of the oracles",
        handle=list_violations,
        query=ViolationsQuery,
        answer=ViolationList,
        text=format_violations,
        problems=(ProblemKind.RESTARTED,),
    ),
    ApiRoute(
        method="DELETE",
        path="/violations",
        summary="Clear the violations and notices",
        handle=clear_violations,
        answer=Cleared,
        text=_format_cleared,
        changes=True,
    ),
)
