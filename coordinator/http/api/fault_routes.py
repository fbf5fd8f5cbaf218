"""API routes for faults: rules that replace or hold responses, disconnect clients, fail the disk or crash
groupd."""

from typing import Final, Literal

from msgspec import Struct, structs

from coordinator.control.control_plane import ControlPlane
from coordinator.control.faults.fault_registry import ReleasedRequests, RemovedFaults
from coordinator.control.faults.fault_rule import FaultRule, FaultStatus
from coordinator.control.field_parsers import parse_duration_ms
from coordinator.control.problem import Problem, ProblemKind
from coordinator.core.message_text import printable
from coordinator.core.wire_name import wire_name
from coordinator.http.api.api_route import ApiCall, ApiRoute


@wire_name("FaultList")
class FaultList(Struct, frozen=True, kw_only=True):
    """All faults in the order of their creation. groupd tries them in this order."""

    faults: list[FaultStatus]


@wire_name("ReleaseBody")
class ReleaseBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The requests to release. `one` "oldest" releases the oldest held request; null releases all of them."""

    one: Literal["oldest"] | None = None


@wire_name("HitBody")
class HitBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A wait for hits of a fault. `hit` is the number of hits since its creation, `within` the maximum time to
    wait."""

    hit: int = 1
    within: int | str = "10s"


_CREATE_PROBLEMS: Final = (
    ProblemKind.NAME_TAKEN,
    ProblemKind.NOT_POSSIBLE,
    ProblemKind.TOO_MANY,
    ProblemKind.CONTROL_OFF,
)
_NAMED_PROBLEMS: Final = (ProblemKind.NO_SUCH_FAULT,)


async def create_fault(control: ControlPlane, call: ApiCall) -> FaultStatus:
    return control.faults.install_fault(call.body, call.actor)


async def replace_fault(control: ControlPlane, call: ApiCall) -> FaultStatus:
    """Create a fault, and replace a fault of the same name."""
    name, rule = call.path["name"], call.body
    if rule.name not in (None, name):
        detail = f"name: the path has {printable(name)}, but the body has {printable(rule.name)}."
        raise Problem(ProblemKind.BAD_REQUEST, "two names", detail, {"pointer": "/name"})
    return control.faults.install_fault(structs.replace(rule, name=name), call.actor, replaces=True)


async def list_faults(control: ControlPlane, call: ApiCall) -> FaultList:
    return FaultList(faults=control.faults.list_faults())


async def show_fault(control: ControlPlane, call: ApiCall) -> FaultStatus:
    return control.faults.get_status(call.path["name"])


async def remove_fault(control: ControlPlane, call: ApiCall) -> RemovedFaults:
    return control.faults.remove_fault(call.path["name"], call.actor)


async def remove_all_faults(control: ControlPlane, call: ApiCall) -> RemovedFaults:
    return control.faults.remove_all(call.actor)


async def release_fault(control: ControlPlane, call: ApiCall) -> ReleasedRequests:
    """Release requests that a fault holds."""
    return control.faults.release_fault(
        call.path["name"], only_oldest=call.body.one == "oldest", by=call.actor
    )


async def wait_for_hits(control: ControlPlane, call: ApiCall) -> FaultStatus:
    """Wait until a fault has a number of hits."""
    within_ms = parse_duration_ms(call.body.within, "within")
    return await control.faults.wait_for_hits(call.path["name"], call.body.hit, within_ms)


def format_fault(fault: FaultStatus) -> str:
    """Format a fault as text, in one or two lines."""
    line = f"{fault.name} is {fault.state}: matched {fault.matched}, hit {fault.hit}, holding {fault.holding}"
    if fault.last is None:
        return line
    return f"{line}\n  last: {printable(fault.last.what, 300)}"


def format_faults(answer: FaultList) -> str:
    """Format faults as text."""
    return "\n".join(map(format_fault, answer.faults)) or "No faults."


def format_removed(answer: RemovedFaults) -> str:
    """Return the names of removed faults as text."""
    names = ", ".join(answer.removed) or "nothing"
    return f"Removed {names}; {answer.released} released."


def format_released(answer: ReleasedRequests) -> str:
    """Return the numbers of released and held requests as text."""
    return f"Released {answer.released}, holding {answer.holding}."


ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        method="POST",
        path="/faults",
        summary="Create a fault: a rule on requests, responses, the disk or an event",
        command="fault add",
        handle=create_fault,
        body=FaultRule,
        answer=FaultStatus,
        text=format_fault,
        changes=True,
        problems=_CREATE_PROBLEMS,
    ),
    ApiRoute(
        method="GET",
        path="/faults",
        summary="All faults with their numbers of matches and hits",
        command="fault list",
        handle=list_faults,
        answer=FaultList,
        text=format_faults,
    ),
    ApiRoute(
        method="DELETE",
        path="/faults",
        summary="Remove every fault and release its held requests",
        command="fault rm",
        handle=remove_all_faults,
        answer=RemovedFaults,
        text=format_removed,
        changes=True,
    ),
    ApiRoute(
        method="GET",
        path="/faults/{name}",
        summary="One fault",
        command="fault show",
        handle=show_fault,
        answer=FaultStatus,
        text=format_fault,
        problems=_NAMED_PROBLEMS,
    ),
    ApiRoute(
        method="PUT",
        path="/faults/{name}",
        summary="Create or replace the fault of this name",
        command="fault add",
        handle=replace_fault,
        body=FaultRule,
        answer=FaultStatus,
        text=format_fault,
        changes=True,
        problems=_CREATE_PROBLEMS,
    ),
    ApiRoute(
        method="DELETE",
        path="/faults/{name}",
        summary="Remove a fault, release its held requests, and close the connections of swallowed ones",
        command="fault rm",
        handle=remove_fault,
        answer=RemovedFaults,
        text=format_removed,
        changes=True,
        problems=_NAMED_PROBLEMS,
    ),
    ApiRoute(
        method="POST",
        path="/faults/{name}/release",
        summary="Release held requests of a fault: all of them, or the oldest",
        command="fault release",
        handle=release_fault,
        body=ReleaseBody,
        answer=ReleasedRequests,
        text=format_released,
        changes=True,
        problems=_NAMED_PROBLEMS,
    ),
    ApiRoute(
        method="POST",
        path="/faults/{name}/wait",
        summary="Wait until a fault has a number of hits",
        command="fault wait",
        handle=wait_for_hits,
        body=HitBody,
        answer=FaultStatus,
        text=format_fault,
        lasts=True,
        problems=(*_NAMED_PROBLEMS, ProblemKind.NOT_MET, ProblemKind.TOO_MANY),
    ),
)
