"""The metrics of one broker as `/metrics` has those of the daemon's own: `/namespaces/{namespace}/metrics`."""

from typing import Final

from msgspec import Struct, field

from coordinator.console.api.route import Call, Pieces, StreamRoute
from coordinator.console.metrics_page import EVERY_GROUP, MetricsPage
from coordinator.control.control import Control
from coordinator.server.broker import Broker

_TEXT: Final = "text/plain"


class GroupMetricsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Groups by their ids, in which `*` stands for anything; it may be named several times."""

    match: list[str] = field(default_factory=lambda: [EVERY_GROUP])


async def metrics(control: Control, call: Call) -> Pieces:
    """Those of all groups together."""
    return _piece(await _page(control).text())


async def group_metrics(control: Control, call: Call) -> Pieces:
    """Those of single groups. Raises Problem (bad-request)."""
    return _piece(await _page(control).groups_text(call.query.match, call.accept))


def _page(control: Control) -> MetricsPage:
    return MetricsPage(Broker(control.server), control)


async def _piece(text: bytes) -> Pieces:
    yield text


STREAMS: Final[tuple[StreamRoute, ...]] = (
    StreamRoute(
        path="/metrics",
        summary="Counts and times of a broker, for Prometheus",
        open=metrics,
        content_type=_TEXT,
        is_endless=False,
    ),
    StreamRoute(
        path="/metrics/groups",
        summary="Counts, times and lag of each group, for Prometheus",
        open=group_metrics,
        content_type=_TEXT,
        is_endless=False,
        query=GroupMetricsQuery,
    ),
)
