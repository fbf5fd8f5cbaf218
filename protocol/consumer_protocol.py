"""The "consumer" protocol: the contents of JoinGroup metadata and SyncGroup assignments of consumers
(KIP-429).

The coordinator reads only one part: the topics to which a member subscribes. It reads the version and the
fields with which every version begins, as Kafka does, so that newer clients are understood.
"""

from struct import Struct
from typing import Final, TypeVar

from protocol.codec import decode_prefix, request_decoder, writer
from protocol.primitives import DecodingBudget, Malformed, TooManyElements
from protocol.schema import (
    Array,
    Int32,
    NullableBytes,
    NullableString,
    String,
    data,
    message_info,
    since,
    struct,
)

PROTOCOL_TYPE: Final = "consumer"
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_TOPICS_AT: Final = _INT16.size + _INT32.size
"""The position after the version and the number of topics, in bytes."""

T = TypeVar("T")


@struct
class TopicPartitions:
    """Partitions of one topic. Kafka's schemas call it TopicPartition."""

    topic: String
    partitions: Array[Int32]


@data(versions="0-3")
class ConsumerProtocolSubscription:
    """v1 owned partitions (KIP-429) · v2 generation (KIP-792) · v3 rack (KIP-881)"""

    topics: Array[String]
    user_data: NullableBytes = since(default=None)
    owned_partitions: Array[TopicPartitions] = since("1+", default=[])
    generation_id: Int32 = since("2+", default=-1)
    rack_id: NullableString = since("3+", default=None)


@data(versions="0-3")
class ConsumerProtocolAssignment:
    """The partitions that are assigned to a member. All versions have the same fields."""

    assigned_partitions: Array[TopicPartitions]
    user_data: NullableBytes = since(default=None)


def encode_subscription(subscription: ConsumerProtocolSubscription, version: int) -> bytes:
    """Encode the subscription of a member, with its version first."""
    out = bytearray(_INT16.pack(version))
    writer(ConsumerProtocolSubscription, version)(subscription, out)
    return bytes(out)


def encode_assignment(assignment: ConsumerProtocolAssignment, version: int) -> bytes:
    """Encode the assignment of a member, with its version first."""
    out = bytearray(_INT16.pack(version))
    writer(ConsumerProtocolAssignment, version)(assignment, out)
    return bytes(out)


def decode_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Decode a subscription; a newer version is read as the newest known one. Raises Malformed."""
    return _decode(ConsumerProtocolSubscription, metadata)


def decode_subscription_within(metadata: bytes, max_elements: int) -> ConsumerProtocolSubscription:
    """Decode the subscription of a client with at most `max_elements` topics, owned topics and owned partitions
    together.

    Raises:
        TooManyElements: the subscription has more; the decoder stops there.
        Malformed: the bytes are not a subscription.
    """
    version, position = _decode_version_prefix(metadata)
    version = min(version, find_newest_version(ConsumerProtocolSubscription))
    budget = DecodingBudget(max_elements, too_many_error=TooManyElements)
    subscription: ConsumerProtocolSubscription = request_decoder(
        ConsumerProtocolSubscription, version, budget
    )(metadata, position)
    return subscription


def decode_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """Decode an assignment. Raises Malformed."""
    return _decode(ConsumerProtocolAssignment, assignment)


def find_subscribed_topics(metadata: bytes) -> list[str]:
    """Decode the topics of a subscription, with which all versions begin. Raises Malformed."""
    return decode_prefix(
        ConsumerProtocolSubscription, 0, metadata, _decode_version_prefix(metadata)[1]
    ).topics


def count_subscribed_topics(metadata: bytes) -> int:
    """Return the number of topics in a subscription, limited by the number that fits into its bytes."""
    counted = metadata[_INT16.size : _TOPICS_AT]
    if len(counted) < _INT32.size:
        return 0
    count: int = _INT32.unpack(counted)[0]
    return max(0, min(count, (len(metadata) - _TOPICS_AT) // _INT16.size))


def decode_version(data: bytes) -> int:
    """Decode the version of a subscription or an assignment. Raises Malformed."""
    return _decode_version_prefix(data)[0]


def find_newest_version(cls: type[T]) -> int:
    """Return the newest version of a subscription or an assignment."""
    return message_info(cls).versions.last


def _decode(cls: type[T], data: bytes) -> T:
    version, position = _decode_version_prefix(data)
    return decode_prefix(cls, min(version, find_newest_version(cls)), data, position)


def _decode_version_prefix(data: bytes) -> tuple[int, int]:
    if len(data) < 2:
        raise Malformed(f"consumer protocol data of {len(data)} bytes")
    version: int = _INT16.unpack_from(data)[0]
    if version < 0:
        raise Malformed(f"consumer protocol version {version}")
    return version, 2
