"""The state of a broker and all its groups in one response, for the page."""

from typing import Final

from msgspec import Struct

from coordinator import __version__
from coordinator.broker.server_view import find_standing
from coordinator.control.control_plane import ControlPlane
from coordinator.control.group_finding import GroupFinding
from coordinator.control.lag_history import LagHistory
from coordinator.control.metrics_snapshot import GroupMetricsSnapshot, SelectedGroupMetrics
from coordinator.control.namespaces.namespace_models import find_client_address
from coordinator.core.wire_name import wire_name
from coordinator.http.api.api_route import ApiCall, ApiRoute
from coordinator.runtime.partition_lifecycle import PartitionState


@wire_name("BoardGroup")
class BoardGroup(Struct, frozen=True, kw_only=True):
    """A group on the board.

    - `lag`: the sum over partitions with a committed offset, null without any.
    - `rebalancing_ms`: the duration of the open rebalance, null without one.
    - `session_margin`: the smallest remaining share of a session of a member, from 0 to 1.
    - `violations`: the number of violations since the start of the daemon.
    - `worst`: the finding that blocks the group most, null without one. In a long list it may be some seconds
      old.
    """

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
    worst: GroupFinding | None = None


@wire_name("Permission")
class Permission(Struct, frozen=True, kw_only=True):
    """The permission for changes over this port. `needs_token`: a change requires the token. `why_off` is the
    reason why changes are off, with the remedy."""

    is_on: bool
    needs_token: bool
    why_off: str | None


@wire_name("Board")
class Board(Struct, frozen=True, kw_only=True):
    """A broker with its groups in the order of their ids, at most 1,000. `groups_left_out` counts the others.
    `bootstrap` is the address for clients. `unavailable_partitions` counts the partitions of `__consumer_offsets`
    that are moving or loading, with groups that are missing until then."""

    version: str
    standing: str
    bootstrap: str
    groups: list[BoardGroup]
    groups_left_out: int
    control: Permission
    unavailable_partitions: int = 0


async def show_board(control: ControlPlane, call: ApiCall) -> Board:
    """Return the board with all groups."""
    found = await control.group_metrics.take_snapshot(lambda _: True)
    control.lag_histories.note_reader()
    worst = await control.worst_findings.find([group.group_id for group in found.groups])
    services = control.services
    return Board(
        version=__version__,
        standing=find_standing(services),
        bootstrap=str(find_client_address(services.endpoints[0], call.host)),
        groups=[_describe_group(group, found, worst.get(group.group_id)) for group in found.groups],
        groups_left_out=found.left_out,
        control=Permission(is_on=call.why_off is None, needs_token=call.needs_token, why_off=call.why_off),
        unavailable_partitions=max(
            control.failover.in_progress_count,
            sum(one.state is PartitionState.LOADING for one in services.runtime.partitions),
        ),
    )


async def show_lag(control: ControlPlane, call: ApiCall) -> LagHistory:
    """Return the history of the lag of a group."""
    return await control.lag_histories.read_history(call.path["group"])


def _describe_group(
    group: GroupMetricsSnapshot, found: SelectedGroupMetrics, worst: GroupFinding | None
) -> BoardGroup:
    counts = group.counts
    return BoardGroup(
        group_id=group.group_id,
        type=group.type,
        state=group.state,
        members=group.members,
        lag=found.compute_lag(group),
        rebalancing_ms=round(group.rebalance_open_s * 1000) if group.rebalance_open_s else None,
        session_margin=group.session_margin,
        is_frozen=group.is_frozen,
        rebalances=counts.completed_rebalances,
        violations=sum(counts.violations.values()),
        worst=worst,
    )


ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        method="GET",
        path="/board",
        summary="The state of all groups for the page, and whether changes are allowed",
        command="console",
        handle=show_board,
        answer=Board,
    ),
    ApiRoute(
        method="GET",
        path="/groups/{group}/lag",
        summary="The lag of a group over time, since the first request for it or for the board",
        handle=show_lag,
        answer=LagHistory,
    ),
)
