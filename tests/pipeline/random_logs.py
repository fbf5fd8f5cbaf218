"""Random logs: everything that may lie in a partition of `__consumer_offsets`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hypothesis import strategies as st

from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
    encode_assignment,
    encode_subscription,
)
from protocol.records import group_record_schemas as of_consumers
from protocol.records.group_record_schemas import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.records.group_record_serde import Value, encode_key, encode_value
from storage.batch import LOG_APPEND_TIME, encode_batch, read_header, rewrite_batch
from storage.checksum import crc32c
from storage.record import Record

TEXT: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES: Final = st.sampled_from(["g", "group-1", "größe", "日本", ""]) | TEXT
TIMES: Final = st.integers(-2, 2**42) | st.sampled_from([-1, 2**62, -(2**62), 253_402_300_799_999])
INT32: Final = st.integers(-(2**31), 2**31 - 1)
INT64: Final = st.integers(-(2**63), 2**63 - 1)
HEADERS: Final = st.just(()) | st.lists(
    st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=4)), max_size=2
).map(tuple)

OFFSET_KEYS: Final = st.builds(OffsetCommitKey, group=NAMES, topic=NAMES, partition=INT32)
OFFSET_VALUES: Final = st.builds(
    OffsetCommitValue,
    offset=INT64,
    leader_epoch=INT32,
    metadata=TEXT,
    commit_timestamp=TIMES,
    expire_timestamp=TIMES,
    topic_id=st.just(bytes(16)) | st.binary(min_size=16, max_size=16),
)
TOPIC_PARTITIONS: Final = st.lists(
    st.builds(TopicPartitions, topic=NAMES, partitions=st.lists(st.integers(0, 9), max_size=3)), max_size=2
)
SUBSCRIPTIONS: Final = st.builds(
    encode_subscription,
    st.builds(ConsumerProtocolSubscription, topics=st.lists(NAMES, max_size=2), user_data=st.none()),
    st.integers(0, 3),
)
ASSIGNMENTS: Final = st.builds(
    encode_assignment,
    st.builds(ConsumerProtocolAssignment, assigned_partitions=TOPIC_PARTITIONS, user_data=st.none()),
    st.integers(0, 3),
)
MEMBERS: Final = st.builds(
    MemberMetadata,
    member_id=NAMES,
    group_instance_id=st.none() | NAMES,
    client_id=NAMES,
    client_host=NAMES,
    rebalance_timeout=st.integers(-1, 10**6),
    session_timeout=st.integers(0, 10**6),
    subscription=SUBSCRIPTIONS | st.binary(max_size=12),
    assignment=ASSIGNMENTS | st.binary(max_size=12),
)
GROUP_VALUES: Final = st.builds(
    GroupMetadataValue,
    protocol_type=st.sampled_from(["consumer", "connect", ""]),
    generation=INT32,
    protocol=st.none() | NAMES,
    leader=st.none() | NAMES,
    current_state_timestamp=TIMES,
    members=st.lists(MEMBERS, max_size=3),
)


NUMBERS: Final = st.lists(st.integers(0, 9), max_size=3)
UUIDS: Final = st.binary(min_size=16, max_size=16)
CURRENT: Final = st.lists(
    st.builds(
        of_consumers.CurrentTopicPartitions,
        topic_id=UUIDS,
        partitions=NUMBERS,
        assignment_epochs=st.none() | NUMBERS,
    ),
    max_size=2,
)
GROUPS: Final[st.SearchStrategy[dict[str, Any]]] = st.builds(dict, group_id=NAMES)
GROUP_MEMBERS: Final[st.SearchStrategy[dict[str, Any]]] = st.builds(dict, group_id=NAMES, member_id=NAMES)
CONSUMER_GROUPS: Final[
    list[tuple[type[Any], st.SearchStrategy[dict[str, Any]], st.SearchStrategy[Value]]]
] = [
    (
        of_consumers.ConsumerGroupMetadataKey,
        GROUPS,
        st.builds(of_consumers.ConsumerGroupMetadataValue, epoch=INT32, metadata_hash=INT64),
    ),
    (
        of_consumers.ConsumerGroupPartitionMetadataKey,
        GROUPS,
        st.builds(
            of_consumers.ConsumerGroupPartitionMetadataValue,
            topics=st.lists(
                st.builds(
                    of_consumers.TopicMetadata,
                    topic_id=UUIDS,
                    topic_name=NAMES,
                    num_partitions=INT32,
                    partition_metadata=st.just([]),
                ),
                max_size=2,
            ),
        ),
    ),
    (
        of_consumers.ConsumerGroupMemberMetadataKey,
        GROUP_MEMBERS,
        st.builds(
            of_consumers.ConsumerGroupMemberMetadataValue,
            instance_id=st.none() | NAMES,
            rack_id=st.none() | NAMES,
            client_id=NAMES,
            client_host=NAMES,
            subscribed_topic_names=st.lists(NAMES, max_size=2),
            subscribed_topic_regex=st.none() | NAMES,
            rebalance_timeout_ms=INT32,
            server_assignor=st.none() | NAMES,
            classic_member_metadata=st.none()
            | st.builds(
                of_consumers.ClassicMemberMetadata, session_timeout_ms=INT32, supported_protocols=st.just([])
            ),
        ),
    ),
    (
        of_consumers.ConsumerGroupTargetAssignmentMetadataKey,
        GROUPS,
        st.builds(
            of_consumers.ConsumerGroupTargetAssignmentMetadataValue,
            assignment_epoch=INT32,
            assignment_timestamp=TIMES,
        ),
    ),
    (
        of_consumers.ConsumerGroupTargetAssignmentMemberKey,
        GROUP_MEMBERS,
        st.builds(
            of_consumers.ConsumerGroupTargetAssignmentMemberValue,
            topic_partitions=st.lists(
                st.builds(of_consumers.TargetTopicPartitions, topic_id=UUIDS, partitions=NUMBERS), max_size=2
            ),
        ),
    ),
    (
        of_consumers.ConsumerGroupCurrentMemberAssignmentKey,
        GROUP_MEMBERS,
        st.builds(
            of_consumers.ConsumerGroupCurrentMemberAssignmentValue,
            member_epoch=INT32,
            previous_member_epoch=INT32,
            state=st.integers(0, 3),
            assigned_partitions=CURRENT,
            partitions_pending_revocation=CURRENT,
        ),
    ),
    (
        of_consumers.ConsumerGroupRegularExpressionKey,
        st.builds(dict, group_id=NAMES, regular_expression=NAMES),
        st.builds(
            of_consumers.ConsumerGroupRegularExpressionValue,
            topics=st.lists(NAMES, max_size=2),
            version=INT64,
            timestamp=TIMES,
        ),
    ),
]


@st.composite
def consumer_group_records(draw: st.DrawFn) -> tuple[bytes, bytes | None]:
    """Key and value of a record of a consumer group, of any type."""
    key, fields, values = draw(st.sampled_from(CONSUMER_GROUPS))
    value = draw(st.none() | values)
    return encode_key(key(**draw(fields))), None if value is None else encode_value(value, 0)


@st.composite
def known_records(draw: st.DrawFn) -> tuple[bytes, bytes | None]:
    """Key and value of an offset commit or a group of either kind, in any version."""
    if draw(st.integers(0, 3)):
        key = bytearray(encode_key(draw(OFFSET_KEYS)))
        key[1] = draw(st.sampled_from([1, 1, 1, 0]))  # type 0 has the same fields
        value = draw(st.none() | st.builds(encode_value, OFFSET_VALUES, st.integers(0, 4)))
        return bytes(key), value
    if draw(st.booleans()):
        return draw(consumer_group_records())
    group_key = encode_key(GroupMetadataKey(group=draw(NAMES)))
    return group_key, draw(st.none() | st.builds(encode_value, GROUP_VALUES, st.integers(0, 4)))


@st.composite
def strange_records(draw: st.DrawFn) -> tuple[bytes | None, bytes | None]:
    """Key and value of other types, of later versions, or of no sense."""
    key, value = draw(known_records())
    kind = draw(st.integers(0, 6))
    if kind == 0:
        return None, value
    if kind == 1:
        return bytes([0, draw(st.integers(3, 24))]) + key[2:], value
    if kind == 2:
        return draw(st.binary(max_size=20)), draw(st.none() | st.binary(max_size=40))
    if kind == 3:
        return key, bytes([0, draw(st.integers(5, 9))]) + (value or b"  ")[2:]
    if kind == 4:
        return key[: draw(st.integers(0, len(key)))], value
    if kind == 5:
        place = draw(st.integers(2, len(key) - 1))
        return key[:place] + bytes([draw(st.integers(0, 255))]) + key[place + 1 :], value
    cut = (value or b"")[: draw(st.integers(0, len(value or b"")))] + draw(st.binary(max_size=3))
    return key, cut


@st.composite
def records(draw: st.DrawFn, *, strange: bool = True) -> Record:
    """One record."""
    kinds = known_records() | strange_records() if strange else known_records()
    key, value = draw(kinds)
    headers = draw(HEADERS) if strange else ()
    return Record(-1, draw(st.integers(0, 2**42)), key, value, headers)


@dataclass
class Log:
    """One partition's log: its batches in order, which may have gaps between them."""

    batches: list[bytes] = field(default_factory=list)

    @property
    def next_offset(self) -> int:
        """Where it ends."""
        return read_header(self.batches[-1]).next_offset if self.batches else 0

    @property
    def data(self) -> bytes:
        """All of it as one segment."""
        return b"".join(self.batches)

    def append(self, some: Sequence[Record], **options: int | bool) -> None:
        """One more batch."""
        self.batches.append(encode_batch(some, self.next_offset, **options))  # type: ignore[arg-type]

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """A control batch of one marker."""
        key = b"\0\0\0" + (b"\1" if is_committed else b"\0")
        marker = Record(-1, 10, key, b"\0\0\0\0\0\0")
        self.append(
            [marker], producer_id=producer_id, producer_epoch=0, is_transactional=True, is_control=True
        )


def with_append_time(batch: bytes, time_ms: int) -> bytes:
    """The batch as a log of timestamp type LogAppendTime keeps it."""
    header = read_header(batch)
    raw = bytearray(batch)
    raw[21:23] = (header.attributes | LOG_APPEND_TIME).to_bytes(2, "big")
    raw[35:43] = time_ms.to_bytes(8, "big")
    raw[17:21] = crc32c(bytes(raw[21:])).to_bytes(4, "big")
    return bytes(raw)


@st.composite
def logs(draw: st.DrawFn, *, strange: bool = True, max_batches: int = 8) -> Log:
    """A log of committed data batches in every codec, some of them compacted."""
    log = Log()
    for _ in range(draw(st.integers(0, max_batches))):
        some = draw(st.lists(records(strange=strange), min_size=1, max_size=6))
        codec = draw(st.sampled_from([0, 0, 0, 1, 2, 3, 4]))
        log.append(some, codec=codec, base_sequence=draw(st.sampled_from([0, -1])))
        form = draw(st.integers(0, 5))
        if form == 0:
            log.batches[-1] = with_append_time(log.batches[-1], draw(st.integers(0, 2**42)))
        elif form == 1:
            log.batches[-1] = compacted(log.batches[-1], draw(st.integers(1, 3)))
    return log


def compacted(batch: bytes, step: int, delete_horizon_ms: int | None = 12345) -> bytes:
    """The batch with every `step`-th record only."""
    from storage.batch import decode_records

    header = read_header(batch)
    kept = [record for number, record in enumerate(decode_records(batch)) if number % step == step - 1]
    return rewrite_batch(header, kept, delete_horizon_ms if kept else None)
