"""The metrics of one broker in Prometheus' format, also for the brokers of namespaces."""

from typing import Final

from msgspec import Struct, field

from coordinator.broker.server_view import ServerView
from coordinator.control.control_plane import ControlPlane
from coordinator.http.api.api_route import ApiCall, Chunks, StreamRoute
from coordinator.http.metrics_page import EVERY_GROUP, MetricsPage

_PLAIN_TEXT: Final = "text/plain"


class GroupMetricsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A filter of groups by id. `*` matches any characters. `match` may be repeated."""

    match: list[str] = field(default_factory=lambda: [EVERY_GROUP])


async def show_metrics(control: ControlPlane, call: ApiCall) -> Chunks:
    """Return the metrics of the broker, without series of single groups."""
    return _single_chunk(await _create_page(control).render_broker())


async def show_group_metrics(control: ControlPlane, call: ApiCall) -> Chunks:
    """Return the metrics of the selected groups. Raises Problem (bad-request)."""
    return _single_chunk(await _create_page(control).render_groups(call.query.match, call.accept))


def _create_page(control: ControlPlane) -> MetricsPage:
    return MetricsPage(ServerView(control.services), control)


async def _single_chunk(text: bytes) -> Chunks:
    yield text


STREAMS: Final[tuple[StreamRoute, ...]] = (
    StreamRoute(
        path="/metrics",
        summary="Metrics of a broker, for Prometheus",
        open_stream=show_metrics,
        content_type=_PLAIN_TEXT,
        is_endless=False,
    ),
    StreamRoute(
        path="/metrics/groups",
        summary="Metrics of each group with its lag, for Prometheus",
        open_stream=show_group_metrics,
        content_type=_PLAIN_TEXT,
        is_endless=False,
        query=GroupMetricsQuery,
    ),
)
