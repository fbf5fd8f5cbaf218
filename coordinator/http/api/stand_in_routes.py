"""Stand-ins: members that groupd plays, so that one real consumer can be tested among others."""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from coordinator.console.api.request_values import bad_request
from coordinator.console.api.route import ApiRoute, Call
from coordinator.control.control import Control
from coordinator.control.duration import duration_ms
from coordinator.control.problem import ProblemKind
from coordinator.control.stand_ins.stand_in import StandInDescription

Names = Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=249)], ...], Meta(max_length=1000)]
Numbers = list[Annotated[int, Meta(ge=0, le=2**31 - 1)]]


class NewStandIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A member to be played. `group_protocol`: where it is not said, the one of the group; `protocols` are those of
    a classic member, best first: where they are not said, those that all members of the group know, or range.
    `assignment` is what it hands out where it is made the leader of a classic group: partitions by topic, by client
    id; where it is not said, as the range assignor does."""

    client_id: Annotated[str, Meta(min_length=1, max_length=249)]
    topics: Names
    group_instance_id: Annotated[str, Meta(min_length=1, max_length=249)] | None = None
    group_protocol: Literal["classic", "consumer"] | None = None
    protocols: Names = ()
    session_timeout: int | str = "45s"
    rebalance_timeout: int | str = "5m"
    assignment: dict[str, dict[str, Numbers]] | None = None


class StandInList(Struct, frozen=True, kw_only=True):
    """The stand-ins of a group, in the order in which they were made."""

    stand_ins: list[StandInDescription]


async def list_stand_ins(control: Control, call: Call) -> StandInList:
    """All of a group; none for one that nobody knows."""
    return StandInList(stand_ins=control.stand_ins.all(call.path["group"]))


async def make_stand_in(control: Control, call: Call) -> StandInDescription:
    """Makes one, which joins from now on."""
    new: NewStandIn = call.body
    if new.group_protocol == "consumer" and (new.protocols or new.assignment is not None):
        field = "protocols" if new.protocols else "assignment"
        detail = f"{field} is for members of classic groups: in a consumer group the coordinator assigns."
        raise bad_request(f"/{field}", f"{field} is for classic groups", detail)
    return control.stand_ins.make(
        call.path["group"],
        new.client_id,
        new.topics,
        group_instance_id=new.group_instance_id,
        is_classic=None if new.group_protocol is None else new.group_protocol == "classic",
        protocols=new.protocols,
        session_timeout_ms=_timeout_ms(new.session_timeout, "session_timeout"),
        rebalance_timeout_ms=_timeout_ms(new.rebalance_timeout, "rebalance_timeout"),
        assignment=new.assignment,
        by=call.actor,
    )


async def leave(control: Control, call: Call) -> StandInDescription:
    """Goes, and says so."""
    return await control.stand_ins.leave(call.path["group"], call.path["client"], call.actor)


async def stall(control: Control, call: Call) -> StandInDescription:
    """Says nothing any more."""
    return await control.stand_ins.stall(call.path["group"], call.path["client"], call.actor)


async def rejoin(control: Control, call: Call) -> StandInDescription:
    """Is a member again."""
    return await control.stand_ins.rejoin(call.path["group"], call.path["client"], call.actor)


async def remove_stand_in(control: Control, call: Call) -> None:
    """Leaves, and is forgotten."""
    await control.stand_ins.remove(call.path["group"], call.path["client"], call.actor)


async def remove_stand_ins(control: Control, call: Call) -> None:
    """The same of all of a group."""
    await control.stand_ins.remove_all(call.path["group"], call.actor)


def _timeout_ms(value: int | str, field: str) -> int:
    """As requests can carry it. Raises Problem."""
    ms = duration_ms(value, field)
    if not 0 < ms < 1 << 31:
        raise bad_request(f"/{field}", f"{field} is wrong", f"{field} is not between 1 ms and 24 days.")
    return ms


_ONE: Final = (ProblemKind.NO_SUCH_MEMBER, ProblemKind.LOADING)
_BASE: Final = "/groups/{group}/stand-ins"

ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        method="GET",
        path=_BASE,
        summary="The members of a group that groupd plays",
        handle=list_stand_ins,
        answer=StandInList,
    ),
    ApiRoute(
        method="POST",
        path=_BASE,
        summary="Play a member of a group, which joins from now on",
        handle=make_stand_in,
        body=NewStandIn,
        answer=StandInDescription,
        changes=True,
        problems=(ProblemKind.NAME_TAKEN, ProblemKind.LOADING),
    ),
    ApiRoute(
        method="DELETE",
        path=_BASE,
        summary="Have all stand-ins of a group leave",
        handle=remove_stand_ins,
        changes=True,
        problems=(ProblemKind.LOADING,),
    ),
    ApiRoute(
        method="DELETE",
        path=f"{_BASE}/{{client}}",
        summary="Have a stand-in leave, and forget it",
        handle=remove_stand_in,
        changes=True,
        problems=_ONE,
    ),
    *(
        ApiRoute(
            method="POST",
            path=f"{_BASE}/{{client}}/{verb}",
            summary=summary,
            handle=handle,
            answer=StandInDescription,
            changes=True,
            problems=_ONE,
        )
        for verb, summary, handle in (
            ("leave", "Have a stand-in leave the group", leave),
            ("stall", "Have a stand-in say nothing any more, as a process that was stopped", stall),
            ("rejoin", "Have a stand-in be a member again", rejoin),
        )
    ),
)
