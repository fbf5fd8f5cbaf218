"""API routes for the clocks of groups, for expiring, removing and disconnecting members, and for expiring
offsets."""

from typing import Any, Final, Literal

from msgspec import Struct, field

from coordinator.control.clock.clock_models import (
    ClockAdvanceResult,
    ClockState,
    MemberDisconnectResult,
    MemberExpiryResult,
    MemberRemovalResult,
    OffsetExpiryResult,
    format_advance,
    format_clock,
    format_disconnect,
    format_member_expiry,
    format_member_removal,
    format_offset_expiry,
)
from coordinator.control.control_plane import ControlPlane
from coordinator.control.field_parsers import parse_duration_ms
from coordinator.control.problem import Problem, ProblemKind
from coordinator.core.wire_name import wire_name
from coordinator.http.api.api_route import ApiCall, ApiRoute

DEFAULT_SETTLE: Final = "5s"
MAX_SETTLE_MS: Final = 600_000


@wire_name("ClockChange")
class ClockChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The wanted state of a clock. `except` "gone": on a frozen clock the sessions of disconnected members still
    end."""

    frozen: bool
    except_: Literal["gone"] | None = field(default=None, name="except")


@wire_name("StepRequest")
class StepRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An advance of the clock to the next deadline. `silent` are the members that send nothing during the
    advance; by default the members without an open connection. groupd keeps all other members alive. `settle` is
    the real time that groupd waits for a request of a live member."""

    silent: list[str] | None = None
    settle: int | str = DEFAULT_SETTLE


@wire_name("AdvanceRequest")
class AdvanceRequest(StepRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An advance of the clock. `by` is the duration in milliseconds, or with a unit ("45s")."""

    by: int | str


@wire_name("RemoveRequest")
class RemoveRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The removal of a member. `reason` is for the log."""

    reason: str | None = None


@wire_name("OffsetsExpireRequest")
class OffsetsExpireRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The expiry of committed offsets as of a later time. `at` is a Unix time in milliseconds, or a duration
    after the group time, such as "+8d". `topics` limits the expiry to these topics; an empty list means all
    topics."""

    at: int | str
    topics: list[str] = []


def _group_id(call: ApiCall) -> str | None:
    return call.path.get("group")


async def _show_clock(control: ControlPlane, call: ApiCall) -> ClockState:
    return control.clocks.describe_clock(_group_id(call))


async def _change_clock(control: ControlPlane, call: ApiCall) -> ClockState:
    body: ClockChange = call.body
    if body.except_ is not None and not body.frozen:
        detail = "except has no effect on a running clock: omit it, or freeze the clock."
        raise Problem(ProblemKind.BAD_REQUEST, "except is invalid", detail, {"pointer": "/except"})
    what = (
        "run"
        if not body.frozen
        else "freeze"
        if body.except_ is None
        else "freeze, except disconnected members"
    )
    state = await control.clocks.set_clock(
        _group_id(call), frozen=body.frozen, expires_disconnected=body.except_ is not None
    )
    control.actions.record_action("clock", what, _group_id(call), call.actor)
    return state


async def _remove_clock(control: ControlPlane, call: ApiCall) -> None:
    await control.clocks.remove(_group_id(call))
    control.actions.record_action(
        "clock", "remove: the clock of the process from now on", _group_id(call), call.actor
    )


async def _advance_clock(control: ControlPlane, call: ApiCall) -> ClockAdvanceResult:
    body: AdvanceRequest = call.body
    by_ms = parse_duration_ms(body.by, "by")
    silent = "" if body.silent is None else f" with {', '.join(body.silent) or 'no member'} silent"
    return await control.clock_commands.advance_clock(
        _group_id(call),
        by_ms,
        silent=body.silent,
        settle_ms=_parse_settle(body),
        description=f"advance {body.by if isinstance(body.by, str) else f'{body.by}ms'}{silent}",
        actor=call.actor,
    )


async def _step_clock(control: ControlPlane, call: ApiCall) -> ClockAdvanceResult:
    body: StepRequest = call.body
    settle_ms = _parse_settle(body)
    return await control.clock_commands.step_clock(
        _group_id(call), silent=body.silent, settle_ms=settle_ms, actor=call.actor
    )


def _parse_settle(body: StepRequest) -> int:
    settle_ms = parse_duration_ms(body.settle, "settle")
    if settle_ms > MAX_SETTLE_MS:
        detail = "settle must not exceed 10 minutes."
        raise Problem(ProblemKind.BAD_REQUEST, "settle is invalid", detail, {"pointer": "/settle"})
    return settle_ms


async def _expire_member(control: ControlPlane, call: ApiCall) -> MemberExpiryResult:
    return await control.member_commands.expire_member(call.path["group"], call.path["member"], call.actor)


async def _remove_member(control: ControlPlane, call: ApiCall) -> MemberRemovalResult:
    reason = None if call.body is None else call.body.reason
    return await control.member_commands.remove_member(
        call.path["group"], call.path["member"], reason, call.actor
    )


async def _disconnect_member(control: ControlPlane, call: ApiCall) -> MemberDisconnectResult:
    return control.member_commands.disconnect_member(call.path["group"], call.path["member"], call.actor)


async def _expire_offsets(control: ControlPlane, call: ApiCall) -> OffsetExpiryResult:
    body: OffsetsExpireRequest = call.body
    return await control.offset_expiry.expire_offsets(call.path["group"], body.at, body.topics, call.actor)


_MEMBER_PROBLEMS: Final = (
    ProblemKind.NO_SUCH_GROUP,
    ProblemKind.NO_SUCH_MEMBER,
    ProblemKind.AMBIGUOUS_MEMBER,
)
_ADVANCE_PROBLEMS: Final = (
    ProblemKind.CLOCK_STOPPED,
    ProblemKind.NO_SUCH_GROUP,
    ProblemKind.NO_SUCH_MEMBER,
    ProblemKind.AMBIGUOUS_MEMBER,
    ProblemKind.NOT_POSSIBLE,
    ProblemKind.TOO_MANY,
    ProblemKind.LOADING,
)


def _create_clock_routes(path: str, whose: str) -> tuple[ApiRoute, ...]:
    shown: dict[str, Any] = {"answer": ClockState, "text": format_clock}
    moved: dict[str, Any] = {
        "answer": ClockAdvanceResult,
        "text": format_advance,
        "problems": _ADVANCE_PROBLEMS,
    }
    moved |= {"changes": True, "lasts": True}
    return (
        ApiRoute(
            method="GET", path=path, summary=f"Show {whose}", command="clock", handle=_show_clock, **shown
        ),
        ApiRoute(
            method="PUT",
            path=path,
            summary=f"Freeze or start {whose}",
            command="clock",
            handle=_change_clock,
            body=ClockChange,
            changes=True,
            problems=(ProblemKind.TOO_MANY,),
            **shown,
        ),
        ApiRoute(
            method="DELETE",
            path=path,
            summary=f"Remove {whose}: deadlines keep their remaining time",
            command="clock",
            handle=_remove_clock,
            changes=True,
        ),
        ApiRoute(
            method="POST",
            path=f"{path}/advance",
            summary="Advance the clock without expiring live members",
            command="clock",
            handle=_advance_clock,
            body=AdvanceRequest,
            **moved,
        ),
        ApiRoute(
            method="POST",
            path=f"{path}/step",
            summary="Advance the clock to the next deadline and fire it",
            command="clock",
            handle=_step_clock,
            body=StepRequest,
            **moved,
        ),
    )


ROUTES: Final[tuple[ApiRoute, ...]] = (
    *_create_clock_routes("/clock", "the default clock of all groups"),
    *_create_clock_routes("/groups/{group}/clock", "the clock of a group"),
    ApiRoute(
        method="POST",
        path="/groups/{group}/members/{member}/expire",
        summary="End the session of a member now",
        command="expire",
        handle=_expire_member,
        answer=MemberExpiryResult,
        text=format_member_expiry,
        changes=True,
        problems=(*_MEMBER_PROBLEMS, ProblemKind.REFUSED, ProblemKind.LOADING),
    ),
    ApiRoute(
        method="POST",
        path="/groups/{group}/members/{member}/remove",
        summary="Remove a member, as Kafka's Admin client does",
        handle=_remove_member,
        body=RemoveRequest,
        answer=MemberRemovalResult,
        text=format_member_removal,
        changes=True,
        problems=(*_MEMBER_PROBLEMS, ProblemKind.REFUSED, ProblemKind.LOADING),
    ),
    ApiRoute(
        method="POST",
        path="/groups/{group}/members/{member}/disconnect",
        summary="Close the connections of a member",
        handle=_disconnect_member,
        answer=MemberDisconnectResult,
        text=format_disconnect,
        changes=True,
        problems=(*_MEMBER_PROBLEMS, ProblemKind.LOADING),
    ),
    ApiRoute(
        method="POST",
        path="/groups/{group}/offsets/expire",
        summary="Expire the offsets of one group as of a later time",
        handle=_expire_offsets,
        body=OffsetsExpireRequest,
        answer=OffsetExpiryResult,
        text=format_offset_expiry,
        changes=True,
        problems=(ProblemKind.NO_SUCH_GROUP, ProblemKind.REFUSED, ProblemKind.LOADING),
    ),
)
