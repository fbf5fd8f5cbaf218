"""Every route of the API: one line for each resource. OpenAPI, the index and what is served are made of these."""

from typing import Final

from coordinator.console.api import (
    board,
    clock,
    cluster,
    failover,
    faults,
    groups,
    index,
    ledger,
    ledger_lines,
    metrics,
    namespaces,
    offsets,
    recordings,
    stand_ins,
    stream,
    topics,
    violations,
    waits,
)
from coordinator.console.api.route import ApiRoute, StreamRoute

ALL_STREAMS: Final[tuple[StreamRoute, ...]] = (
    *stream.STREAMS,
    *ledger_lines.STREAMS,
    *metrics.STREAMS,
    *recordings.STREAMS,
)
_RESOURCES: Final[tuple[ApiRoute, ...]] = (
    *board.ROUTES,
    *clock.ROUTES,
    *cluster.ROUTES,
    *failover.ROUTES,
    *faults.ROUTES,
    *groups.ROUTES,
    *ledger.ROUTES,
    *namespaces.ROUTES,
    *offsets.ROUTES,
    *recordings.ROUTES,
    *stand_ins.ROUTES,
    *topics.ROUTES,
    *violations.ROUTES,
    *waits.ROUTES,
)
ALL_ROUTES: Final[tuple[ApiRoute, ...]] = (index.route_of(_RESOURCES, ALL_STREAMS), *_RESOURCES)
