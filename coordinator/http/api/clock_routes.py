"""The time of groups: held, moved on, ended for one member; retention as if it were later."""

from typing import Any, Final, Literal

from msgspec import Struct, field

from coordinator.console.api.route import ApiRoute, Call
from coordinator.control.clock.clock_state import (
    Advanced,
    ClockState,
    MemberDisconnected,
    MemberExpired,
    MemberRemoved,
    OffsetsExpired,
)
from coordinator.control.clock.text import (
    advanced_text,
    clock_text,
    disconnected_text,
    expired_text,
    offsets_text,
    removed_text,
)
from coordinator.control.control import Control
from coordinator.control.duration import duration_ms
from coordinator.control.problem import Problem, ProblemKind

DEFAULT_SETTLE: Final = "5s"
LONGEST_SETTLE_MS: Final = 600_000


class ClockChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`except`: "gone" lets the sessions of members that are gone end while everybody else's time stands still."""

    frozen: bool
    except_: Literal["gone"] | None = field(default=None, name="except")


class StepRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`silent` are the members that send nothing meanwhile; left out, those without an open connection. Everybody
    else is kept alive. `settle` is how long, in reality, a member that is awaited may take to come."""

    silent: list[str] | None = None
    settle: int | str = DEFAULT_SETTLE


class AdvanceRequest(StepRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`by`: how much time passes, in milliseconds or as "45s"."""

    by: int | str


class RemoveRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why the member is sent away, for the log."""

    reason: str | None = None


class OffsetsExpireRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`at`: "+8d" is eight days later than the time of the group; a number is Unix time in milliseconds. `topics`:
    of these alone; none named, of all."""

    at: int | str
    topics: list[str] = []


def _group(call: Call) -> str | None:
    return call.path.get("group")


async def _show(control: Control, call: Call) -> ClockState:
    return control.clocks.shown(_group(call))


async def _change(control: Control, call: Call) -> ClockState:
    body: ClockChange = call.body
    if body.except_ is not None and not body.frozen:
        detail = "except: a clock that runs makes no exception: leave it out, or freeze the clock."
        raise Problem(ProblemKind.BAD_REQUEST, "except is wrong", detail, {"pointer": "/except"})
    what = "run" if not body.frozen else "freeze" if body.except_ is None else "freeze, except who is gone"
    state = await control.clocks.put(_group(call), frozen=body.frozen, lets_gone_go=body.except_ is not None)
    control.acts.note("clock", what, _group(call), call.actor)
    return state


async def _remove(control: Control, call: Call) -> None:
    await control.clocks.remove(_group(call))
    control.acts.note("clock", "remove: the clock of the process from now on", _group(call), call.actor)


async def _advance(control: Control, call: Call) -> Advanced:
    body: AdvanceRequest = call.body
    by_ms = duration_ms(body.by, "by")
    silent = "" if body.silent is None else f" with {', '.join(body.silent) or 'nobody'} silent"
    return await control.moving.advance(
        _group(call),
        by_ms,
        silent=body.silent,
        settle_ms=_settle_ms(body),
        what=f"advance {body.by if isinstance(body.by, str) else f'{body.by}ms'}{silent}",
        actor=call.actor,
    )


async def _step(control: Control, call: Call) -> Advanced:
    body: StepRequest = call.body
    settle_ms = _settle_ms(body)
    return await control.moving.step(_group(call), silent=body.silent, settle_ms=settle_ms, actor=call.actor)


def _settle_ms(body: StepRequest) -> int:
    settle_ms = duration_ms(body.settle, "settle")
    if settle_ms > LONGEST_SETTLE_MS:
        detail = "settle: nobody is waited for longer than 10 minutes."
        raise Problem(ProblemKind.BAD_REQUEST, "settle is wrong", detail, {"pointer": "/settle"})
    return settle_ms


async def _expire(control: Control, call: Call) -> MemberExpired:
    return await control.member_acts.expire(call.path["group"], call.path["member"], call.actor)


async def _send_away(control: Control, call: Call) -> MemberRemoved:
    reason = None if call.body is None else call.body.reason
    return await control.member_acts.remove(call.path["group"], call.path["member"], reason, call.actor)


async def _disconnect(control: Control, call: Call) -> MemberDisconnected:
    return control.member_acts.disconnect(call.path["group"], call.path["member"], call.actor)


async def _expire_offsets(control: Control, call: Call) -> OffsetsExpired:
    body: OffsetsExpireRequest = call.body
    return await control.retention.expire(call.path["group"], body.at, body.topics, call.actor)


_MEMBER: Final = (ProblemKind.NO_SUCH_GROUP, ProblemKind.NO_SUCH_MEMBER, ProblemKind.AMBIGUOUS_MEMBER)
_MOVING: Final = (
    ProblemKind.CLOCK_STOPPED,
    ProblemKind.NO_SUCH_GROUP,
    ProblemKind.NO_SUCH_MEMBER,
    ProblemKind.AMBIGUOUS_MEMBER,
    ProblemKind.NOT_POSSIBLE,
    ProblemKind.TOO_MANY,
    ProblemKind.LOADING,
)


def _clock_routes(path: str, whose: str) -> tuple[ApiRoute, ...]:
    shown: dict[str, Any] = {"answer": ClockState, "text": clock_text}
    moved: dict[str, Any] = {"answer": Advanced, "text": advanced_text, "problems": _MOVING}
    moved |= {"changes": True, "lasts": True}
    return (
        ApiRoute(method="GET", path=path, summary=f"How {whose} stands", handle=_show, **shown),
        ApiRoute(
            method="PUT",
            path=path,
            summary=f"Freeze {whose}, or let it run",
            handle=_change,
            body=ClockChange,
            changes=True,
            problems=(ProblemKind.TOO_MANY,),
            **shown,
        ),
        ApiRoute(
            method="DELETE",
            path=path,
            summary=f"Remove {whose}: deadlines keep the time they have left",
            handle=_remove,
            changes=True,
        ),
        ApiRoute(
            method="POST",
            path=f"{path}/advance",
            summary="Let time pass, and evict nobody who lives",
            handle=_advance,
            body=AdvanceRequest,
            **moved,
        ),
        ApiRoute(
            method="POST",
            path=f"{path}/step",
            summary="Let time pass until the next deadline, and that with it",
            handle=_step,
            body=StepRequest,
            **moved,
        ),
    )


ROUTES: Final[tuple[ApiRoute, ...]] = (
    *_clock_routes("/clock", "the default clock of all groups"),
    *_clock_routes("/groups/{group}/clock", "the clock of a group"),
    ApiRoute(
        method="POST",
        path="/groups/{group}/members/{member}/expire",
        summary="End the session of a member now",
        handle=_expire,
        answer=MemberExpired,
        text=expired_text,
        changes=True,
        problems=(*_MEMBER, ProblemKind.REFUSED, ProblemKind.LOADING),
    ),
    ApiRoute(
        method="POST",
        path="/groups/{group}/members/{member}/remove",
        summary="Send a member away, as Kafka's Admin does",
        handle=_send_away,
        body=RemoveRequest,
        answer=MemberRemoved,
        text=removed_text,
        changes=True,
        problems=(*_MEMBER, ProblemKind.REFUSED, ProblemKind.LOADING),
    ),
    ApiRoute(
        method="POST",
        path="/groups/{group}/members/{member}/disconnect",
        summary="Close the connections of a member",
        handle=_disconnect,
        answer=MemberDisconnected,
        text=disconnected_text,
        changes=True,
        problems=(*_MEMBER, ProblemKind.LOADING),
    ),
    ApiRoute(
        method="POST",
        path="/groups/{group}/offsets/expire",
        summary="Have retention look at one group as if it were later",
        handle=_expire_offsets,
        body=OffsetsExpireRequest,
        answer=OffsetsExpired,
        text=offsets_text,
        changes=True,
        problems=(ProblemKind.NO_SUCH_GROUP, ProblemKind.REFUSED, ProblemKind.LOADING),
    ),
)
