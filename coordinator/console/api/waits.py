"""Waits, checks and explanations over HTTP: they look, and change nothing."""

from typing import Final, TypeVar

from msgspec import structs

from coordinator.console.api.route import ApiRoute, Call
from coordinator.control.control import Control
from coordinator.control.problem import ProblemKind
from coordinator.control.stream.event_number import number_after
from coordinator.control.waits.conditions import Conditions, WaitConditions, within_ms
from coordinator.control.waits.explanation import Explanation, explanation_text
from coordinator.control.waits.verdict import Met, met_text

Body = TypeVar("Body", bound=Conditions)

_PROBLEMS: Final = (
    ProblemKind.BAD_REQUEST,
    ProblemKind.NOT_MET,
    ProblemKind.NOT_POSSIBLE,
    ProblemKind.RESTARTED,
    ProblemKind.TOO_MANY,
)


async def _wait(control: Control, call: Call) -> Met:
    body = _of_here(control, call.body)
    return _marked(control, await control.waits.wait(call.path["group"], body, within_ms(body)))


async def _check(control: Control, call: Call) -> Met:
    return _marked(control, await control.waits.check(call.path["group"], _of_here(control, call.body)))


def _marked(control: Control, met: Met) -> Met:
    return structs.replace(met, mark=control.stream.instance)


def _of_here(control: Control, body: Body) -> Body:
    """A body whose `after` is a number of this process. Raises Problem (restarted, bad-request)."""
    return (
        body if body.after is None else structs.replace(body, after=number_after(control.stream, body.after))
    )


async def _explain(control: Control, call: Call) -> Explanation:
    return control.waits.explain(call.path["group"])


ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        method="POST",
        path="/groups/{group}/wait",
        summary="Wait until a group is as it should be, or say why it is not.",
        handle=_wait,
        body=WaitConditions,
        answer=Met,
        text=met_text,
        lasts=True,
        problems=_PROBLEMS,
    ),
    ApiRoute(
        method="POST",
        path="/groups/{group}/check",
        summary="Say whether a group is as it should be now, and why it is not.",
        handle=_check,
        body=Conditions,
        answer=Met,
        text=met_text,
        problems=_PROBLEMS,
    ),
    ApiRoute(
        method="GET",
        path="/groups/{group}/explain",
        summary="Say what a group waits for now, what would end that, and what is odd about it.",
        handle=_explain,
        answer=Explanation,
        text=explanation_text,
    ),
)
