"""What a page has to know of a broker to show all its groups, in one answer."""

from typing import Final

from msgspec import Struct

from coordinator import __version__
from coordinator.console.api.route import ApiRoute, Call
from coordinator.control.control import Control
from coordinator.control.figures.group_figures import AllGroupFigures, GroupFigures
from coordinator.control.namespaces.description import address_for
from coordinator.server.overview import standing


class BoardGroup(Struct, frozen=True, kw_only=True):
    """A group. `lag` is what is left to read where it has committed, null where that is nowhere; `rebalancing_ms`
    how long it has been rebalancing, null where it is not; `session_margin` the least share of its session that a
    member has left; `violations` how many the oracles have found since the daemon runs."""

    group_id: str
    type: str
    state: str
    members: int
    lag: int | None
    rebalancing_ms: int | None
    session_margin: float | None
    is_frozen: bool
    rebalances: int
    violations: int


class Permission(Struct, frozen=True, kw_only=True):
    """Whether anything may be changed over this port; `needs_token`: by whoever has the token; `why_off`: why
    not, and how it would be."""

    is_on: bool
    needs_token: bool
    why_off: str | None


class Board(Struct, frozen=True, kw_only=True):
    """A broker with its groups, in the order of their ids, at most 1,000; `groups_left_out` counts the others.
    `bootstrap` is where clients connect."""

    version: str
    standing: str
    bootstrap: str
    groups: list[BoardGroup]
    groups_left_out: int
    control: Permission


async def board(control: Control, call: Call) -> Board:
    """All groups."""
    found = await control.group_figures.gather(lambda _: True)
    server = control.server
    return Board(
        version=__version__,
        standing=standing(server),
        bootstrap=str(address_for(server.endpoints[0], call.host)),
        groups=[_shown(group, found) for group in found.groups],
        groups_left_out=found.left_out,
        control=Permission(is_on=call.why_off is None, needs_token=call.needs_token, why_off=call.why_off),
    )


def _shown(group: GroupFigures, found: AllGroupFigures) -> BoardGroup:
    lags = [
        max(0, found.ends[place].end - offset)
        for place, offset in group.offsets.items()
        if place in found.ends
    ]
    history = group.history
    return BoardGroup(
        group_id=group.group_id,
        type=group.type,
        state=group.state,
        members=group.members,
        lag=sum(lags) if lags else None,
        rebalancing_ms=round(group.rebalance_open_s * 1000) if group.rebalance_open_s else None,
        session_margin=group.session_margin,
        is_frozen=group.is_frozen,
        rebalances=history.completed,
        violations=sum(history.violations.values()),
    )


ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        method="GET",
        path="/board",
        summary="Everything that a page shows of all groups, and whether it may change anything",
        handle=board,
        answer=Board,
    ),
)
