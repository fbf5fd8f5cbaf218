"""The tables of routes of a server: one for each of its brokers."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from coordinator.net.route import Handler
from coordinator.net.routes import Routes
from coordinator.server.handlers.groups import GroupRouter
from coordinator.server.make_routes import make_routes

if TYPE_CHECKING:
    from coordinator.server.server import Server


def routes_by_broker(
    server: "Server", groups: GroupRouter, of_transactions: Mapping[int, Handler]
) -> dict[int, Routes]:
    """By node id. In: who answers for groups and for transactions where there is one broker. All count what is
    answered together."""
    brokers = server.brokers
    if brokers.cluster is None:
        routes = _routes(server, groups, of_transactions)
        if server.cluster is not None:
            routes = server.cluster.looking_first(routes, server.data_plane.catalogue)
        return {server.settings.config.node_id: routes}
    from coordinator.server.handlers.of_broker import GroupRouterOfBroker  # nobody else needs it

    tables: dict[int, Routes] = {}
    for node_id in brokers.listeners:
        own = GroupRouterOfBroker(server.runtime, server.group_config, brokers.ownership, node_id)
        handlers = server.transactions.handlers_of_broker(own, brokers.ownership, node_id)
        tables[node_id] = table = _routes(server, own, handlers)
        table.counts = next(iter(tables.values())).counts
    return tables


def _routes(server: "Server", groups: GroupRouter, of_transactions: Mapping[int, Handler]) -> Routes:
    return make_routes(
        server.directory.meta.cluster_id,
        server.settings.config,
        groups,
        server.topics,
        server.data_plane.catalogue,
        server.run_queue,
        server.transactions,
        of_transactions,
        server.security,
        server.brokers.ownership,
    )
