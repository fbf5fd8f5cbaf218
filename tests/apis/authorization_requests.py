"""The requests of the authorization recording, and the responses of the handler that stands behind the guards.

Arrays of topics, groups, transactional ids and users have the elements a, b, a again and x. The topics a and b
exist.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from protocol.apis import Api, ApiKey
from protocol.codec import encode
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseMember,
    ConsumerGroupDescribeResponseTopicPartitions,
)
from protocol.messages.describe_topic_partitions import Cursor
from protocol.messages.describe_transactions import DescribeTransactionsTopicData
from protocol.messages.fetch import ReplicaState
from protocol.messages.list_groups import ListedGroup
from protocol.messages.list_transactions import ListTransactionsTransactionState
from protocol.messages.metadata import MetadataRequestTopic, MetadataResponseTopic
from protocol.messages.offset_fetch import (
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from protocol.schema import FieldLayout, FieldType, layout

TOPICS: Final = ("a", "b")
_ELEMENTS: Final = ("a", "b", "a", "x")
_INNER_ELEMENTS: Final = ("a", "b")
"""Of an array within an array."""
TOPIC_IDS: Final = {name: bytes([ord(name)]) * 16 for name in _ELEMENTS}
_NAMES: Final = {topic_id: name for name, topic_id in TOPIC_IDS.items() if name in TOPICS}
_CONFIG_RESOURCES: Final = ((2, "a"), (2, "b"), (32, "a"), (4, "1"), (8, "1"), (16, "m"), (99, "?"), (2, "a"))
"""Topics, a group, a broker, its logger, client metrics, and a type that does not exist."""
_TOP_LEVEL: Final = {
    "group_id": "g",
    "transactional_id": "t",
    "v3_and_below_transactional_id": "t",
    "key": "a",
}
_BATCH: Final = bytes(16) + b"\2" + bytes(40)
_TRANSACTIONAL_BATCH: Final = bytes(16) + b"\2" + bytes(5) + b"\x10" + bytes(40)
_GROUPS_OF_OFFSET_FETCH_SINCE: Final = 8
_MARKED: Final = 1
"""The authorized operations in a response of the handler, which the guard replaces."""
_READ_AGAIN: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class Variant(Struct, frozen=True):
    """A form of the request of an API."""

    name: str = "plain"
    fields: Mapping[str, Any] = {}
    """Values of fields of the request itself."""
    properties: Mapping[str, str] = {}
    """The configuration of the server."""
    handler_error: ErrorCode | None = None
    """The error of the handler; None: it answers each element."""
    records: bytes = _BATCH
    first_version: int = 0
    reads_all_topics: bool = False
    """Whether each group of an OffsetFetch names no topics."""


_NAMED: Final = [MetadataRequestTopic(name=name) for name in _ELEMENTS]
_PLAIN: Final = Variant()
_FAILED: Final = Variant("the handler refuses", handler_error=_READ_AGAIN)
_VARIANTS: Final[Mapping[ApiKey, tuple[Variant, ...]]] = {
    ApiKey.PRODUCE: (
        Variant("acks=1", {"acks": 1}),
        Variant("acks=0", {"acks": 0}),
        Variant("transactional, acks=1", {"acks": 1}, records=_TRANSACTIONAL_BATCH),
        Variant("transactional, acks=0", {"acks": 0}, records=_TRANSACTIONAL_BATCH),
        Variant(
            "transactional without an id", {"acks": 1, "transactional_id": None}, records=_TRANSACTIONAL_BATCH
        ),
    ),
    ApiKey.FETCH: (
        Variant("a consumer", {"replica_id": -1, "replica_state": None}),
        Variant("a replica", {"replica_id": 2}),
        Variant("a replica with a state", {"replica_state": ReplicaState(replica_id=2)}),
    ),
    ApiKey.METADATA: (
        Variant("topics"),
        Variant("named topics", {"topics": _NAMED, "include_topic_authorized_operations": False}),
        Variant("named topics, not created", {"topics": _NAMED, "allow_auto_topic_creation": False}),
        Variant(
            "a server that creates no topics", {"topics": _NAMED}, {"auto.create.topics.enable": "false"}
        ),
        Variant("all topics", {"topics": None}),
        Variant(
            "all topics without operations", {"topics": None, "include_topic_authorized_operations": False}
        ),
        Variant("no topics", {"topics": []}),
        Variant(
            "topics by id",
            {"topics": [MetadataRequestTopic(topic_id=each) for each in TOPIC_IDS.values()]},
            first_version=10,
        ),
        Variant("a topic without a name", {"topics": [MetadataRequestTopic()]}, first_version=10),
    ),
    ApiKey.OFFSET_FETCH: (
        _PLAIN,
        Variant("all topics", {"topics": None}),
        Variant("all topics of groups", first_version=8, reads_all_topics=True),
        _FAILED,
    ),
    ApiKey.FIND_COORDINATOR: (
        Variant("groups", {"key_type": 0}),
        Variant("transactions", {"key_type": 1}),
        Variant("an unknown type", {"key_type": 2}),
    ),
    ApiKey.SYNC_GROUP: (_PLAIN, Variant("no protocol", {"protocol_name": None})),
    ApiKey.INIT_PRODUCER_ID: (_PLAIN, Variant("idempotent", {"transactional_id": None})),
    ApiKey.DESCRIBE_GROUPS: (
        _PLAIN,
        Variant("without operations", {"include_authorized_operations": False}),
        _FAILED,
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (
        _PLAIN,
        Variant("without operations", {"include_authorized_operations": False}),
        Variant("the protocol is off", properties={"group.coordinator.rebalance.protocols": "classic"}),
        _FAILED,
    ),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (
        _PLAIN,
        Variant("no subscription", {"subscribed_topic_names": None}),
        Variant("the protocol is off", properties={"group.coordinator.rebalance.protocols": "classic"}),
    ),
    ApiKey.DESCRIBE_CLUSTER: (
        _PLAIN,
        Variant("without operations", {"include_cluster_authorized_operations": False}),
        _FAILED,
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (
        Variant(fields={"cursor": None}),
        Variant("a cursor", {"cursor": Cursor(topic_name="b", partition_index=1)}),
        Variant("a cursor at another topic", {"cursor": Cursor(topic_name="aa", partition_index=1)}),
        Variant("all topics", {"topics": [], "cursor": None}),
        Variant(
            "all topics after a cursor",
            {"topics": [], "cursor": Cursor(topic_name="aa", partition_index=1)},
        ),
    ),
}


def list_variants(api: Api, version: int) -> list[Variant]:
    """Return the forms of a request that a version has."""
    fields = {field.name: field for field in layout(api.request, version)}
    variants = _VARIANTS.get(api.key, (_PLAIN, _FAILED))
    return [
        variant
        for number, variant in enumerate(variants)
        if version >= variant.first_version
        and (not number or all(_accepts(fields.get(name), value) for name, value in variant.fields.items()))
    ]


def _accepts(field: FieldLayout | None, value: object) -> bool:
    if field is None:
        return False
    return value is not None or field.type.nullable or field.type.struct_class is not None


def encode_request(api: Api, version: int, variant: Variant) -> bytes:
    """Return the body of a request in which nothing is empty but for the fields of its variant."""
    key = api.key, version, variant.name
    body = _BODIES.get(key)
    if body is None:
        body = _BODIES[key] = encode(_create_request(api.request, version, variant), version)
    return body


_BODIES: Final[dict[tuple[ApiKey, int, str], bytes]] = {}


def _create_request(cls: type[Any], version: int, variant: Variant) -> Any:
    fields = layout(cls, version)
    values = {
        field.name: _TOP_LEVEL.get(field.name) or _fill(field.type, version, "a", _ELEMENTS)
        for field in fields
    }
    values |= {field.name: variant.fields[field.name] for field in fields if field.name in variant.fields}
    request = cls(**values)
    for topic in getattr(request, "topic_data", ()):
        for partition in topic.partition_data:
            partition.records = variant.records
    for group in getattr(request, "groups", ()) if variant.reads_all_topics else ():
        group.topics = None
    if hasattr(request, "resources"):
        plain = request.resources[0]
        request.resources = [
            replace(plain, resource_type=resource_type, resource_name=name)
            for resource_type, name in _CONFIG_RESOURCES
        ]
    return request


def _fill(field: FieldType, version: int, element: str, elements: tuple[str, ...]) -> Any:
    """Return the value of a field in the entry of an element. `elements` are those of the arrays below it."""
    if field.struct_class is not None:
        fields = layout(field.struct_class, version)
        return field.struct_class(
            **{each.name: _fill(each.type, version, element, _INNER_ELEMENTS) for each in fields}
        )
    if field.element is not None:
        return [_fill(field.element, version, each, _INNER_ELEMENTS) for each in elements]
    if field.kind.letter == "?":
        return True
    if field.kind.letter:
        return _ELEMENTS.index(element)
    if field.kind.name == "uuid":
        return TOPIC_IDS[element]
    return element if field.kind.name == "string" else b"\1\2"


def answer_elements(key: ApiKey, request: Any, version: int, response: Any) -> Any:
    """Complete a response without errors: entries that the request does not name, errors of unknown topics, and
    the fields that a guard may replace."""
    complete = _COMPLETIONS.get(key)
    if complete is not None:
        complete(request, version, response)
    return response


def _list_groups(_: Any, __: int, response: Any) -> None:
    response.groups = [ListedGroup(group_id=name, protocol_type="consumer") for name in _ELEMENTS]


def _list_transactions(_: Any, __: int, response: Any) -> None:
    response.transaction_states = [
        ListTransactionsTransactionState(transactional_id=name, producer_id=1, transaction_state="Ongoing")
        for name in _ELEMENTS
    ]


def _describe_transactions(_: Any, __: int, response: Any) -> None:
    for state in response.transaction_states:
        state.topics = [DescribeTransactionsTopicData(topic=name, partitions=[0]) for name in TOPICS]


def _describe_metadata(request: Any, version: int, response: Any) -> None:
    if not request.topics and (request.topics is None or version == 0):
        response.topics = [
            MetadataResponseTopic(error_code=0, name=name, topic_id=TOPIC_IDS[name], partitions=[])
            for name in TOPICS
        ]
    for topic in response.topics:
        topic.name = topic.name or _NAMES.get(topic.topic_id, "" if version < 12 else None)
        topic.error_code = 0 if topic.name in TOPICS else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic.name in TOPICS and request.include_topic_authorized_operations:
            topic.topic_authorized_operations = _MARKED


def _describe_topic_partitions(request: Any, _: int, response: Any) -> None:
    for topic in response.topics:
        if topic.name in TOPICS:
            topic.topic_authorized_operations = _MARKED
        else:
            topic.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _describe_cluster(request: Any, _: int, response: Any) -> None:
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = _MARKED


def _describe_groups(request: Any, _: int, response: Any) -> None:
    for group in response.groups:
        if group.group_id == "x":
            group.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        elif request.include_authorized_operations:
            group.authorized_operations = _MARKED


def _describe_consumer_groups(request: Any, version: int, response: Any) -> None:
    _describe_groups(request, version, response)
    for group in response.groups:
        assigned = [name for name in TOPICS if name <= group.group_id]
        group.members = [
            ConsumerGroupDescribeResponseMember(
                member_id="m",
                member_epoch=1,
                client_id="c",
                client_host="/h",
                subscribed_topic_names=assigned,
                assignment=_assign(assigned[:1]),
                target_assignment=_assign(assigned),
            )
        ]


def _assign(names: list[str]) -> ConsumerGroupDescribeResponseAssignment:
    return ConsumerGroupDescribeResponseAssignment(
        topic_partitions=[
            ConsumerGroupDescribeResponseTopicPartitions(
                topic_id=TOPIC_IDS[name], topic_name=name, partitions=[0]
            )
            for name in names
        ]
    )


def _refuse_unknown_topics(_: Any, __: int, response: Any) -> None:
    for topic in response.topics:
        if topic.name not in TOPICS:
            for partition in topic.partitions:
                partition.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _fetch_offsets(request: Any, version: int, response: Any) -> None:
    offset: dict[str, Any] = {"partition_index": 0, "committed_offset": 5, "metadata": "", "error_code": 0}
    if version < _GROUPS_OF_OFFSET_FETCH_SINCE:
        if request.topics is None:
            partitions = [OffsetFetchResponsePartition(**offset)]
            response.topics = [OffsetFetchResponseTopic(name=name, partitions=partitions) for name in TOPICS]
        return
    for asked, group in zip(request.groups, response.groups, strict=True):
        if asked.topics is None:
            group.topics = [
                OffsetFetchResponseTopics(
                    name=name, topic_id=TOPIC_IDS[name], partitions=[OffsetFetchResponsePartitions(**offset)]
                )
                for name in TOPICS
            ]


def _create_topics(request: Any, _: int, response: Any) -> None:
    names = Counter(topic.name for topic in request.topics)
    for topic in response.topics:
        if names[topic.name] > 1:
            topic.error_code = ErrorCode.INVALID_REQUEST
        topic.num_partitions = topic.replication_factor = 3


_COMPLETIONS: Final[Mapping[ApiKey, Callable[[Any, int, Any], None]]] = {
    ApiKey.METADATA: _describe_metadata,
    ApiKey.OFFSET_COMMIT: _refuse_unknown_topics,
    ApiKey.OFFSET_FETCH: _fetch_offsets,
    ApiKey.DESCRIBE_GROUPS: _describe_groups,
    ApiKey.LIST_GROUPS: _list_groups,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.TXN_OFFSET_COMMIT: _refuse_unknown_topics,
    ApiKey.OFFSET_DELETE: _refuse_unknown_topics,
    ApiKey.DESCRIBE_CLUSTER: _describe_cluster,
    ApiKey.DESCRIBE_TRANSACTIONS: _describe_transactions,
    ApiKey.LIST_TRANSACTIONS: _list_transactions,
    ApiKey.CONSUMER_GROUP_DESCRIBE: _describe_consumer_groups,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _describe_topic_partitions,
}
