"""Creates the handlers of all APIs and the route table of each broker of a server. Without an authorizer, handlers
have no guards. Handlers of ACLs and of SCRAM credentials are imported on first use.
"""

from collections.abc import Iterable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from coordinator.apis.broker_handlers import (
    ApiVersionsHandler,
    DescribeClusterHandler,
    change_acls_without_authorizer,
    describe_acls_without_authorizer,
    describe_client_quotas,
    encode_unsupported_api_versions,
    handle_sasl_authenticate,
    handle_sasl_handshake,
)
from coordinator.apis.data_plane_handler import DataPlaneHandler
from coordinator.apis.find_coordinator import FindCoordinatorHandler
from coordinator.apis.group_handlers import ConsumerGroupHandler, GroupAdminHandler, GroupRouter
from coordinator.apis.offset_handlers import OffsetCommitHandler, OffsetDeleteHandler, OffsetFetchHandler
from coordinator.apis.request_task import RequestTasks
from coordinator.broker.lazy_transaction_coordinator import LazyTransactionCoordinator
from coordinator.broker.services import ClusterMembership
from coordinator.config.properties import Config
from coordinator.core.shared_types import CONSUMER_OFFSETS
from coordinator.group.group_config import GroupConfig
from coordinator.group.group_shard import GroupShard
from coordinator.network.repeated_requests import CreateRepetition
from coordinator.network.request_context import ApiCounts, RequestContext
from coordinator.network.request_routes import Handler, Routes, create_counts
from coordinator.runtime.runtime import Runtime
from coordinator.security.lazy_security import LazySecurity
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.data_plane import HANDLER_NAMES, DataPlane
from protocol.apis import ApiKey

if TYPE_CHECKING:
    from coordinator.apis.acl_handlers import Allows
    from coordinator.security.security_store import SecurityStore

_WITHOUT_AUTHORIZER: Final[Mapping[int, Handler]] = {
    ApiKey.DESCRIBE_ACLS: describe_acls_without_authorizer,
    ApiKey.CREATE_ACLS: change_acls_without_authorizer,
    ApiKey.DELETE_ACLS: change_acls_without_authorizer,
}


class RouteServices(Struct, frozen=True, eq=False, kw_only=True):
    """The parts of a server that the handlers of its brokers share."""

    config: Config
    cluster_id: str
    runtime: Runtime[GroupShard]
    group_config: GroupConfig
    topics: DataPlaneHandler
    data_plane: DataPlane
    tasks: RequestTasks
    transactions: LazyTransactionCoordinator
    security: LazySecurity
    membership: ClusterMembership


def create_routes_by_broker(services: RouteServices, node_ids: Iterable[int]) -> dict[int, Routes]:
    """Return the routes of all brokers by node id. The brokers share their counters."""
    counts = create_counts()
    return {
        node_id: services.membership.wrap_routes(
            create_routes(services, node_id, counts), services.data_plane
        )
        for node_id in node_ids
    }


def create_routes(services: RouteServices, node_id: int, counts: Mapping[int, ApiCounts]) -> Routes:
    """Return the route table of a broker, which counts its requests in `counts`."""
    config, cluster_id, tasks, security = (
        services.config,
        services.cluster_id,
        services.tasks,
        services.security,
    )
    catalogue, ownership = services.data_plane.catalogue, services.membership.ownership
    groups = services.membership.create_group_router(services.runtime, services.group_config, node_id)
    transactions = services.transactions
    offsets_topic = catalogue.find_topic(CONSUMER_OFFSETS)
    assert offsets_topic is not None, "the data plane shows the topic before there are routes"
    admin = GroupAdminHandler(groups)
    consumer_groups = ConsumerGroupHandler(groups, admin, config)
    create_handler = tasks.create_handler
    handlers: dict[int, Handler] = dict.fromkeys(HANDLER_NAMES, services.topics.handle)
    handlers |= {
        ApiKey.API_VERSIONS: ApiVersionsHandler(cluster_id, config.transaction_version).handle,
        ApiKey.FIND_COORDINATOR: FindCoordinatorHandler(tasks, transactions, ownership, offsets_topic).handle,
        ApiKey.DESCRIBE_CLUSTER: DescribeClusterHandler(cluster_id, ownership).handle,
        ApiKey.HEARTBEAT: groups.handle_heartbeat,
        ApiKey.JOIN_GROUP: groups.handle_join,
        ApiKey.SYNC_GROUP: groups.handle,
        ApiKey.LEAVE_GROUP: groups.handle,
        ApiKey.OFFSET_COMMIT: OffsetCommitHandler(groups, catalogue, tasks).handle,
        ApiKey.OFFSET_FETCH: OffsetFetchHandler(groups, catalogue, tasks).handle,
        ApiKey.OFFSET_DELETE: create_handler(OffsetDeleteHandler(groups, catalogue).handle),
        ApiKey.LIST_GROUPS: create_handler(admin.list_groups),
        ApiKey.DESCRIBE_GROUPS: create_handler(admin.describe_groups),
        ApiKey.DELETE_GROUPS: create_handler(admin.delete_groups),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_groups.handle_heartbeat,
        ApiKey.CONSUMER_GROUP_DESCRIBE: create_handler(consumer_groups.describe_groups),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: describe_client_quotas,
        ApiKey.SASL_HANDSHAKE: handle_sasl_handshake,
        ApiKey.SASL_AUTHENTICATE: handle_sasl_authenticate,
        **_create_credential_handlers(security, tasks),
        **transactions.create_handlers(groups, node_id),
    }
    repetitions: dict[int, CreateRepetition] = {
        ApiKey.HEARTBEAT: groups.create_heartbeat_repetition,
        ApiKey.CONSUMER_GROUP_HEARTBEAT: groups.create_heartbeat_repetition,
        ApiKey.OFFSET_COMMIT: _repeat_commits(groups, catalogue),
    }
    if security.authorizer is None:
        handlers |= _WITHOUT_AUTHORIZER
    else:
        from coordinator.apis.api_authorization import ApiAuthorization

        authorization = ApiAuthorization(security.authorizer, catalogue, config)
        handlers = authorization.guard_handlers(
            handlers | _create_acl_handlers(security.store, authorization.allows, tasks), tasks
        )
        repetitions = {key: authorization.guard_repetitions(create) for key, create in repetitions.items()}
    return Routes(handlers, repetitions, encode_unsupported_api_versions, counts)


def _repeat_commits(groups: GroupRouter, catalogue: Catalogue) -> CreateRepetition:
    """Return the function that creates repetitions of OffsetCommits. Its module is imported at the first
    commit."""

    @cache
    def find_function() -> CreateRepetition:
        from coordinator.apis.repeated_commits import RepeatedCommitFactory

        return RepeatedCommitFactory(groups, catalogue).create_repetition

    return lambda answered: find_function()(answered)


def _create_acl_handlers(store: "SecurityStore", allows: "Allows", tasks: RequestTasks) -> dict[int, Handler]:
    from coordinator.apis.acl_handlers import AclHandler

    admin = AclHandler(store, allows)
    return {
        ApiKey.DESCRIBE_ACLS: tasks.create_handler(admin.describe_acls),
        ApiKey.CREATE_ACLS: tasks.create_handler(admin.create_acls),
        ApiKey.DELETE_ACLS: tasks.create_handler(admin.delete_acls),
    }


def _create_credential_handlers(security: LazySecurity, tasks: RequestTasks) -> dict[int, Handler]:
    """Return the handlers of SCRAM credentials. The first request imports and creates them."""

    @cache
    def create_handlers() -> dict[int, Handler]:
        from coordinator.apis.scram_credential_handlers import ScramCredentialHandler

        credentials = ScramCredentialHandler(security.store)
        return {
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: tasks.create_handler(credentials.describe_credentials),
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS: tasks.create_handler(credentials.alter_credentials),
        }

    def handle(key: ApiKey, request: Any, context: RequestContext) -> object:
        return create_handlers()[key](request, context)

    keys = (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
    return {key: partial(handle, key) for key in keys}
