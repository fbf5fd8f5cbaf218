"""Which guard stands before which API, and handlers behind them. Who configures no authorizer has none of it."""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

from coordinator import clock
from coordinator.config.properties import Config
from coordinator.net.caller import Caller
from coordinator.net.route import Handler, Repeat
from coordinator.net.run_queue import RunQueue
from coordinator.security.acl import Operation, ResourceType
from coordinator.security.authorizer import Authorizer
from coordinator.server.authorization import (
    client_quotas,
    cluster,
    configs,
    consumer_groups,
    groups,
    members,
    offset_commit,
    partitions,
    reassignments,
    scram_credentials,
    topics,
    transactions,
)
from coordinator.server.authorization.audit import Audit
from coordinator.server.authorization.describe_topic_partitions import guard_describe_topic_partitions
from coordinator.server.authorization.fetch import guard_fetch
from coordinator.server.authorization.find_coordinator import guard_find_coordinator
from coordinator.server.authorization.guarded import Guarded
from coordinator.server.authorization.metadata import metadata_guard
from coordinator.server.authorization.offset_fetch import guard_offset_fetch
from coordinator.server.authorization.permits import Permits
from coordinator.server.authorization.produce import guard_produce
from coordinator.server.authorization.verdict import Guard
from coordinator.server.handlers.consumer_groups import PROTOCOL
from coordinator.topics.catalogue import Catalogue
from protocol.apis import ApiKey


class Unguarded(Enum):
    """Why an API has no guard."""

    OPEN = "for everybody"
    ASKS_ITSELF = "its handler asks the authorizer"


OPEN: Final = Unguarded.OPEN
ASKS_ITSELF: Final = Unguarded.ASKS_ITSELF

GUARDS: Final[Mapping[ApiKey, Guard | Unguarded]] = {
    ApiKey.PRODUCE: guard_produce,
    ApiKey.FETCH: guard_fetch,
    ApiKey.LIST_OFFSETS: partitions.guard_list_offsets,
    ApiKey.METADATA: metadata_guard(creates_topics=True),
    ApiKey.OFFSET_COMMIT: offset_commit.guard_commit,
    ApiKey.OFFSET_FETCH: guard_offset_fetch,
    ApiKey.FIND_COORDINATOR: guard_find_coordinator,
    ApiKey.JOIN_GROUP: members.guard_join,
    ApiKey.HEARTBEAT: members.guard_member,
    ApiKey.LEAVE_GROUP: members.guard_member,
    ApiKey.SYNC_GROUP: members.guard_sync,
    ApiKey.DESCRIBE_GROUPS: groups.guard_describe,
    ApiKey.LIST_GROUPS: groups.guard_list,
    ApiKey.SASL_HANDSHAKE: OPEN,
    ApiKey.API_VERSIONS: OPEN,
    ApiKey.CREATE_TOPICS: topics.guard_create,
    ApiKey.DELETE_TOPICS: topics.guard_delete,
    ApiKey.DELETE_RECORDS: partitions.guard_delete_records,
    ApiKey.INIT_PRODUCER_ID: transactions.guard_init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: partitions.guard_leader_epoch,
    ApiKey.ADD_PARTITIONS_TO_TXN: transactions.guard_add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: transactions.guard_add_offsets,
    ApiKey.END_TXN: transactions.guard_end_txn,
    ApiKey.WRITE_TXN_MARKERS: cluster.guard_write_txn_markers,
    ApiKey.TXN_OFFSET_COMMIT: offset_commit.guard_txn_commit,
    ApiKey.DESCRIBE_ACLS: ASKS_ITSELF,
    ApiKey.CREATE_ACLS: ASKS_ITSELF,
    ApiKey.DELETE_ACLS: ASKS_ITSELF,
    ApiKey.DESCRIBE_CONFIGS: configs.guard_describe,
    ApiKey.ALTER_CONFIGS: configs.guard_alter,
    ApiKey.DESCRIBE_LOG_DIRS: cluster.guard_describe_log_dirs,
    ApiKey.SASL_AUTHENTICATE: OPEN,
    ApiKey.CREATE_PARTITIONS: topics.guard_create_partitions,
    ApiKey.DELETE_GROUPS: groups.guard_delete,
    ApiKey.ELECT_LEADERS: reassignments.guard_elect,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: configs.guard_incremental_alter,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: reassignments.guard_alter,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: reassignments.guard_list,
    ApiKey.OFFSET_DELETE: partitions.guard_offset_delete,
    ApiKey.DESCRIBE_CLUSTER: cluster.guard_describe,
    ApiKey.DESCRIBE_PRODUCERS: partitions.guard_describe_producers,
    ApiKey.DESCRIBE_TRANSACTIONS: transactions.guard_describe,
    ApiKey.LIST_TRANSACTIONS: transactions.guard_list,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: client_quotas.guard_describe,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: scram_credentials.guard_describe,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: scram_credentials.guard_alter,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_groups.guard_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_groups.guard_describe,
    ApiKey.LIST_CONFIG_RESOURCES: configs.guard_list_resources,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: guard_describe_topic_partitions,
}
"""Every API that is served is here."""


class Authorization:
    """The authorizer of one server, as its handlers meet it."""

    def __init__(self, authorizer: Authorizer, catalogue: Catalogue, config: Config) -> None:
        self._authorizer = authorizer
        self._audit = Audit()
        self._catalogue = catalogue
        self._guards = dict(GUARDS)
        if not config.auto_create_topics_enable:
            self._guards[ApiKey.METADATA] = metadata_guard(creates_topics=False)
        if PROTOCOL not in config.group_coordinator_rebalance_protocols:
            # Everybody is told that first.
            self._guards[ApiKey.CONSUMER_GROUP_HEARTBEAT] = OPEN
            self._guards[ApiKey.CONSUMER_GROUP_DESCRIBE] = OPEN

    def permits_of(self, caller: Caller) -> Permits:
        """What the sender of the request at hand may do."""
        return Permits(self._authorizer, self._audit, self._catalogue, caller)

    def allows(
        self, caller: Caller, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        """Whether it may do one thing: for handlers that ask themselves."""
        return self.permits_of(caller).allows(operation, resource_type, resource_name)

    def guarded(
        self, handlers: Mapping[int, Handler], run_queue: RunQueue, arrival: clock.Arrival
    ) -> dict[int, Handler]:
        """The same handlers behind their guards."""
        guarded: dict[int, Handler] = {}
        for key, handler in handlers.items():
            guard = self._guards[ApiKey(key)]
            if not isinstance(guard, Unguarded):
                handler = Guarded(guard, handler, self.permits_of, run_queue, arrival).handle
            guarded[key] = handler
        return guarded

    def repeated(self, repeat: Repeat) -> Repeat:
        """What knows a request that comes again just so, as long as it was allowed under the ACLs of now."""
        index = self._authorizer.index

        def repeated(request: Any, response: Any, caller: Caller) -> Callable[[int], bool] | None:
            is_well = repeat(request, response, caller)
            if is_well is None:
                return None
            epoch = index.epoch

            def is_well_and_allowed(monotonic_ms: int) -> bool:
                return index.epoch == epoch and is_well(monotonic_ms)

            return is_well_and_allowed

        return repeated
