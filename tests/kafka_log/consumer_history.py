"""Consumer groups in every condition, created by hand in the same way on Kafka and on groupd."""

import time
from typing import Any, Final

from protocol.consumer_protocol import ConsumerProtocolAssignment, TopicPartitions, encode_assignment
from tests.kafka_log import history
from tests.kafka_log.connection import Connection
from tests.kafka_log.consumer_members import AWAY, go_on, heartbeat, join
from tests.kafka_log.view import View

LEAVING: Final = -1
TIMEOUT_S: Final = 60
AT_ONCE: Final = {"group.consumer.assignment.interval.ms": "0"}
"""Without this property of a broker, a second lies between two targets of a group."""
AT_ONCE_OPTIONS: Final = [part for name, value in AT_ONCE.items() for part in ("-o", f"{name}={value}")]
"""The same for groupd."""
OFFSET_COMMIT: Final = 1
EPOCH, TOPICS, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX = 3, 4, 5, 6, 7, 8, 16
"""Types of records."""
ALL_OF_ORDERS: Final = encode_assignment(
    ConsumerProtocolAssignment(
        assigned_partitions=[TopicPartitions(topic="orders", partitions=list(range(history.PARTITIONS)))]
    ),
    1,
)

Deleted = set[tuple[Any, ...]]
"""Type and fields of keys."""


def make_consumer_groups(connection: Connection, prefix: str) -> Deleted:
    """Create consumer groups in every state and return the keys of deleted records.

    The groups: stable, reconciling, with an absent static member, with a regular expression, upgraded with a
    remaining classic member, empty with offsets, and deleted. Their topic is `orders`.
    """
    _two_members(connection, f"{prefix}-stable")
    commit_where_it_reads(connection, go_on(connection, f"{prefix}-stable"), f"{prefix}-stable", 100)
    _two_members(connection, f"{prefix}-reconciling")
    _static_member_away(connection, f"{prefix}-static")
    _regular_expression(connection, f"{prefix}-regex")
    _upgraded(connection, f"{prefix}-upgraded")
    _left(connection, f"{prefix}-left")
    deleted = f"{prefix}-deleted"
    _left(connection, deleted, subscribed_topic_regex="ord[a-z]+")
    history.delete_group(connection, deleted)
    return {
        *(
            (kind, f"{prefix}-{name}", "left")
            for name in ("left", "deleted")
            for kind in (MEMBER, TARGET, CURRENT)
        ),
        *((kind, deleted) for kind in (EPOCH, TOPICS, TARGET_EPOCH)),
        *((OFFSET_COMMIT, deleted, "orders", number) for number in range(history.PARTITIONS)),
        (REGEX, deleted, "ord[a-z]+"),
        (history.GROUP_METADATA, f"{prefix}-upgraded"),
    }


def commit_where_it_reads(connection: Connection, seen: View, group: str, offset: int) -> None:
    """Each member that speaks the new protocol commits an offset of each of its partitions of `orders`."""
    for member_id, member in seen["members"].items():
        offsets = dict.fromkeys(member["assignment"].get("orders", ()), offset)
        if offsets:
            history.commit(connection, group, offsets, member_id, member["epoch"], "größer")


def _two_members(connection: Connection, group: str, **second: Any) -> None:
    """The first member has to revoke half of its partitions and has not confirmed it."""
    joined = join(connection, group, "first")
    join(connection, group, "second", subscribed_topic_names=["orders"], **second)
    owned = {"orders": list(range(history.PARTITIONS))}
    deadline = time.monotonic() + TIMEOUT_S
    assignment = None
    while assignment is None:
        assert time.monotonic() < deadline, f"{group} gets no new target"
        assignment = heartbeat(connection, group, "first", joined.member_epoch, owned).assignment
    assert sum(len(topic.partitions) for topic in assignment.topic_partitions) == history.PARTITIONS // 2


def _static_member_away(connection: Connection, group: str) -> None:
    _two_members(connection, group, instance_id="instance-2", rack_id="rack-2")
    go_on(connection, group)
    heartbeat(connection, group, "second", AWAY, None, instance_id="instance-2")


def _regular_expression(connection: Connection, group: str) -> None:
    """One member names no topic, the other one has a preference for an assignor."""
    fields = {"subscribed_topic_regex": "ord.*s|nothing", "server_assignor": "range"}
    joined = join(connection, group, "matching", subscribed_topic_names=[], **fields)
    deadline = time.monotonic() + TIMEOUT_S
    while joined.assignment is None or not joined.assignment.topic_partitions:
        assert time.monotonic() < deadline, f"{group} finds no topic"
        joined = heartbeat(connection, group, "matching", joined.member_epoch, None)


def _upgraded(connection: Connection, group: str) -> None:
    """A classic group, to which a member of the new protocol comes."""
    member_id, generation = history.join(connection, group, "instance-1", ALL_OF_ORDERS)
    history.commit(connection, group, dict.fromkeys(range(history.PARTITIONS), 7), member_id, generation)
    join(connection, group, "new")
    go_on(connection, group)


def _left(connection: Connection, group: str, **fields: Any) -> None:
    joined = join(connection, group, "left", **fields)
    everywhere = dict.fromkeys(range(history.PARTITIONS), 5)
    history.commit(connection, group, everywhere, "left", joined.member_epoch)
    heartbeat(connection, group, "left", LEAVING, None)
