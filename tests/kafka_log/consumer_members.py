"""Members of consumer groups, played from the description of the group alone.

So their previous coordinator does not matter: members of a Kafka broker continue in groupd, and the reverse.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from protocol.consumer_protocol import decode_assignment
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.metadata import MetadataRequest
from protocol.messages.sync_group import SyncGroupRequest
from tests.kafka_log.connection import Connection
from tests.kafka_log.view import View, describe_consumer_group

TIMEOUT_MS: Final = 300_000
AWAY: Final = -2
CLASSIC_MEMBER: Final = 0
"""Type of a member that speaks the classic protocol, in a description."""
ROUNDS: Final = 20
SUBSCRIPTION: Final = b"\0\1\0\0\0\1\0\6orders\xff\xff\xff\xff\0\0\0\0"

Partitions = Mapping[str, Sequence[int]]
"""By topic."""


def topic_ids(connection: Connection) -> dict[str, bytes]:
    """By name."""
    return {topic.name: topic.topic_id for topic in connection.call(MetadataRequest(topics=None), 12).topics}


def heartbeat(
    connection: Connection, group: str, member_id: str, epoch: int, owned: Partitions | None, **fields: Any
) -> Any:
    """Send a heartbeat and return its successful response.

    `owned` are the partitions of the member; `fields` override request fields.
    """
    if owned is not None:
        ids = topic_ids(connection) if owned else {}
        fields["topic_partitions"] = [
            ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=ids[topic], partitions=list(partitions))
            for topic, partitions in owned.items()
        ]
    request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=epoch, **fields)
    answer = connection.call(request, 1)
    assert answer.error_code == ErrorCode.NONE, answer
    return answer


def join(connection: Connection, group: str, member_id: str, **fields: Any) -> Any:
    """Joins, with `orders` as its topic unless the fields say otherwise; the answer."""
    said = {"rebalance_timeout_ms": TIMEOUT_MS, "subscribed_topic_names": ["orders"]} | fields
    return heartbeat(connection, group, member_id, 0, {}, **said)


def assert_nothing_lost(before: Partitions, after: Partitions, target: Partitions) -> None:
    """Check that a member still has the partitions that its previous and its target assignment share."""
    for topic, partitions in before.items():
        kept = set(partitions) & set(target.get(topic, ()))
        assert kept <= set(after.get(topic, ())), (before, after, target)


def go_on(connection: Connection, group: str) -> View:
    """Let every member heartbeat and rejoin until the group is stable; return its description.

    No member may lose a partition, and the epoch must not change.
    """
    first = describe_consumer_group(connection, group)
    seen = first
    for _ in range(ROUNDS):
        for member_id, member in seen["members"].items():
            if member["member_type"] == CLASSIC_MEMBER:
                after = _go_on_in_classic(connection, group, member_id, member)
            else:
                after = _go_on(connection, group, member_id, member)
            assert_nothing_lost(member["assignment"], after, member["target"])
        seen = describe_consumer_group(connection, group)
        if seen["state"] in ("Stable", "Empty"):
            break
    assert seen["state"] == ("Stable" if seen["members"] else "Empty"), seen
    assert seen["epochs"][0] == first["epochs"][0], (first, seen)
    for member in seen["members"].values():
        assert member["assignment"] == member["target"], seen
    assert _owned(seen) == _targets(first), (first, seen)
    return seen


def _who(member_id: str, member: View) -> str:
    return str(member["group_instance_id"] or member_id)


def _owned(seen: View) -> dict[str, Partitions]:
    return {_who(member_id, member): member["assignment"] for member_id, member in seen["members"].items()}


def _targets(seen: View) -> dict[str, Partitions]:
    return {_who(member_id, member): member["target"] for member_id, member in seen["members"].items()}


def _go_on(connection: Connection, group: str, member_id: str, member: View) -> Partitions:
    """Send a full heartbeat; return the owned partitions."""
    said = {
        "instance_id": member["group_instance_id"],
        "rebalance_timeout_ms": TIMEOUT_MS,
        "subscribed_topic_names": member["topics"],
        "subscribed_topic_regex": member["regex"],
    }
    if member["epoch"] == AWAY:
        answer = heartbeat(connection, group, f"{member_id}-again", 0, {}, **said)
    else:
        answer = heartbeat(connection, group, member_id, member["epoch"], member["assignment"], **said)
        assert answer.member_epoch >= member["epoch"], answer
        owned = _assigned(connection, answer)
        if owned != member["assignment"]:  # the member reports that it revoked its lost partitions
            answer = heartbeat(connection, group, member_id, answer.member_epoch, owned, **said)
    return _assigned(connection, answer)


def _assigned(connection: Connection, answer: Any) -> Partitions:
    """Return the assignment in a full heartbeat response, which always includes it."""
    names = {topic_id: name for name, topic_id in topic_ids(connection).items()}
    assert answer.assignment is not None, answer
    return {
        names[topic.topic_id]: sorted(topic.partitions)
        for topic in sorted(answer.assignment.topic_partitions, key=lambda topic: names[topic.topic_id])
    }


def _go_on_in_classic(connection: Connection, group: str, member_id: str, member: View) -> Partitions:
    """What it owns after its heartbeat, and after it joined again where it was sent to."""
    instance_id, generation = member["group_instance_id"], member["epoch"]
    beat = HeartbeatRequest(
        group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance_id
    )
    code = connection.call(beat, 3).error_code
    if code == ErrorCode.REBALANCE_IN_PROGRESS:
        protocol = JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)
        again = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=TIMEOUT_MS,
            rebalance_timeout_ms=TIMEOUT_MS,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocols=[protocol],
        )
        joined = connection.call(again, 5)
        assert joined.error_code == ErrorCode.NONE, joined
        generation = joined.generation_id
    else:
        assert code == ErrorCode.NONE, code
    sync = SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        assignments=[],
    )
    synced = connection.call(sync, 3)
    assert synced.error_code == ErrorCode.NONE, synced
    assignment = decode_assignment(synced.assignment)
    return {part.topic: sorted(part.partitions) for part in assignment.assigned_partitions}
