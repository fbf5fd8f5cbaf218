"""/v1/faults: rules on the state of groups that answer otherwise, hold, drop, fail the disk, crash."""

from typing import Final, Literal

from msgspec import Struct, structs

from coordinator.console.api.route import ApiRoute, Call
from coordinator.control.control import Control
from coordinator.control.duration import duration_ms
from coordinator.control.faults.faults import Released, Removed
from coordinator.control.faults.rule import FaultRule, FaultStatus
from coordinator.control.problem import Problem, ProblemKind
from coordinator.net.peer import printable


class FaultList(Struct, frozen=True, kw_only=True):
    """Every fault, in the order in which they were made, which is that in which they are tried."""

    faults: list[FaultStatus]


class ReleaseBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether only one of what is held goes on; all does where nothing is said."""

    one: Literal["oldest"] | None = None


class HitBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many hits are waited for, counted since the fault was made, and for how long."""

    hit: int = 1
    within: int | str = "10s"


_MAKING: Final = (
    ProblemKind.NAME_TAKEN,
    ProblemKind.NOT_POSSIBLE,
    ProblemKind.TOO_MANY,
    ProblemKind.CONTROL_OFF,
)
_NAMED: Final = (ProblemKind.NO_SUCH_FAULT,)


async def make(control: Control, call: Call) -> FaultStatus:
    """Makes a fault."""
    return control.faults.make(call.body, call.actor)


async def put(control: Control, call: Call) -> FaultStatus:
    """Makes a fault in place of one of that name."""
    name, rule = call.path["name"], call.body
    if rule.name not in (None, name):
        detail = f"name: the path says {printable(name)}, the body {printable(rule.name)}."
        raise Problem(ProblemKind.BAD_REQUEST, "two names", detail, {"pointer": "/name"})
    return control.faults.make(structs.replace(rule, name=name), call.actor, replaces=True)


async def list_all(control: Control, call: Call) -> FaultList:
    """Shows every fault."""
    return FaultList(faults=control.faults.all())


async def get(control: Control, call: Call) -> FaultStatus:
    """Shows a fault."""
    return control.faults.get(call.path["name"])


async def remove(control: Control, call: Call) -> Removed:
    """Removes a fault."""
    return control.faults.remove(call.path["name"], call.actor)


async def remove_all(control: Control, call: Call) -> Removed:
    """Removes every fault."""
    return control.faults.remove_all(call.actor)


async def release(control: Control, call: Call) -> Released:
    """Lets go of what a fault holds."""
    return control.faults.release(call.path["name"], only_oldest=call.body.one == "oldest", by=call.actor)


async def wait(control: Control, call: Call) -> FaultStatus:
    """Waits until a fault has hit."""
    within_ms = duration_ms(call.body.within, "within")
    return await control.faults.wait(call.path["name"], call.body.hit, within_ms)


def fault_text(fault: FaultStatus) -> str:
    """A fault, in a line or two."""
    line = f"{fault.name} is {fault.state}: matched {fault.matched}, hit {fault.hit}, holding {fault.holding}"
    if fault.last is None:
        return line
    return f"{line}\n  last: {printable(fault.last.what, 300)}"


def faults_text(answer: FaultList) -> str:
    """All of them."""
    return "\n".join(map(fault_text, answer.faults)) or "There are no faults."


def removed_text(answer: Removed) -> str:
    """What is gone."""
    names = ", ".join(answer.removed) or "nothing"
    return f"Removed {names}; {answer.released} released."


def released_text(answer: Released) -> str:
    """What goes on."""
    return f"Released {answer.released}, holding {answer.holding}."


ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        method="POST",
        path="/faults",
        summary="Make a fault: a rule on requests, answers, the disk or an event",
        handle=make,
        body=FaultRule,
        answer=FaultStatus,
        text=fault_text,
        changes=True,
        problems=_MAKING,
    ),
    ApiRoute(
        method="GET",
        path="/faults",
        summary="Every fault, with how often it matched and hit",
        handle=list_all,
        answer=FaultList,
        text=faults_text,
    ),
    ApiRoute(
        method="DELETE",
        path="/faults",
        summary="Remove every fault; what they hold goes on",
        handle=remove_all,
        answer=Removed,
        text=removed_text,
        changes=True,
    ),
    ApiRoute(
        method="GET",
        path="/faults/{name}",
        summary="One fault",
        handle=get,
        answer=FaultStatus,
        text=fault_text,
        problems=_NAMED,
    ),
    ApiRoute(
        method="PUT",
        path="/faults/{name}",
        summary="Make a fault of this name, in place of one that there is",
        handle=put,
        body=FaultRule,
        answer=FaultStatus,
        text=fault_text,
        changes=True,
        problems=_MAKING,
    ),
    ApiRoute(
        method="DELETE",
        path="/faults/{name}",
        summary="Remove a fault; what it holds goes on, what it swallowed loses its connection",
        handle=remove,
        answer=Removed,
        text=removed_text,
        changes=True,
        problems=_NAMED,
    ),
    ApiRoute(
        method="POST",
        path="/faults/{name}/release",
        summary="Let go of what a fault holds: all of it, or the oldest",
        handle=release,
        body=ReleaseBody,
        answer=Released,
        text=released_text,
        changes=True,
        problems=_NAMED,
    ),
    ApiRoute(
        method="POST",
        path="/faults/{name}/wait",
        summary="Wait until a fault has hit so often",
        handle=wait,
        body=HitBody,
        answer=FaultStatus,
        text=fault_text,
        lasts=True,
        problems=(*_NAMED, ProblemKind.NOT_MET, ProblemKind.TOO_MANY),
    ),
)
