"""Values of fields in the requests of attacks, chosen so that requests reach the expensive state of the daemon."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from coordinator.core.clock import wall_ms
from protocol.schema import ZERO_UUID
from storage.batch import encode_batch
from storage.record import Record
from tests.hostile.attacks.attack import Attack
from tests.hostile.attacks.list_fields import Path

TIMEOUT_MS: Final = 30_000
SESSION_TIMEOUT_MS: Final = 1_800_000
TOPIC_RESOURCE: Final = 2
MATCH_EXACT: Final = 0
SHA_256: Final = 1
USER_ENTITY: Final = "user"
READ_OPERATION, ALLOW, LITERAL, DELETE_FILTER_ANY = 3, 3, 3, 1
UPSERT_ITERATIONS: Final = 4096
TIMESTAMP_MS: Final = 1_000
BATCH: Final = encode_batch([Record(-1, wall_ms(), b"k", b"v")])


@dataclass(frozen=True)
class MemberIdentity:
    """A member of a group, as its requests name it."""

    group_id: str = ""
    member_id: str = ""
    epoch: int = -1


@dataclass(frozen=True)
class ProducerIdentity:
    """A producer with an open transaction."""

    transactional_id: str = ""
    producer_id: int = -1
    epoch: int = -1


@dataclass
class DaemonState:
    """Names of the objects that the daemon has. In each list the most expensive one is the first."""

    topics: list[str] = field(default_factory=list)
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    groups: list[str] = field(default_factory=list)
    consumer_groups: list[str] = field(default_factory=list)
    members: list[str] = field(default_factory=list)
    """Members of the first of `groups`."""
    producers: list[ProducerIdentity] = field(default_factory=list)
    acl_resources: list[str] = field(default_factory=list)
    broker_id: int = 0


Value = Callable[["FieldValues", Attack, int], Any]


class FieldValues:
    """Values for one request.

    Args:
        state: the objects that exist.
        member: the member that sends the request, for requests that only a member may send.
        number: another one for each request, for names that must be new.
        creates_topics: whether CreateTopics may succeed.
    """

    def __init__(
        self,
        state: DaemonState,
        number: int = 0,
        member: MemberIdentity | None = None,
        *,
        creates_topics: bool = False,
    ) -> None:
        self.state = state
        self.number = number
        self.creates_topics = creates_topics
        self.member = MemberIdentity() if member is None else member

    def find(self, attack: Attack, path: Path, index: int, siblings: set[str]) -> Any:
        """Return the value of a field, or None when the field has no special one.

        Args:
            path: where the field is, from the request inwards.
            index: which element of the innermost list around the field it belongs to.
            siblings: names of the fields beside it; a topic has its name or its id, not both.
        """
        name = path[-1]
        if name == "topic_id" and siblings & {"name", "topic"}:
            return ZERO_UUID
        value = _BY_PATH.get((attack.list_field.api.name, *path), _BY_NAME.get(name))
        return None if value is None else value(self, attack, index)

    def name_topic(self, index: int) -> str:
        """Return the name of a topic: an existing one as long as there are any."""
        return _choose(self.state.topics, index, "absent-topic")

    def name_new(self, index: int) -> str:
        """Return a name that no other request uses."""
        return f"new-{self.number}-{index}"


def _choose(known: Sequence[str], index: int, absent: str) -> str:
    return known[index] if index < len(known) else f"{absent}-{index}"


def _topic(values: FieldValues, _attack: Attack, index: int) -> str:
    return values.name_topic(index)


def _topic_id(values: FieldValues, _attack: Attack, index: int) -> bytes:
    known = values.state.topic_ids.get(values.name_topic(index))
    return (index + 1).to_bytes(16, "big") if known is None else known


def _group(values: FieldValues, _attack: Attack, index: int) -> str:
    return _choose(values.state.groups, index, "absent-group")


def _consumer_group(values: FieldValues, _attack: Attack, index: int) -> str:
    return _choose(values.state.consumer_groups, index, "absent-group")


def _own_group(values: FieldValues, _attack: Attack, _index: int) -> str:
    return values.member.group_id or values.name_new(0)


def _first_group(values: FieldValues, _attack: Attack, _index: int) -> str:
    return _choose(values.state.groups, 0, "absent-group")


def _member(values: FieldValues, _attack: Attack, index: int) -> str:
    return _choose(values.state.members, index, "absent-member")


def _own_member_id(values: FieldValues, _attack: Attack, _index: int) -> str:
    return values.member.member_id


def _epoch(values: FieldValues, _attack: Attack, _index: int) -> int:
    return values.member.epoch


def _producer(values: FieldValues, index: int) -> ProducerIdentity:
    producers = values.state.producers
    return (
        producers[index] if index < len(producers) else ProducerIdentity(f"absent-{index}", 10**6 + index, 0)
    )


def _first_producer(values: FieldValues, _attack: Attack, _index: int) -> ProducerIdentity:
    return _producer(values, 0)


def _transactional_id(values: FieldValues, _attack: Attack, index: int) -> str:
    return _producer(values, index).transactional_id


def _producer_id(values: FieldValues, _attack: Attack, index: int) -> int:
    return _producer(values, index).producer_id


def _producer_epoch(values: FieldValues, _attack: Attack, index: int) -> int:
    return _producer(values, index).epoch


def _own_transactional_id(values: FieldValues, attack: Attack, index: int) -> str:
    return _first_producer(values, attack, index).transactional_id


def _own_producer_id(values: FieldValues, attack: Attack, index: int) -> int:
    return _first_producer(values, attack, index).producer_id


def _own_producer_epoch(values: FieldValues, attack: Attack, index: int) -> int:
    return _first_producer(values, attack, index).epoch


def _new(values: FieldValues, _attack: Attack, index: int) -> str:
    return values.name_new(index)


def _index(_values: FieldValues, _attack: Attack, index: int) -> int:
    return index


def _config_key(_values: FieldValues, _attack: Attack, index: int) -> str:
    return "retention.ms" if index == 0 else f"absent.key.{index}"


def _resource(values: FieldValues, _attack: Attack, index: int) -> str:
    return values.name_topic(index)


def _partitions_of_new_topic(values: FieldValues, attack: Attack, _index: int) -> int:
    """Version 0 cannot only validate: a number beside assignments makes it invalid."""
    has_assignments = "assignments" in attack.list_field.path
    return -1 if has_assignments and (values.creates_topics or attack.version > 0) else 1


def _grown_count(_values: FieldValues, attack: Attack, _index: int) -> int:
    return 9_000 if "assignments" in attack.list_field.path else 8


def _acl_resource(values: FieldValues, _attack: Attack, index: int) -> str:
    return _choose(values.state.acl_resources, index, "absent-resource")


def _broker(values: FieldValues, _attack: Attack, index: int) -> int:
    return values.state.broker_id + index


def _state_filter(_values: FieldValues, _attack: Attack, index: int) -> str:
    return ("Stable", "Empty")[index] if index < 2 else f"State{index}"


def _type_filter(_values: FieldValues, _attack: Attack, index: int) -> str:
    return ("classic", "consumer")[index] if index < 2 else f"type{index}"


def _subscribed_topic(values: FieldValues, _attack: Attack, index: int) -> str:
    return values.name_topic(index)


def _owned_epoch(values: FieldValues, attack: Attack, _index: int) -> int:
    return values.member.epoch if attack.list_field.path[0] == "topic_partitions" else 0


def _constant(value: Any) -> Value:
    return lambda _values, _attack, _index: value


_BY_NAME: Final[Mapping[str, Value]] = {
    "name": _topic,
    "topic": _topic,
    "topic_name": _topic,
    "topic_names": _topic,
    "topic_id": _topic_id,
    "resource_name": _resource,
    "resource_type": _constant(TOPIC_RESOURCE),
    "partition": _index,
    "partitions": _index,
    "index": _index,
    "partition_index": _index,
    "partition_indexes": _index,
    "group_id": _own_group,
    "member_id": _own_member_id,
    "member_epoch": _epoch,
    "generation_id": _epoch,
    "generation_id_or_member_epoch": _epoch,
    "transactional_ids": _transactional_id,
    "producer_id": _producer_id,
    "producer_epoch": _producer_epoch,
    "timeout_ms": _constant(TIMEOUT_MS),
    "session_timeout_ms": _constant(SESSION_TIMEOUT_MS),
    "rebalance_timeout_ms": _constant(SESSION_TIMEOUT_MS),
    "protocol_type": _constant("consumer"),
    "value": _constant("1000"),
    "committed_offset": _index,
    "timestamp": _constant(TIMESTAMP_MS),
    "partition_max_bytes": _constant(1000),
    "replica_id": _constant(-1),
    "broker_ids": _broker,
    "replicas": _broker,
    "include_synonyms": _constant(True),
    "include_documentation": _constant(True),
    "include_topic_authorized_operations": _constant(True),
    "include_authorized_operations": _constant(True),
    "committed_metadata": _constant("m"),
    "mechanism": _constant(SHA_256),
    "iterations": _constant(UPSERT_ITERATIONS),
    "salt": _constant(b"salt"),
    "salted_password": _constant(bytes(32)),
}
"""Values of fields by their names."""

_BY_PATH: Final[Mapping[tuple[str, ...], Value]] = {
    ("Produce", "acks"): _constant(1),
    ("Produce", "topic_data", "partition_data", "records"): _constant(BATCH),
    ("Fetch", "session_epoch"): _constant(0),
    ("Metadata", "allow_auto_topic_creation"): _constant(False),
    ("OffsetFetch", "group_id"): _first_group,
    ("OffsetFetch", "groups", "group_id"): _group,
    ("OffsetFetch", "groups", "member_id"): _constant(None),
    ("OffsetFetch", "groups", "member_epoch"): _constant(-1),
    ("FindCoordinator", "coordinator_keys"): _group,
    ("JoinGroup", "protocols", "name"): lambda _values, _attack, index: f"protocol-{index}",
    ("JoinGroup", "protocols", "metadata"): _constant(bytes(100)),
    ("LeaveGroup", "group_id"): _first_group,
    ("LeaveGroup", "members", "member_id"): _member,
    ("SyncGroup", "protocol_name"): _constant("range"),
    ("SyncGroup", "assignments", "member_id"): lambda values, _attack, index: (
        f"absent-member-{index}" if index else values.member.member_id
    ),
    ("SyncGroup", "assignments", "assignment"): _constant(bytes(100)),
    ("DescribeGroups", "groups"): _group,
    ("ListGroups", "states_filter"): _state_filter,
    ("ListGroups", "types_filter"): _type_filter,
    ("CreateTopics", "topics", "name"): _new,
    ("CreateTopics", "topics", "num_partitions"): _partitions_of_new_topic,
    ("CreateTopics", "topics", "replication_factor"): _constant(-1),
    ("CreateTopics", "topics", "configs", "name"): _config_key,
    ("CreateTopics", "validate_only"): lambda values, _attack, _index: not values.creates_topics,
    ("CreatePartitions", "topics", "count"): _grown_count,
    ("AddPartitionsToTxn", "v3_and_below_transactional_id"): _own_transactional_id,
    ("AddPartitionsToTxn", "v3_and_below_producer_id"): _own_producer_id,
    ("AddPartitionsToTxn", "v3_and_below_producer_epoch"): _own_producer_epoch,
    ("AddPartitionsToTxn", "transactions", "transactional_id"): _transactional_id,
    ("WriteTxnMarkers", "markers", "producer_id"): lambda _values, _attack, index: 10**6 + index,
    ("WriteTxnMarkers", "markers", "producer_epoch"): _constant(0),
    ("TxnOffsetCommit", "transactional_id"): _own_transactional_id,
    ("TxnOffsetCommit", "producer_id"): _own_producer_id,
    ("TxnOffsetCommit", "producer_epoch"): _own_producer_epoch,
    ("TxnOffsetCommit", "group_id"): _first_group,
    ("CreateAcls", "creations", "resource_name"): _new,
    ("CreateAcls", "creations", "resource_pattern_type"): _constant(LITERAL),
    ("CreateAcls", "creations", "principal"): _constant("User:mallory"),
    ("CreateAcls", "creations", "host"): _constant("*"),
    ("CreateAcls", "creations", "operation"): _constant(READ_OPERATION),
    ("CreateAcls", "creations", "permission_type"): _constant(ALLOW),
    ("DeleteAcls", "filters", "resource_type_filter"): _constant(TOPIC_RESOURCE),
    ("DeleteAcls", "filters", "resource_name_filter"): _acl_resource,
    ("DeleteAcls", "filters", "pattern_type_filter"): _constant(DELETE_FILTER_ANY),
    ("DeleteAcls", "filters", "operation"): _constant(DELETE_FILTER_ANY),
    ("DeleteAcls", "filters", "permission_type"): _constant(DELETE_FILTER_ANY),
    ("DescribeConfigs", "resources", "configuration_keys"): _config_key,
    ("AlterConfigs", "resources", "configs", "name"): _config_key,
    ("IncrementalAlterConfigs", "resources", "configs", "name"): _config_key,
    ("DeleteGroups", "groups_names"): _group,
    ("OffsetDelete", "group_id"): _first_group,
    ("DescribeClientQuotas", "components", "entity_type"): lambda _values, _attack, index: (
        f"entity-{index}" if index else USER_ENTITY
    ),
    ("DescribeClientQuotas", "components", "match_type"): _constant(MATCH_EXACT),
    ("DescribeClientQuotas", "components", "match"): _constant("alice"),
    ("DescribeUserScramCredentials", "users", "name"): _new,
    ("AlterUserScramCredentials", "deletions", "name"): _new,
    ("AlterUserScramCredentials", "upsertions", "name"): _new,
    ("DescribeTransactions", "transactional_ids"): _transactional_id,
    ("ListTransactions", "state_filters"): _state_filter,
    ("ListTransactions", "producer_id_filters"): _producer_id,
    ("ConsumerGroupHeartbeat", "member_epoch"): _owned_epoch,
    ("ConsumerGroupHeartbeat", "subscribed_topic_names"): _subscribed_topic,
    ("ConsumerGroupDescribe", "group_ids"): _consumer_group,
    ("ListConfigResources", "resource_types"): lambda _values, _attack, index: index % 100,
    ("DescribeTopicPartitions", "response_partition_limit"): _constant(2000),
}
"""Values of fields with ambiguous names, by the name of the API and the path."""
