"""API routes for stand-ins: members that groupd plays, so that one real consumer can be tested among others."""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from coordinator.control.control_plane import ControlPlane
from coordinator.control.field_parsers import parse_duration_ms
from coordinator.control.problem import ProblemKind
from coordinator.control.stand_ins.stand_in_member import StandInDescription
from coordinator.core.wire_name import wire_name
from coordinator.http.api.api_messages import bad_request
from coordinator.http.api.api_route import ApiCall, ApiRoute

NameList = Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=249)], ...], Meta(max_length=1000)]
PartitionNumbers = list[Annotated[int, Meta(ge=0, le=2**31 - 1)]]


@wire_name("NewStandIn")
class NewStandIn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A member for groupd to play.

    - `group_protocol`: by default the protocol of the group.
    - `protocols`: the assignors of a classic member, best first. The default are the assignors that all members
      of the group support, or range without any.
    - `assignment`: the partitions by client id and topic that the member assigns as the leader of a classic
      group. The default is the result of the range assignor.
    """

    client_id: Annotated[str, Meta(min_length=1, max_length=249)]
    topics: NameList
    group_instance_id: Annotated[str, Meta(min_length=1, max_length=249)] | None = None
    group_protocol: Literal["classic", "consumer"] | None = None
    protocols: NameList = ()
    session_timeout: int | str = "45s"
    rebalance_timeout: int | str = "5m"
    assignment: dict[str, dict[str, PartitionNumbers]] | None = None


@wire_name("StandInList")
class StandInList(Struct, frozen=True, kw_only=True):
    """The stand-ins of a group, in the order of their creation."""

    stand_ins: list[StandInDescription]


async def list_stand_ins(control: ControlPlane, call: ApiCall) -> StandInList:
    """Return all stand-ins of a group, none for an unknown group."""
    return StandInList(stand_ins=control.stand_ins.list_stand_ins(call.path["group"]))


async def create_stand_in(control: ControlPlane, call: ApiCall) -> StandInDescription:
    """Create a stand-in, which starts to join."""
    new: NewStandIn = call.body
    if new.group_protocol == "consumer" and (new.protocols or new.assignment is not None):
        field = "protocols" if new.protocols else "assignment"
        detail = (
            f"{field} is for members of classic groups: in a consumer group the coordinator "
            "computes the assignment."
        )
        raise bad_request(f"/{field}", f"{field} is for classic groups", detail)
    return control.stand_ins.create_stand_in(
        call.path["group"],
        new.client_id,
        new.topics,
        group_instance_id=new.group_instance_id,
        is_classic=None if new.group_protocol is None else new.group_protocol == "classic",
        protocols=new.protocols,
        session_timeout_ms=_parse_timeout(new.session_timeout, "session_timeout"),
        rebalance_timeout_ms=_parse_timeout(new.rebalance_timeout, "rebalance_timeout"),
        assignment=new.assignment,
        by=call.actor,
    )


async def leave_group(control: ControlPlane, call: ApiCall) -> StandInDescription:
    """Let a stand-in leave the group with a request."""
    return await control.stand_ins.leave_group(call.path["group"], call.path["client"], call.actor)


async def stall_member(control: ControlPlane, call: ApiCall) -> StandInDescription:
    """Let a stand-in stop sending requests, without leaving the group."""
    return await control.stand_ins.stall_member(call.path["group"], call.path["client"], call.actor)


async def rejoin_group(control: ControlPlane, call: ApiCall) -> StandInDescription:
    """Let a stand-in join the group again."""
    return await control.stand_ins.rejoin_group(call.path["group"], call.path["client"], call.actor)


async def remove_stand_in(control: ControlPlane, call: ApiCall) -> None:
    """Let a stand-in leave the group, and forget it."""
    await control.stand_ins.remove_stand_in(call.path["group"], call.path["client"], call.actor)


async def remove_stand_ins(control: ControlPlane, call: ApiCall) -> None:
    """Let all stand-ins leave a group, and forget them."""
    await control.stand_ins.remove_all(call.path["group"], call.actor)


def _parse_timeout(value: int | str, field: str) -> int:
    """Parse a timeout into milliseconds that fit into a request. Raises Problem (bad-request)."""
    ms = parse_duration_ms(value, field)
    if not 0 < ms < 1 << 31:
        raise bad_request(f"/{field}", f"{field} is invalid", f"{field} is not between 1 ms and 24 days.")
    return ms


_STAND_IN_PROBLEMS: Final = (ProblemKind.NO_SUCH_MEMBER, ProblemKind.LOADING)
_PATH: Final = "/groups/{group}/stand-ins"

ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        method="GET",
        path=_PATH,
        summary="The stand-ins of a group",
        handle=list_stand_ins,
        answer=StandInList,
    ),
    ApiRoute(
        method="POST",
        path=_PATH,
        summary="Create a stand-in, which joins the group",
        handle=create_stand_in,
        body=NewStandIn,
        answer=StandInDescription,
        changes=True,
        problems=(ProblemKind.NAME_TAKEN, ProblemKind.LOADING),
    ),
    ApiRoute(
        method="DELETE",
        path=_PATH,
        summary="Remove all stand-ins of a group; they leave",
        handle=remove_stand_ins,
        changes=True,
        problems=(ProblemKind.LOADING,),
    ),
    ApiRoute(
        method="DELETE",
        path=f"{_PATH}/{{client}}",
        summary="Remove a stand-in; it leaves the group",
        handle=remove_stand_in,
        changes=True,
        problems=_STAND_IN_PROBLEMS,
    ),
    *(
        ApiRoute(
            method="POST",
            path=f"{_PATH}/{{client}}/{verb}",
            summary=summary,
            handle=handle,
            answer=StandInDescription,
            changes=True,
            problems=_STAND_IN_PROBLEMS,
        )
        for verb, summary, handle in (
            ("leave", "Let a stand-in leave the group", leave_group),
            ("stall", "Stop all requests of a stand-in, as if its process were stopped", stall_member),
            ("rejoin", "Let a stand-in rejoin the group", rejoin_group),
        )
    ),
)
