"""Which handler answers which API."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

from coordinator.cluster.ownership import Ownership
from coordinator.config.properties import Config
from coordinator.net.route import Handler, Repeat
from coordinator.net.routes import Routes
from coordinator.net.run_queue import RunQueue
from coordinator.server.handlers.acls import (
    create_without_authorizer,
    delete_without_authorizer,
    describe_without_authorizer,
)
from coordinator.server.handlers.api_versions import ApiVersionsHandler, refuse_api_versions
from coordinator.server.handlers.client_quotas import describe_client_quotas
from coordinator.server.handlers.consumer_groups import ConsumerGroups
from coordinator.server.handlers.describe_cluster import DescribeClusterHandler
from coordinator.server.handlers.find_coordinator import FindCoordinatorHandler, TopicOfTransactions
from coordinator.server.handlers.group_admin import GroupAdmin
from coordinator.server.handlers.groups import GroupRouter
from coordinator.server.handlers.offset_fetch import OffsetFetchHandler
from coordinator.server.handlers.offsets import OffsetCommitHandler, OffsetDeleteHandler
from coordinator.server.handlers.sasl import authenticate, handshake
from coordinator.server.handlers.topics import TopicsHandler
from coordinator.server.security import Security
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.data_plane import ANSWERED_BY
from protocol.apis import ApiKey

if TYPE_CHECKING:
    from coordinator.server.handlers.acl_admin import Allows
    from coordinator.server.handlers.scram_credentials import ScramCredentials
    from coordinator.server.security_store import SecurityStore

_WITHOUT_AUTHORIZER: Final[Mapping[int, Handler]] = {
    ApiKey.DESCRIBE_ACLS: describe_without_authorizer,
    ApiKey.CREATE_ACLS: create_without_authorizer,
    ApiKey.DELETE_ACLS: delete_without_authorizer,
}


def make_routes(
    cluster_id: str,
    config: Config,
    groups: GroupRouter,
    topics: TopicsHandler,
    catalogue: Catalogue,
    run_queue: RunQueue,
    transactions: TopicOfTransactions,
    of_transactions: Mapping[int, Handler],
    security: Security,
    ownership: Ownership,
) -> Routes:
    """The table of a broker. In: who answers which API of transactions."""
    admin = GroupAdmin(groups, run_queue)
    consumer_groups = ConsumerGroups(groups, admin, config)
    handlers: dict[int, Handler] = dict.fromkeys(ANSWERED_BY, topics.handle)
    handlers |= {
        ApiKey.API_VERSIONS: ApiVersionsHandler(cluster_id, config.transaction_version).handle,
        ApiKey.FIND_COORDINATOR: FindCoordinatorHandler(
            run_queue, transactions, ownership, len(groups.runtime.partitions)
        ).handle,
        ApiKey.DESCRIBE_CLUSTER: DescribeClusterHandler(cluster_id, ownership).handle,
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
        ApiKey.DESCRIBE_CLIENT_QUOTAS: describe_client_quotas,
        ApiKey.SASL_HANDSHAKE: handshake,
        ApiKey.SASL_AUTHENTICATE: authenticate,
        **_of_users(security),
        **of_transactions,
    }
    repeat: Repeat = groups.repeat
    if security.authorizer is None:
        handlers |= _WITHOUT_AUTHORIZER
    else:
        from coordinator.server.authorization.guards import Authorization

        authorization = Authorization(security.authorizer, catalogue, config)
        handlers = authorization.guarded(
            handlers | _of_acls(security.store, authorization.allows), run_queue, topics.arrival
        )
        repeat = authorization.repeated(repeat)
    repeats: dict[int, Repeat] = {ApiKey.HEARTBEAT: repeat, ApiKey.CONSUMER_GROUP_HEARTBEAT: repeat}
    return Routes(handlers, repeats, refuse_api_versions)


def _of_acls(store: "SecurityStore", allows: "Allows") -> dict[int, Handler]:
    from coordinator.server.handlers.acl_admin import AclAdmin

    admin = AclAdmin(store, allows)
    return {
        ApiKey.DESCRIBE_ACLS: admin.describe,
        ApiKey.CREATE_ACLS: admin.create,
        ApiKey.DELETE_ACLS: admin.delete,
    }


def _of_users(security: Security) -> dict[int, Handler]:
    """Nothing of it is imported before somebody asks."""

    @cache
    def credentials() -> "ScramCredentials":
        from coordinator.server.handlers.scram_credentials import ScramCredentials

        return ScramCredentials(security.store)

    return {
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: lambda *asked: credentials().describe(*asked),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: lambda *asked: credentials().alter(*asked),
    }
