"""Members of the classic protocol, in groups that may be of either type."""

from protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartitions,
    decode_assignment,
    encode_assignment,
)
from protocol.error_codes import ErrorCode
from tests.group.ask import Ask
from tests.group.consumer.members import Members

INITIAL_DELAY_MS = 3_000


def assignment(topic: str, *partitions: int) -> bytes:
    """Encode the assignment of one member."""
    owned = [TopicPartitions(topic=topic, partitions=list(partitions))]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=owned), 1)


def stable_member(group: Members) -> tuple[str, int]:
    """Create a Stable classic group with one member, which has all partitions of a topic. Return its id and
    generation."""
    required = group.join()
    assert required.error is ErrorCode.MEMBER_ID_REQUIRED
    member_id = required.joined.member_id
    ask = group.join(member_id)
    group.advance(INITIAL_DELAY_MS)
    generation = ask.joined.generation_id
    synced = group.sync(member_id, generation, {member_id: assignment("foo", 0, 1, 2)})
    assert partitions_of(synced) == [0, 1, 2]
    return member_id, generation


def partitions_of(synced: Ask) -> list[int]:
    """Return the partitions of the only topic in the response to a SyncGroup."""
    assert synced.error is ErrorCode.NONE
    return [
        number
        for topic in decode_assignment(synced.synced.assignment).assigned_partitions
        for number in topic.partitions
    ]
