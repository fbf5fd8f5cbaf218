"""Waits, checks and explanations over HTTP: they look, and change nothing."""

from typing import Final

from coordinator.console.api.route import ApiRoute, Call
from coordinator.control.control import Control
from coordinator.control.problem import ProblemKind
from coordinator.control.waits.conditions import Conditions, WaitConditions, within_ms
from coordinator.control.waits.explanation import Explanation, explanation_text
from coordinator.control.waits.verdict import Met, met_text

_PROBLEMS: Final = (
    ProblemKind.BAD_REQUEST,
    ProblemKind.NOT_MET,
    ProblemKind.NOT_POSSIBLE,
    ProblemKind.TOO_MANY,
)


async def _wait(control: Control, call: Call) -> Met:
    return await control.waits.wait(call.path["group"], call.body, within_ms(call.body))


async def _check(control: Control, call: Call) -> Met:
    return await control.waits.check(call.path["group"], call.body)


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
