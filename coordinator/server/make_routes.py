"""Which handler answers which API."""

from collections.abc import Mapping

from coordinator.config.properties import Config
from coordinator.net.route import Handler, Repeat
from coordinator.net.routes import Routes
from coordinator.net.run_queue import RunQueue
from coordinator.server.handlers.api_versions import ApiVersionsHandler, refuse_api_versions
from coordinator.server.handlers.consumer_groups import ConsumerGroups
from coordinator.server.handlers.describe_cluster import DescribeClusterHandler
from coordinator.server.handlers.find_coordinator import FindCoordinatorHandler, TopicOfTransactions
from coordinator.server.handlers.group_admin import GroupAdmin
from coordinator.server.handlers.groups import GroupRouter
from coordinator.server.handlers.offset_fetch import OffsetFetchHandler
from coordinator.server.handlers.offsets import OffsetCommitHandler, OffsetDeleteHandler
from coordinator.server.handlers.topics import TopicsHandler
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.data_plane import ANSWERED_BY
from protocol.apis import ApiKey


def make_routes(
    cluster_id: str,
    config: Config,
    groups: GroupRouter,
    topics: TopicsHandler,
    catalogue: Catalogue,
    run_queue: RunQueue,
    transactions: TopicOfTransactions,
    of_transactions: Mapping[int, Handler],
) -> Routes:
    """The table of a server. In: who answers which API of transactions."""
    admin = GroupAdmin(groups, run_queue)
    consumer_groups = ConsumerGroups(groups, admin, config)
    handlers: dict[int, Handler] = dict.fromkeys(ANSWERED_BY, topics.handle)
    handlers |= {
        ApiKey.API_VERSIONS: ApiVersionsHandler(cluster_id, config.transaction_version).handle,
        ApiKey.FIND_COORDINATOR: FindCoordinatorHandler(run_queue, transactions).handle,
        ApiKey.DESCRIBE_CLUSTER: DescribeClusterHandler(cluster_id).handle,
        ApiKey.HEARTBEAT: groups.heartbeat,
        ApiKey.JOIN_GROUP: groups.join,
        ApiKey.SYNC_GROUP: groups.handle,
        ApiKey.LEAVE_GROUP: groups.handle,
        ApiKey.OFFSET_COMMIT: OffsetCommitHandler(groups, catalogue, run_queue).handle,
        ApiKey.OFFSET_FETCH: OffsetFetchHandler(groups, catalogue, run_queue).handle,
        ApiKey.OFFSET_DELETE: OffsetDeleteHandler(groups, catalogue, run_queue).handle,
        ApiKey.LIST_GROUPS: admin.list_groups,
        ApiKey.DESCRIBE_GROUPS: admin.describe_groups,
        ApiKey.DELETE_GROUPS: admin.delete_groups,
        ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_groups.heartbeat,
        ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_groups.describe,
        **of_transactions,
    }
    repeat: dict[int, Repeat] = {
        ApiKey.HEARTBEAT: groups.repeat,
        ApiKey.CONSUMER_GROUP_HEARTBEAT: groups.repeat,
    }
    return Routes(handlers, repeat, refuse_api_versions)
