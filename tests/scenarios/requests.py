"""The commands of a transcript as requests.

    join A protocols=range,sticky topics=orders,payments session=10s rebalance=60s instance=i1 type=consumer
    join A owned=orders:0,orders:1             with what it owns (KIP-429)
    sync A                       a follower's; the leader's names everyone's part:
    sync A A=orders:0,orders:1 B=orders:2
    heartbeat A · leave A · leave admin A instance:i1          leave for others: names, or instances
    commit A orders:0=42 orders:1=7:note                       v8 and before: retention=1h
    txn-commit A orders:0=42 producer=7                        in the transaction of a producer
    end-transaction T commit producer=7 · end-transaction T abort producer=7
    fetch A orders:0 orders:1 · fetch A                        all partitions without names; stable=yes
    describe A g · list A states=Stable · delete A g h · offset-delete A orders:0 · topics-deleted A orders

`group=g` (the default) goes with each. A client that has not joined has no member id and generation -1.
"""

from collections.abc import Callable
from typing import Final

from coordinator.group.group_requests import EndTransaction, FetchOffsets, Request, TopicsChanged
from coordinator.group.topics_image import NO_TOPICS
from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
    encode_assignment,
    encode_subscription,
)
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.scenarios.client import Client, lengthen, milliseconds

NEWEST: Final = {
    "join": 9, "sync": 5, "heartbeat": 4, "leave": 5, "commit": 9, "txn-commit": 5,
    "end-transaction": 0, "fetch": 9, "describe": 6, "list": 5,
    "delete": 3, "offset-delete": 0, "topics-deleted": 0,
}  # fmt: skip

Options = dict[str, str]
Clients = dict[str, Client]


def build(verb: str, client: Client, arguments: list[str], options: Options, clients: Clients) -> Request:
    """The request of one command line."""
    return _BUILDERS[verb](client, arguments, options, clients)


def _member_id(client: Client, options: Options) -> str:
    return lengthen(options["id"]) if "id" in options else client.member_id


def _generation(client: Client, options: Options) -> int:
    return int(options.get("generation", client.generation_id))


def _join(client: Client, _: list[str], options: Options, clients: Clients) -> Request:
    subscription = ConsumerProtocolSubscription(
        topics=options.get("topics", "orders").split(","),
        owned_partitions=_partitions(options.get("owned", "")),
    )
    version = 1 if "owned" in options else 0
    protocol_type = options.get("type", "consumer")
    metadata = encode_subscription(subscription, version) if protocol_type == "consumer" else b"opaque"
    names = [name for name in options.get("protocols", "range").split(",") if name]
    return JoinGroupRequest(
        group_id=options.get("group", "g"),
        session_timeout_ms=milliseconds(options.get("session", "10s")),
        rebalance_timeout_ms=milliseconds(options.get("rebalance", "60s")),
        member_id=_member_id(client, options),
        group_instance_id=options.get("instance"),
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names],
        reason=options.get("reason"),
    )


def _topics(words: list[str]) -> dict[str, list[str]]:
    """`orders:0=42 orders:1=7` by topic: the parts after the colon."""
    topics: dict[str, list[str]] = {}
    for word in words:
        topic, _, rest = word.partition(":")
        topics.setdefault(topic, []).append(rest)
    return topics


def _partitions(text: str) -> list[TopicPartitions]:
    """`orders:0,orders:1`, or nothing."""
    topics = _topics([word for word in text.split(",") if word])
    return [TopicPartitions(topic=name, partitions=list(map(int, topics[name]))) for name in topics]


def _assignment(text: str) -> bytes:
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=_partitions(text)), 0)


def _sync(client: Client, arguments: list[str], options: Options, clients: Clients) -> Request:
    parts = [argument.partition("=") for argument in arguments]
    return SyncGroupRequest(
        group_id=options.get("group", "g"),
        generation_id=_generation(client, options),
        member_id=_member_id(client, options),
        group_instance_id=options.get("instance"),
        protocol_type=options.get("type", "consumer"),
        protocol_name=options.get("protocol", client.protocol_name or "range"),
        assignments=[
            SyncGroupRequestAssignment(
                member_id=clients[name].member_id if name in clients else lengthen(name),
                assignment=_assignment(text),
            )
            for name, _, text in parts
        ],
    )


def _heartbeat(client: Client, _: list[str], options: Options, clients: Clients) -> Request:
    return HeartbeatRequest(
        group_id=options.get("group", "g"),
        generation_id=_generation(client, options),
        member_id=_member_id(client, options),
        group_instance_id=options.get("instance"),
    )


def _leave(client: Client, arguments: list[str], options: Options, clients: Clients) -> Request:
    reason = options.get("reason")
    identities = [MemberIdentity(member_id=_member_id(client, options), reason=reason)]
    identities[0].group_instance_id = options.get("instance")
    if arguments:
        identities = [_identity(word, reason, clients) for word in arguments]
    group_id = options.get("group", "g")
    return LeaveGroupRequest(group_id=group_id, member_id=identities[0].member_id, members=identities)


def _identity(word: str, reason: str | None, clients: Clients) -> MemberIdentity:
    kind, _, instance = word.partition(":")
    if kind == "instance":
        return MemberIdentity(member_id="", group_instance_id=instance, reason=reason)
    return MemberIdentity(
        member_id=clients[word].member_id if word in clients else lengthen(word), reason=reason
    )


def _commit(client: Client, arguments: list[str], options: Options, clients: Clients) -> Request:
    topics = [
        OffsetCommitRequestTopic(name=name, partitions=[_committed(text) for text in texts])
        for name, texts in _topics(arguments).items()
    ]
    return OffsetCommitRequest(
        group_id=options.get("group", "g"),
        generation_id_or_member_epoch=_generation(client, options),
        member_id=_member_id(client, options),
        group_instance_id=options.get("instance"),
        retention_time_ms=milliseconds(options["retention"]) if "retention" in options else -1,
        topics=topics,
    )


def _txn_commit(client: Client, arguments: list[str], options: Options, clients: Clients) -> Request:
    topics = [
        TxnOffsetCommitRequestTopic(
            name=name,
            partitions=[
                TxnOffsetCommitRequestPartition(
                    partition_index=one.partition_index,
                    committed_offset=one.committed_offset,
                    committed_metadata=one.committed_metadata,
                )
                for one in map(_committed, texts)
            ],
        )
        for name, texts in _topics(arguments).items()
    ]
    return TxnOffsetCommitRequest(
        transactional_id=client.name,
        group_id=options.get("group", "g"),
        producer_id=int(options["producer"]),
        producer_epoch=0,
        generation_id_or_member_epoch=_generation(client, options),
        member_id=_member_id(client, options),
        group_instance_id=options.get("instance"),
        topics=topics,
    )


def _end_transaction(_: Client, arguments: list[str], options: Options, clients: Clients) -> Request:
    return EndTransaction(
        int(options["producer"]), 0, 0, is_committed={"commit": True, "abort": False}[arguments[0]]
    )


def _committed(text: str) -> OffsetCommitRequestPartition:
    """`0=42:note`: partition, offset, metadata; a note of `x*5000` is 5,000 times x."""
    partition, _, rest = text.partition("=")
    offset, _, note = rest.partition(":")
    letter, _, times = note.partition("*")
    return OffsetCommitRequestPartition(
        partition_index=int(partition),
        committed_offset=int(offset),
        committed_metadata=letter * int(times or 1),
    )


def _fetch(client: Client, arguments: list[str], options: Options, clients: Clients) -> Request:
    topics = [
        OffsetFetchRequestTopics(name=name, partition_indexes=list(map(int, partitions)))
        for name, partitions in _topics(arguments).items()
    ]
    group = OffsetFetchRequestGroup(group_id=options.get("group", "g"), topics=topics or None)
    return FetchOffsets(group, "stable" in options)


def _list(client: Client, _: list[str], options: Options, clients: Clients) -> Request:
    states = [state for state in options.get("states", "").split(",") if state]
    types = [name for name in options.get("types", "").split(",") if name]
    return ListGroupsRequest(states_filter=states, types_filter=types)


def _offset_delete(client: Client, arguments: list[str], options: Options, clients: Clients) -> Request:
    topics = [
        OffsetDeleteRequestTopic(
            name=name,
            partitions=[OffsetDeleteRequestPartition(partition_index=int(text)) for text in texts],
        )
        for name, texts in _topics(arguments).items()
    ]
    return OffsetDeleteRequest(group_id=options.get("group", "g"), topics=topics)


_BUILDERS: Final[dict[str, Callable[[Client, list[str], Options, Clients], Request]]] = {
    "join": _join,
    "sync": _sync,
    "heartbeat": _heartbeat,
    "leave": _leave,
    "commit": _commit,
    "txn-commit": _txn_commit,
    "end-transaction": _end_transaction,
    "fetch": _fetch,
    "describe": lambda _, arguments, __, ___: DescribeGroupsRequest(groups=arguments),
    "list": _list,
    "delete": lambda _, arguments, __, ___: DeleteGroupsRequest(groups_names=arguments),
    "offset-delete": _offset_delete,
    "topics-deleted": lambda _, arguments, __, ___: TopicsChanged(NO_TOPICS, tuple(arguments)),
}
