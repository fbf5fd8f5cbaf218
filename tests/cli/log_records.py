"""Records of the offsets log: histories of any kind, and single ones as a test wants them."""

from hypothesis import strategies as st

from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
    encode_assignment,
    encode_subscription,
)
from protocol.records.group_record_schemas import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from storage.record import Record
from tests.cli.log_directory import fact

NAMES_OF = st.text(max_size=12)
NUMBERS = st.integers(-1, 2**31 - 1)
TIMES = st.integers(0, 2**42)
TOPIC_ID = bytes(range(16))

COMMITS = st.tuples(
    st.builds(OffsetCommitKey, group=NAMES_OF, topic=NAMES_OF, partition=NUMBERS),
    st.none()
    | st.builds(
        OffsetCommitValue,
        offset=st.integers(0, 2**62),
        leader_epoch=NUMBERS,
        metadata=NAMES_OF,
        commit_timestamp=TIMES,
        topic_id=st.sampled_from([bytes(16), TOPIC_ID]),
    ),
)
MEMBERS = st.builds(
    MemberMetadata,
    member_id=NAMES_OF,
    group_instance_id=st.none() | NAMES_OF,
    client_id=NAMES_OF,
    client_host=NAMES_OF,
    rebalance_timeout=NUMBERS,
    session_timeout=NUMBERS,
    subscription=st.builds(
        lambda topics, version: encode_subscription(ConsumerProtocolSubscription(topics=topics), version),
        st.lists(NAMES_OF, max_size=3),
        st.integers(0, 3),
    ),
    assignment=st.just(b"") | st.binary(max_size=5),
)
GROUPS = st.tuples(
    st.builds(GroupMetadataKey, group=NAMES_OF),
    st.none()
    | st.builds(
        GroupMetadataValue,
        protocol_type=st.sampled_from(["consumer", "connect", ""]),
        generation=NUMBERS,
        protocol=st.none() | NAMES_OF,
        leader=st.none() | NAMES_OF,
        current_state_timestamp=TIMES,
        members=st.lists(MEMBERS, max_size=2),
    ),
)
FACTS = st.tuples(COMMITS | GROUPS, TIMES)
HISTORIES = st.lists(st.lists(FACTS, min_size=1, max_size=4), min_size=1, max_size=6)


def member(topics: list[str], assigned: dict[str, list[int]]) -> MemberMetadata:
    parts = [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in assigned.items()]
    return MemberMetadata(
        member_id="m",
        client_id="c",
        client_host="/h",
        session_timeout=10,
        subscription=encode_subscription(ConsumerProtocolSubscription(topics=topics), 1),
        assignment=encode_assignment(ConsumerProtocolAssignment(assigned_partitions=parts), 1),
    )


def group_value(*members: MemberMetadata) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type="consumer", generation=4, protocol="range", leader="m", members=list(members)
    )


def commit(group: str, topic: str, offset: int = 1, **times: int) -> Record:
    key = OffsetCommitKey(group=group, topic=topic, partition=0)
    return fact(key, OffsetCommitValue(offset=offset, metadata="", commit_timestamp=1), **times)
