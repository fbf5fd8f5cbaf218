"""The rules of authorization beside the decisions of their guards, and beside Kafka's published table."""

import re

import pytest

from coordinator.apis.authorization_table import RULES
from coordinator.security.core.acl import AclOperation, ResourceType
from protocol.apis import APIS, Api, ApiKey
from tests.apis.authorization_recording import Rights, read

RECORDED = read()
RESOURCES = {
    "Topic": "TOPIC",
    "Group": "GROUP",
    "Cluster": "CLUSTER",
    "TransactionalId": "TRANSACTIONAL_ID",
}
"""The names of types of resources in the audit log and in Kafka's table."""
LOGGED = re.compile(r"[+-](\w+) (\w+):LITERAL:")

PUBLISHED = {
    ApiKey.PRODUCE: "Write TransactionalId, IdempotentWrite Cluster, Write Topic",
    ApiKey.FETCH: "ClusterAction Cluster, Read Topic",
    ApiKey.LIST_OFFSETS: "Describe Topic",
    ApiKey.METADATA: "Describe Topic, Create Cluster, Create Topic",
    ApiKey.OFFSET_COMMIT: "Read Group, Read Topic",
    ApiKey.OFFSET_FETCH: "Describe Group, Describe Topic",
    ApiKey.FIND_COORDINATOR: "Describe Group, Describe TransactionalId",
    ApiKey.JOIN_GROUP: "Read Group",
    ApiKey.HEARTBEAT: "Read Group",
    ApiKey.LEAVE_GROUP: "Read Group",
    ApiKey.SYNC_GROUP: "Read Group",
    ApiKey.DESCRIBE_GROUPS: "Describe Group",
    ApiKey.LIST_GROUPS: "Describe Cluster, Describe Group",
    ApiKey.SASL_HANDSHAKE: "",
    ApiKey.API_VERSIONS: "",
    ApiKey.CREATE_TOPICS: "Create Cluster, Create Topic",
    ApiKey.DELETE_TOPICS: "Delete Topic",
    ApiKey.DELETE_RECORDS: "Delete Topic",
    ApiKey.INIT_PRODUCER_ID: "Write TransactionalId, IdempotentWrite Cluster",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "ClusterAction Cluster, Describe Topic",
    ApiKey.ADD_PARTITIONS_TO_TXN: "Write TransactionalId, Write Topic",
    ApiKey.ADD_OFFSETS_TO_TXN: "Write TransactionalId, Read Group",
    ApiKey.END_TXN: "Write TransactionalId",
    ApiKey.WRITE_TXN_MARKERS: "Alter Cluster, ClusterAction Cluster",
    ApiKey.TXN_OFFSET_COMMIT: "Write TransactionalId, Read Group, Read Topic",
    ApiKey.DESCRIBE_ACLS: "Describe Cluster",
    ApiKey.CREATE_ACLS: "Alter Cluster",
    ApiKey.DELETE_ACLS: "Alter Cluster",
    ApiKey.DESCRIBE_CONFIGS: "DescribeConfigs Cluster, DescribeConfigs Topic",
    ApiKey.ALTER_CONFIGS: "AlterConfigs Cluster, AlterConfigs Topic",
    ApiKey.DESCRIBE_LOG_DIRS: "Describe Cluster",
    ApiKey.SASL_AUTHENTICATE: "",
    ApiKey.CREATE_PARTITIONS: "Alter Topic",
    ApiKey.DELETE_GROUPS: "Delete Group",
    ApiKey.ELECT_LEADERS: "ClusterAction Cluster",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "AlterConfigs Cluster, AlterConfigs Topic",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "Alter Cluster",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "Describe Cluster",
    ApiKey.OFFSET_DELETE: "Delete Group, Read Topic",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "DescribeConfigs Cluster",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "Describe Cluster",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "Alter Cluster",
    ApiKey.DESCRIBE_CLUSTER: "Describe Cluster",
    ApiKey.DESCRIBE_PRODUCERS: "Read Topic",
    ApiKey.DESCRIBE_TRANSACTIONS: "Describe TransactionalId",
    ApiKey.LIST_TRANSACTIONS: "Describe TransactionalId",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "Read Group",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "Read Group",
    ApiKey.LIST_CONFIG_RESOURCES: "DescribeConfigs Cluster",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "Describe Topic",
}
"""The section "Operations and Resources on Protocols" of the documentation of Apache Kafka 4."""

DIFFERENCES = {
    # Since KIP-679 a broker checks the right to be idempotent in InitProducerId only.
    ApiKey.PRODUCE: ("IdempotentWrite Cluster", ""),
    # The authorized operations of the cluster (KIP-430).
    ApiKey.METADATA: ("", "Describe Cluster"),
    # Topics that match a regular expression (KIP-848).
    ApiKey.JOIN_GROUP: ("", "Describe Topic"),
    ApiKey.CREATE_TOPICS: ("", "DescribeConfigs Topic"),
    ApiKey.DELETE_TOPICS: ("", "Delete Cluster, Describe Topic"),
    # A producer that may write to any topic may be idempotent (KIP-679).
    ApiKey.INIT_PRODUCER_ID: ("", "Write Topic"),
    # Brokers verify transactions (KIP-890).
    ApiKey.ADD_PARTITIONS_TO_TXN: ("", "ClusterAction Cluster"),
    # The configs of groups (KIP-1008).
    ApiKey.DESCRIBE_CONFIGS: ("", "DescribeConfigs Group"),
    ApiKey.ALTER_CONFIGS: ("", "AlterConfigs Group"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ("", "AlterConfigs Group"),
    # The published table has the row of the former ElectPreferredLeaders. ControllerApis checks ALTER.
    ApiKey.ELECT_LEADERS: ("ClusterAction Cluster", "Alter Cluster"),
    ApiKey.DESCRIBE_TRANSACTIONS: ("", "Describe Topic"),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ("", "Describe Topic"),
    # KafkaApis checks DESCRIBE of the group, and of the topics of its members.
    ApiKey.CONSUMER_GROUP_DESCRIBE: ("Read Group", "Describe Group, Describe Topic"),
}
"""By API, the rights of the published table that Kafka's code and groupd do not check, and the further rights that
they check."""


def parse_rights(text: str) -> set[tuple[str, str]]:
    """Return the operations and resources of a row, such as "Read Group, Read Topic"."""
    rights = set()
    for right in filter(None, text.split(", ")):
        operation, resource = right.split()
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).upper()
        rights.add((AclOperation[name].name, ResourceType[RESOURCES[resource]].name))
    return rights


def declared_rights(key: ApiKey) -> set[tuple[str, str]]:
    """Return the operations and resources that the rule of an API lists."""
    return {(right.operation.name, right.resource.name) for right in RULES[key].list_rights()}


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_the_rights_of_a_rule_are_those_of_kafkas_documentation_but_for_known_differences(api: Api) -> None:
    missing, added = map(parse_rights, DIFFERENCES.get(api.key, ("", "")))
    published = parse_rights(PUBLISHED[api.key])
    assert missing <= published
    assert not added & published
    assert declared_rights(api.key) == published - missing | added


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_a_rule_lists_the_rights_that_its_guard_checks(api: Api) -> None:
    cases = RECORDED[api.name]
    logged = {
        (operation, RESOURCES[resource])
        for case in cases
        for operation, resource in LOGGED.findall(case.audit)
    }
    checked = {
        (operation, resource)
        for case in cases
        for right in Rights(case.granted).named
        for operation, resource in [tuple(right.split()[:: 2 if " any " in right else 1][:2])]
    }
    if not api.name.endswith("Acls"):  # their handlers check
        assert logged <= declared_rights(api.key) <= checked
