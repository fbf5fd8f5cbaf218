"""The committed offsets of a group."""

from typing import Final

from coordinator.console.api.route import ApiRoute, Call
from coordinator.control.control import Control
from coordinator.control.groups.offset_description import GroupOffsets, OffsetChanges
from coordinator.control.groups.reset import OffsetReset
from coordinator.control.problem import ProblemKind


async def describe_offsets(control: Control, call: Call) -> GroupOffsets:
    """With where the partitions end."""
    return await control.offsets.describe(call.path["group"])


async def set_offsets(control: Control, call: Call) -> OffsetChanges:
    """As the tool resets them."""
    return await control.offsets.reset(call.path["group"], call.body, call.actor)


ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        method="GET",
        path="/groups/{group}/offsets",
        summary="The offsets that a group committed, where the partitions end, and its lag",
        handle=describe_offsets,
        answer=GroupOffsets,
        problems=(ProblemKind.NO_SUCH_GROUP, ProblemKind.LOADING),
    ),
    ApiRoute(
        method="PUT",
        path="/groups/{group}/offsets",
        summary="Set offsets of a group without members, as kafka-consumer-groups --reset-offsets does",
        handle=set_offsets,
        body=OffsetReset,
        answer=OffsetChanges,
        changes=True,
        problems=(
            ProblemKind.NO_SUCH_TOPIC,
            ProblemKind.NOT_POSSIBLE,
            ProblemKind.REFUSED,
            ProblemKind.LOADING,
        ),
    ),
)
