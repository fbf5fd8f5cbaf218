"""The guard of each API, and handlers behind their guards. It is imported only when an authorizer is
configured.

A guard of requests with many elements is a coroutine. If it suspends, the connection processes no other request,
and the handler completes the reply that was opened for the guard.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from inspect import iscoroutinefunction
from typing import Any, Final

from coordinator.apis import (
    cluster_guards,
    group_guards,
    offset_guards,
    partition_guards,
    topic_guards,
    transaction_guards,
)
from coordinator.apis.auth_helper import (
    AuditLog,
    AuthHelper,
    AuthorizationDenied,
    CoroutineGuard,
    Guard,
    GuardPassed,
    GuardResult,
)
from coordinator.apis.group_handlers import CONSUMER_PROTOCOL
from coordinator.apis.request_task import RequestTasks
from coordinator.config.properties import Config
from coordinator.core.reply import Reply
from coordinator.core.response_status import CLOSE_CONNECTION, DeferredResponse, NoResponse
from coordinator.network.request_context import RequestContext
from coordinator.network.request_routes import FastPathFactory, Handler
from coordinator.security.core.acl import AclOperation, ResourceType
from coordinator.security.core.authorizer import Authorizer
from coordinator.topics.catalogue import Catalogue
from protocol.apis import ApiKey

CreateAuthHelper = Callable[[RequestContext], AuthHelper]
"""Creates the helper that decides for the client of one request."""


class GuardExemption(Enum):
    """Why an API has no guard."""

    OPEN = "for everybody"
    CHECKED_BY_HANDLER = "its handler asks the authorizer"


OPEN: Final = GuardExemption.OPEN
CHECKED_BY_HANDLER: Final = GuardExemption.CHECKED_BY_HANDLER
GUARDS: Final[Mapping[ApiKey, Guard | CoroutineGuard | GuardExemption]] = {
    ApiKey.PRODUCE: partition_guards.guard_produce,
    ApiKey.FETCH: partition_guards.guard_fetch,
    ApiKey.LIST_OFFSETS: partition_guards.guard_list_offsets,
    ApiKey.METADATA: topic_guards.create_metadata_guard(creates_topics=True),
    ApiKey.OFFSET_COMMIT: offset_guards.guard_offset_commit,
    ApiKey.OFFSET_FETCH: offset_guards.guard_offset_fetch,
    ApiKey.FIND_COORDINATOR: group_guards.guard_find_coordinator,
    ApiKey.JOIN_GROUP: group_guards.guard_join_group,
    ApiKey.HEARTBEAT: group_guards.guard_member,
    ApiKey.LEAVE_GROUP: group_guards.guard_member,
    ApiKey.SYNC_GROUP: group_guards.guard_sync_group,
    ApiKey.DESCRIBE_GROUPS: group_guards.guard_describe_groups,
    ApiKey.LIST_GROUPS: group_guards.guard_list_groups,
    ApiKey.SASL_HANDSHAKE: OPEN,
    ApiKey.API_VERSIONS: OPEN,
    ApiKey.CREATE_TOPICS: topic_guards.guard_create_topics,
    ApiKey.DELETE_TOPICS: topic_guards.guard_delete_topics,
    ApiKey.DELETE_RECORDS: partition_guards.guard_delete_records,
    ApiKey.INIT_PRODUCER_ID: transaction_guards.guard_init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: partition_guards.guard_offset_for_leader_epoch,
    ApiKey.ADD_PARTITIONS_TO_TXN: transaction_guards.guard_add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: transaction_guards.guard_add_offsets_to_txn,
    ApiKey.END_TXN: transaction_guards.guard_end_txn,
    ApiKey.WRITE_TXN_MARKERS: cluster_guards.guard_write_txn_markers,
    ApiKey.TXN_OFFSET_COMMIT: offset_guards.guard_txn_offset_commit,
    ApiKey.DESCRIBE_ACLS: CHECKED_BY_HANDLER,
    ApiKey.CREATE_ACLS: CHECKED_BY_HANDLER,
    ApiKey.DELETE_ACLS: CHECKED_BY_HANDLER,
    ApiKey.DESCRIBE_CONFIGS: topic_guards.guard_describe_configs,
    ApiKey.ALTER_CONFIGS: topic_guards.guard_alter_configs,
    ApiKey.DESCRIBE_LOG_DIRS: cluster_guards.guard_describe_log_dirs,
    ApiKey.SASL_AUTHENTICATE: OPEN,
    ApiKey.CREATE_PARTITIONS: topic_guards.guard_create_partitions,
    ApiKey.DELETE_GROUPS: group_guards.guard_delete_groups,
    ApiKey.ELECT_LEADERS: cluster_guards.guard_elect_leaders,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: topic_guards.guard_incremental_alter_configs,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: cluster_guards.guard_alter_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: cluster_guards.guard_list_reassignments,
    ApiKey.OFFSET_DELETE: partition_guards.guard_offset_delete,
    ApiKey.DESCRIBE_CLUSTER: cluster_guards.guard_describe_cluster,
    ApiKey.DESCRIBE_PRODUCERS: partition_guards.guard_describe_producers,
    ApiKey.DESCRIBE_TRANSACTIONS: transaction_guards.guard_describe_transactions,
    ApiKey.LIST_TRANSACTIONS: transaction_guards.guard_list_transactions,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: cluster_guards.guard_describe_client_quotas,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: cluster_guards.guard_describe_scram_credentials,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: cluster_guards.guard_alter_scram_credentials,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: group_guards.guard_consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: group_guards.guard_describe_consumer_groups,
    ApiKey.LIST_CONFIG_RESOURCES: topic_guards.guard_list_config_resources,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: topic_guards.guard_describe_topic_partitions,
}
"""Every API that is served is here."""


class GuardedHandler:
    """Answers one API: its guard first, then its handler."""

    def __init__(
        self,
        guard: Callable[..., Any],
        handler: Callable[..., object],
        create_helper: CreateAuthHelper,
        tasks: RequestTasks,
    ) -> None:
        """In: a `Guard` or a `CoroutineGuard`; the handler behind it; the coroutines of requests."""
        self._guard = guard
        self._handler = handler
        self._create_helper = create_helper
        self._tasks = tasks
        self.handle: Handler = self._handle_in_steps if iscoroutinefunction(guard) else self._handle_at_once
        """Answers a request: the handler answers the part that the guard allows, and the guard the rest."""

    def _handle_at_once(self, request: object, context: RequestContext) -> object:
        return self._apply_result(self._guard(request, self._create_helper(context)), request, context)

    def _handle_in_steps(self, request: object, context: RequestContext) -> object:
        budget = self._tasks.create_budget()

        def finish(result: GuardResult, reply: Reply | None) -> object:
            return self._apply_result(
                result, request, context if reply is None else context.with_reply(reply)
            )

        guard = self._guard(request, self._create_helper(context), budget)
        return self._tasks.run(guard, context.defer, budget, finish)

    def _apply_result(self, result: GuardResult, request: object, context: RequestContext) -> object:
        """Refuse the request, or pass the rest of it to the handler."""
        if isinstance(result, AuthorizationDenied):
            return result.response
        if result.closes:
            return self._handle_and_close(result, request, context)
        finish = result.finish
        if finish is None:
            return self._handler(request, context, *result.arguments)
        response = self._handler(request, context.map_reply(finish), *result.arguments)
        return response if isinstance(response, DeferredResponse | NoResponse) else finish(response)

    def _handle_and_close(self, result: GuardPassed, request: object, context: RequestContext) -> object:
        """Handle a Produce with acks=0 of which the guard refused a part: the client sees a closed connection
        instead of an error. Work that has begun to change data runs to its end."""
        replies: list[Reply] = []
        response = self._handler(request, context.notify_deferred(replies.append), *result.arguments)
        if not isinstance(response, DeferredResponse):
            return CLOSE_CONNECTION
        for reply in replies:
            reply.close_connection()
        return response


class ApiAuthorization:
    """The authorizer of one server, as its handlers meet it."""

    def __init__(self, authorizer: Authorizer, catalogue: Catalogue, config: Config) -> None:
        self._authorizer = authorizer
        self._audit = AuditLog()
        self._catalogue = catalogue
        self._guards = dict(GUARDS)
        if not config.auto_create_topics_enable:
            self._guards[ApiKey.METADATA] = topic_guards.create_metadata_guard(creates_topics=False)
        if CONSUMER_PROTOCOL not in config.group_coordinator_rebalance_protocols:
            # The handler answers UNSUPPORTED_VERSION, also to clients without any right.
            self._guards[ApiKey.CONSUMER_GROUP_HEARTBEAT] = OPEN
            self._guards[ApiKey.CONSUMER_GROUP_DESCRIBE] = OPEN

    def create_helper(self, context: RequestContext) -> AuthHelper:
        """What the sender of the request at hand may do."""
        return AuthHelper(self._authorizer, self._audit, self._catalogue, context)

    def allows(
        self,
        context: RequestContext,
        operation: AclOperation,
        resource_type: ResourceType,
        resource_name: str,
    ) -> bool:
        """Whether it may do one thing: for handlers that check authorization themselves."""
        return self.create_helper(context).allows(operation, resource_type, resource_name)

    def guard_handlers(self, handlers: Mapping[int, Handler], tasks: RequestTasks) -> dict[int, Handler]:
        """Return the handlers with their guards in front."""
        guarded: dict[int, Handler] = {}
        for key, handler in handlers.items():
            guard = self._guards[ApiKey(key)]
            if not isinstance(guard, GuardExemption):
                handler = GuardedHandler(guard, handler, self.create_helper, tasks).handle
            guarded[key] = handler
        return guarded

    def guard_fast_path(self, factory: FastPathFactory) -> FastPathFactory:
        """What knows a request that comes again just so, as long as it was allowed under the ACLs of now."""
        index = self._authorizer.index

        def create_guarded(
            request: Any, response: Any, context: RequestContext
        ) -> Callable[[int], bool] | None:
            fast_path = factory(request, response, context)
            if fast_path is None:
                return None
            epoch = index.epoch

            def guarded(monotonic_ms: int) -> bool:
                return index.epoch == epoch and fast_path(monotonic_ms)

            return guarded

        return create_guarded
