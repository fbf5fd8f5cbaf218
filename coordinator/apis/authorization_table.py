"""The rights that the request of each API needs.

Read a row as Kafka's documentation has it ("Operations and Resources on Protocols"): operation, resource, and the
field of the request with the name of the resource. The first right that a client lacks is the error of its request,
or of the element. The documentation of permissions is generated from this table.

Source: Kafka's `KafkaApis`, `ControllerApis`, and `getErrorResponse` of its requests.
"""

from collections.abc import Mapping
from functools import partial
from operator import attrgetter
from typing import Any, Final

from coordinator.apis.auth_helper import AuthHelper
from coordinator.apis.authorization_rules import (
    CustomGuard,
    NoGuard,
    PerElement,
    PerEntry,
    Require,
    Rule,
    WholeRequest,
    failed_first,
    failed_first_and_merged,
    in_place,
    in_request_order,
    in_steps,
    list_allowed,
    refused_first,
    refused_last,
)
from coordinator.apis.client_guards import (
    guard_add_partitions_to_txn,
    guard_describe_cluster,
    guard_fetch,
    guard_find_coordinator,
    guard_init_producer_id,
    guard_offset_fetch,
    guard_produce,
)
from coordinator.apis.topic_guards import (
    create_metadata_guard,
    guard_alter_configs,
    guard_create_partitions,
    guard_create_topics,
    guard_delete_topics,
    guard_describe_configs,
    guard_describe_topic_partitions,
    guard_incremental_alter_configs,
)
from coordinator.core.time_budget import Budget
from coordinator.security.core.acl import AclOperation, ResourceType
from protocol.apis import ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponseGroup,
)
from protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from protocol.messages.describe_transactions import DescribeTransactionsTransactionState
from protocol.messages.sync_group import SyncGroupRequest

READ, WRITE, CREATE, DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE
ALTER, DESCRIBE, CLUSTER_ACTION = AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.CLUSTER_ACTION
DESCRIBE_CONFIGS, ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS
IDEMPOTENT_WRITE = AclOperation.IDEMPOTENT_WRITE
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID

_READ_GROUP: Final = Require(READ, GROUP, "group_id")
_WRITE_TRANSACTION: Final = Require(WRITE, TRANSACTIONAL_ID, "transactional_id")
_ALTER_CLUSTER: Final = Require(ALTER, CLUSTER)
_DESCRIBE_CLUSTER: Final = Require(DESCRIBE, CLUSTER)
_DESCRIBE_CLUSTER_CONFIGS: Final = Require(DESCRIBE_CONFIGS, CLUSTER)
_CLUSTER_ACTION: Final = Require(CLUSTER_ACTION, CLUSTER)

_PROTOCOL_SINCE: Final = 5
"""The version of SyncGroup that must name its protocol."""
_HIDDEN_TOPICS: Final = "The group has described topic(s) that the client is not authorized to describe."


def _lacks_protocol(request: SyncGroupRequest, version: int) -> bool:
    """Return whether a SyncGroup does not name its protocol, which Kafka reports before a missing right."""
    return version >= _PROTOCOL_SINCE and None in (request.protocol_type, request.protocol_name)


async def _show_group(
    group: DescribedGroup, _: DescribeGroupsRequest, helper: AuthHelper, __: Budget
) -> DescribedGroup:
    """Set the authorized operations of a group."""
    if group.error_code == ErrorCode.NONE:
        group.authorized_operations = helper.find_authorized_operations(GROUP, group.group_id)
    return group


async def _show_consumer_group(
    group: ConsumerGroupDescribeResponseGroup,
    request: ConsumerGroupDescribeRequest,
    helper: AuthHelper,
    budget: Budget,
) -> ConsumerGroupDescribeResponseGroup:
    """Replace a group by an error if a member has a topic that the client may not describe."""
    if group.error_code != ErrorCode.NONE:
        return group
    names: dict[str, None] = {}
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            names.update(dict.fromkeys([topic.topic_name for topic in assignment.topic_partitions]))
        await budget.checkpoint()
    for step in in_steps(list(names)):
        if not all(helper.allows(DESCRIBE, TOPIC, name) for name in step):
            return helper.build_denied_entry(
                ConsumerGroupDescribeResponseGroup,
                group.group_id,
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                _HIDDEN_TOPICS,
            )
        await budget.checkpoint()
    if request.include_authorized_operations:
        group.authorized_operations = helper.find_authorized_operations(GROUP, group.group_id)
    return group


async def _show_transaction(
    state: DescribeTransactionsTransactionState, _: Any, helper: AuthHelper, budget: Budget
) -> DescribeTransactionsTransactionState:
    """Omit the topics that the client may not describe."""
    allows = partial(helper.allows, DESCRIBE, TOPIC)
    state.topics = await list_allowed(state.topics, allows, attrgetter("topic"), budget)
    return state


_GROUPS: Final[Mapping[ApiKey, Rule]] = {
    # The handler looks up the topics that match a regular expression of the group.
    ApiKey.JOIN_GROUP: WholeRequest((_READ_GROUP,), lends_description=True),
    ApiKey.SYNC_GROUP: WholeRequest((_READ_GROUP,), unless=_lacks_protocol),
    ApiKey.HEARTBEAT: WholeRequest((_READ_GROUP,)),
    ApiKey.LEAVE_GROUP: WholeRequest((_READ_GROUP,)),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: WholeRequest(
        (_READ_GROUP,),
        requires_each=Require(DESCRIBE, TOPIC, "subscribed_topic_names"),
        lends_description=True,
    ),
    ApiKey.FIND_COORDINATOR: CustomGuard(
        guard_find_coordinator, (Require(DESCRIBE, GROUP), Require(DESCRIBE, TRANSACTIONAL_ID))
    ),
    ApiKey.LIST_GROUPS: PerEntry(
        "groups", DESCRIBE, GROUP, "group_id", covered_by=_DESCRIBE_CLUSTER, logs_denied=False
    ),
    ApiKey.DESCRIBE_GROUPS: PerElement(
        "groups",
        DESCRIBE,
        GROUP,
        order=refused_first,
        show=_show_group,
        show_if="include_authorized_operations",
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: PerElement(
        "group_ids",
        DESCRIBE,
        GROUP,
        order=refused_first,
        show=_show_consumer_group,
        shown_rights=(Require(DESCRIBE, TOPIC),),
    ),
    ApiKey.DELETE_GROUPS: PerElement("groups_names", DELETE, GROUP, is_distinct=True),
    ApiKey.OFFSET_COMMIT: PerElement(
        "topics",
        READ,
        TOPIC,
        "name",
        before=(_READ_GROUP,),
        order=failed_first_and_merged,
        topic_ids_since=10,
    ),
    ApiKey.OFFSET_FETCH: CustomGuard(
        guard_offset_fetch, (Require(DESCRIBE, GROUP), Require(DESCRIBE, TOPIC))
    ),
    # The group gets the request in any case: its error takes precedence.
    ApiKey.OFFSET_DELETE: PerElement(
        "topics",
        READ,
        TOPIC,
        "name",
        before=(Require(DELETE, GROUP, "group_id"),),
        order=failed_first,
        handles_empty=True,
    ),
}
_TRANSACTIONS: Final[Mapping[ApiKey, Rule]] = {
    ApiKey.INIT_PRODUCER_ID: CustomGuard(
        guard_init_producer_id,
        (Require(WRITE, TRANSACTIONAL_ID), Require(WRITE, TOPIC), Require(IDEMPOTENT_WRITE, CLUSTER)),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: CustomGuard(
        guard_add_partitions_to_txn,
        (Require(WRITE, TRANSACTIONAL_ID), Require(WRITE, TOPIC), Require(CLUSTER_ACTION, CLUSTER)),
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: WholeRequest((_WRITE_TRANSACTION, _READ_GROUP)),
    ApiKey.TXN_OFFSET_COMMIT: PerElement(
        "topics",
        READ,
        TOPIC,
        "name",
        before=(_WRITE_TRANSACTION, _READ_GROUP),
        order=failed_first_and_merged,
        topic_ids_since=6,
    ),
    ApiKey.END_TXN: WholeRequest((_WRITE_TRANSACTION,)),
    ApiKey.WRITE_TXN_MARKERS: WholeRequest((_CLUSTER_ACTION,), covered_by=_ALTER_CLUSTER),
    ApiKey.DESCRIBE_TRANSACTIONS: PerElement(
        "transactional_ids",
        DESCRIBE,
        TRANSACTIONAL_ID,
        order=in_place,
        show=_show_transaction,
        shown_rights=(Require(DESCRIBE, TOPIC),),
    ),
    ApiKey.LIST_TRANSACTIONS: PerEntry("transaction_states", DESCRIBE, TRANSACTIONAL_ID, "transactional_id"),
}
_RECORDS: Final[Mapping[ApiKey, Rule]] = {
    ApiKey.PRODUCE: CustomGuard(guard_produce, (Require(WRITE, TRANSACTIONAL_ID), Require(WRITE, TOPIC))),
    ApiKey.FETCH: CustomGuard(guard_fetch, (Require(READ, TOPIC), Require(CLUSTER_ACTION, CLUSTER))),
    ApiKey.LIST_OFFSETS: PerElement("topics", DESCRIBE, TOPIC, "name"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: PerElement(
        "topics", DESCRIBE, TOPIC, "topic", covered_by=_CLUSTER_ACTION
    ),
    ApiKey.DELETE_RECORDS: PerElement("topics", DELETE, TOPIC, "name", order=refused_last),
    ApiKey.DESCRIBE_PRODUCERS: PerElement(
        "topics", READ, TOPIC, "name", order=in_request_order, has_message=True
    ),
}
_TOPICS: Final[Mapping[ApiKey, Rule]] = {
    ApiKey.METADATA: CustomGuard(
        create_metadata_guard(creates_topics=True),
        (
            Require(DESCRIBE, TOPIC),
            Require(CREATE, CLUSTER),
            Require(CREATE, TOPIC),
            Require(DESCRIBE, CLUSTER),
        ),
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: CustomGuard(
        guard_describe_topic_partitions, (Require(DESCRIBE, TOPIC),)
    ),
    ApiKey.CREATE_TOPICS: CustomGuard(
        guard_create_topics,
        (Require(CREATE, CLUSTER), Require(CREATE, TOPIC), Require(DESCRIBE_CONFIGS, TOPIC)),
    ),
    ApiKey.CREATE_PARTITIONS: CustomGuard(guard_create_partitions, (Require(ALTER, TOPIC),)),
    ApiKey.DELETE_TOPICS: CustomGuard(
        guard_delete_topics, (Require(DELETE, CLUSTER), Require(DESCRIBE, TOPIC), Require(DELETE, TOPIC))
    ),
    ApiKey.DESCRIBE_CONFIGS: CustomGuard(
        guard_describe_configs,
        (
            Require(DESCRIBE_CONFIGS, TOPIC),
            Require(DESCRIBE_CONFIGS, GROUP),
            Require(DESCRIBE_CONFIGS, CLUSTER),
        ),
    ),
    ApiKey.ALTER_CONFIGS: CustomGuard(
        guard_alter_configs,
        (Require(ALTER_CONFIGS, TOPIC), Require(ALTER_CONFIGS, GROUP), Require(ALTER_CONFIGS, CLUSTER)),
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: CustomGuard(
        guard_incremental_alter_configs,
        (Require(ALTER_CONFIGS, TOPIC), Require(ALTER_CONFIGS, GROUP), Require(ALTER_CONFIGS, CLUSTER)),
    ),
    ApiKey.LIST_CONFIG_RESOURCES: WholeRequest((_DESCRIBE_CLUSTER_CONFIGS,)),
}
_CLUSTER: Final[Mapping[ApiKey, Rule]] = {
    ApiKey.API_VERSIONS: NoGuard(),
    ApiKey.SASL_HANDSHAKE: NoGuard(),
    ApiKey.SASL_AUTHENTICATE: NoGuard(),
    ApiKey.DESCRIBE_CLUSTER: CustomGuard(guard_describe_cluster, (Require(DESCRIBE, CLUSTER),)),
    # Versions below 3 have no error field: their response lists no directories.
    ApiKey.DESCRIBE_LOG_DIRS: WholeRequest((_DESCRIBE_CLUSTER,)),
    ApiKey.ELECT_LEADERS: WholeRequest((_ALTER_CLUSTER,), has_message=True),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: WholeRequest((_ALTER_CLUSTER,), has_message=True),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: WholeRequest((_DESCRIBE_CLUSTER,), has_message=True),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: WholeRequest((_DESCRIBE_CLUSTER_CONFIGS,), has_message=True),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: WholeRequest((_DESCRIBE_CLUSTER,)),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: WholeRequest((_ALTER_CLUSTER,), has_message=True),
    ApiKey.DESCRIBE_ACLS: NoGuard((Require(DESCRIBE, CLUSTER),)),
    ApiKey.CREATE_ACLS: NoGuard((Require(ALTER, CLUSTER),)),
    ApiKey.DELETE_ACLS: NoGuard((Require(ALTER, CLUSTER),)),
}
RULES: Final[Mapping[ApiKey, Rule]] = _GROUPS | _TRANSACTIONS | _RECORDS | _TOPICS | _CLUSTER  # type: ignore[operator]
"""The rule of every API that is served."""
