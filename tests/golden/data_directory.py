"""A data directory with every kind of content, and a description of the answers of a daemon on it.

The first run of the daemon ends cleanly, the second one with SIGKILL, so that the directory has the files of a
clean stop as well as a journal and log tails that were never synced. One transaction is open when the daemon dies.
"""

import os
import tempfile
from typing import Any, Final

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from protocol.messages.describe_acls import DescribeAclsRequest
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from storage.topic_partition import uuid_to_text
from tests.archive import pack
from tests.golden.versions import golden_path, write_json
from tests.interop.daemon import Daemon
from tests.kafka_log import history
from tests.kafka_log.committed import read_committed
from tests.kafka_log.connection import Connection
from tests.kafka_log.consumer_history import make_consumer_groups
from tests.kafka_log.view import topics, view
from tests.kafka_log.workload import Workload

ARCHIVE: Final = "data_directory.tar.xz"
CONTENT: Final = "data_directory.json"

FOREVER_MS: Final = "2147483647"
KEPT: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "log.journal.file.bytes": "65536",
    "log.retention.ms": "-1",
    "log.cleaner.backoff.ms": "9223372036854775807",
    "offsets.retention.minutes": "2147483647",
    "offsets.retention.check.interval.ms": FOREVER_MS,
    "producer.id.expiration.ms": FOREVER_MS,
    "transactional.id.expiration.ms": FOREVER_MS,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": FOREVER_MS,
    "transaction.remove.expired.transaction.cleanup.interval.ms": FOREVER_MS,
    "group.consumer.max.session.timeout.ms": "300000",
    "group.consumer.session.timeout.ms": "300000",
    "group.consumer.assignment.interval.ms": "0",
}
"""Properties of a daemon that removes nothing, however old the data are."""
COMPACTING: Final = {"log.cleaner.backoff.ms": "100", "log.cleaner.min.cleanable.ratio": "0.01"}
LATEST: Final = {"cleanup.policy": "compact", "segment.ms": "50", "min.cleanable.dirty.ratio": "0.01"}
GROUP: Final = 32
"""Type of a resource: the properties of a group."""
ANY: Final = 1
"""In filters of ACLs."""
TIMEOUT_S: Final = 60


def daemon_on(directory: str, properties: dict[str, str] | None = None, listen: str = "") -> Daemon:
    """A daemon that keeps all that is in the directory."""
    together = KEPT | (properties or {})
    options = [part for one in together.items() for part in ("-o", "=".join(one))]
    return Daemon(directory, *options, listen=listen)


def generate(version: str) -> None:
    """Replaces the archive and its description."""
    with tempfile.TemporaryDirectory(prefix="groupd-golden-") as temporary:
        directory = os.path.join(temporary, "data")
        daemon = daemon_on(directory, COMPACTING)
        try:
            _first_run(daemon.bootstrap)
            daemon.stop()
            daemon = daemon_on(directory)
            open_transaction = _second_run(daemon.bootstrap)
            content = describe(daemon.bootstrap)
        finally:
            daemon.kill()
        del open_transaction
        pack(directory, golden_path(version, ARCHIVE))
        write_json(version, CONTENT, content)


def _first_run(bootstrap: str) -> None:
    clients = Workload(bootstrap)
    clients.create_topics({"latest": LATEST}, orders=4, payments=2, latest=1, shortlived=2, reborn=1)
    clients.reconfigure("payments", retention_ms="-1", max_message_bytes="2000000")
    clients.grow_topic("payments", 3)
    _compact(clients, "latest")
    with Connection(bootstrap) as connection:
        history.fill(connection)
        make_consumer_groups(connection, "golden")
        _commit(connection, "topic-went", [("orders", 0, 1), ("shortlived", 1, 2), ("reborn", 0, 1)])
        configure_group(connection, "golden-configured", "consumer.session.timeout.ms", "50000")
    for name in ("shortlived", "reborn"):
        clients.delete_topic(name)
    clients.create_topics(reborn=2)
    add_security(bootstrap)


def _second_run(bootstrap: str) -> Producer:
    """Return the producer of the open transaction. The transaction stays open as long as the producer exists."""
    clients = Workload(bootstrap)
    reader = clients.consumer("transactional")
    producer = clients.producer("golden-completed")
    clients.send_offsets(producer, reader, [("orders", 0, 7), ("orders", 1, 8)])
    producer.commit_transaction(TIMEOUT_S)
    clients.send_offsets(producer, reader, [("orders", 0, 100), ("payments", 2, 200)])
    producer.abort_transaction(TIMEOUT_S)
    clients.send_offsets(producer, reader, [("orders", 3, 9)])
    producer.commit_transaction(TIMEOUT_S)
    aborted = clients.producer("golden-aborted")
    clients.send_offsets(aborted, reader, [("payments", 0, 300)])
    aborted.abort_transaction(TIMEOUT_S)
    still_open = clients.producer("golden-open")
    clients.send_offsets(still_open, reader, [("payments", 1, 11), ("orders", 2, 12)])
    assert still_open.flush(TIMEOUT_S) == 0
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for deleted in admin.delete_records([TopicPartition("orders", 1, 1)]).values():
        deleted.result(TIMEOUT_S)
    with Connection(bootstrap) as connection:
        _commit(connection, "by-hand-simple", [("orders", 0, 2**40), ("reborn", 1, 1)], "größer 日本 😀")
    return still_open


def _commit(
    connection: Connection, group: str, commits: list[tuple[str, int, int]], metadata: str = ""
) -> None:
    topics = [
        OffsetCommitRequestTopic(
            name=topic,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=offset, committed_metadata=metadata
                )
            ],
        )
        for topic, partition, offset in commits
    ]
    answer = connection.call(OffsetCommitRequest(group_id=group, topics=topics), 9)
    assert {part.error_code for topic in answer.topics for part in topic.partitions} == {0}, answer


def _compact(clients: Workload, topic: str) -> None:
    """Writes ten keys again and again until the log has lost most of the older records."""
    producer = Producer({"bootstrap.servers": clients.bootstrap})
    for number in range(300):
        producer.produce(topic, b"x" * 100, key=f"key-{number % 10}", partition=0)
        assert producer.flush(TIMEOUT_S) == 0
    name = f"{topic}-0"
    clients.wait(lambda: len(read_committed(clients.bootstrap, {topic: 1})[name]) < 150, "the cleaner")


def configure_group(connection: Connection, group: str, name: str, value: str) -> None:
    """Sets a property of a group."""
    config = AlterableConfig(name=name, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=GROUP, resource_name=group, configs=[config])
    (answer,) = connection.call(
        IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1
    ).responses
    assert answer.error_code == 0, answer


def add_security(bootstrap: str) -> None:
    """Adds ACLs, and users with the password `secret`."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    rules = [
        (ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, "User:alice", AclOperation.READ, "ALLOW"),
        (ResourceType.TOPIC, "pay", ResourcePatternType.PREFIXED, "User:alice", AclOperation.WRITE, "ALLOW"),
        (ResourceType.GROUP, "*", ResourcePatternType.LITERAL, "User:*", AclOperation.ALL, "DENY"),
        (ResourceType.TRANSACTIONAL_ID, "golden-", ResourcePatternType.PREFIXED, "User:größer",
         AclOperation.DESCRIBE, "ALLOW"),
    ]  # fmt: skip
    bindings = [
        AclBinding(kind, name, pattern, principal, "*", operation, AclPermissionType[permission])
        for kind, name, pattern, principal, operation, permission in rules
    ]
    for created in admin.create_acls(bindings).values():
        created.result(TIMEOUT_S)
    upsertions = [
        UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), b"secret", b"salt of golden")
        for user, mechanism in (
            ("alice", ScramMechanism.SCRAM_SHA_256),
            ("alice", ScramMechanism.SCRAM_SHA_512),
            ("bob", ScramMechanism.SCRAM_SHA_512),
        )
    ]
    for upsertion in upsertions:
        for altered in admin.alter_user_scram_credentials([upsertion]).values():
            altered.result(TIMEOUT_S)


def describe(bootstrap: str) -> dict[str, Any]:
    """All that a daemon serves, as JSON keeps it. Times of the machine's clock are left out."""
    with Connection(bootstrap) as connection:
        found = topics(connection)
        counts = {name: one["partitions"] for name, one in found.items() if not name.startswith("__")}
        return {
            "groups": view(connection),
            "group_configs": _group_configs(connection, "golden-configured"),
            "topics": found,
            "topic_ids": _topic_ids(connection),
            "log_starts": _log_offsets(connection, counts, -2),
            "log_ends": _log_offsets(connection, counts, -1),
            "committed_records": read_committed(bootstrap, counts),
            "transactions": _transactions(connection),
            "producers": _producers(connection, counts),
            "acls": _acls(connection),
            "users": _users(connection),
        }


def _group_configs(connection: Connection, group: str) -> dict[str, str | None]:
    resource = DescribeConfigsResource(resource_type=GROUP, resource_name=group)
    (result,) = connection.call(DescribeConfigsRequest(resources=[resource]), 4).results
    return {one.name: one.value for one in result.configs if one.name == "consumer.session.timeout.ms"}


def _topic_ids(connection: Connection) -> dict[str, str]:
    answer = connection.call(MetadataRequest(topics=None), 12)
    return {topic.name: uuid_to_text(topic.topic_id) for topic in sorted(answer.topics, key=lambda t: t.name)}


def _log_offsets(connection: Connection, counts: dict[str, int], timestamp: int) -> dict[str, int]:
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name=name,
                partitions=[
                    ListOffsetsPartition(partition_index=number, timestamp=timestamp)
                    for number in range(count)
                ],
            )
            for name, count in counts.items()
        ],
    )
    return {
        f"{topic.name}-{one.partition_index}": one.offset
        for topic in connection.call(request, 6).topics
        for one in topic.partitions
    }


def _transactions(connection: Connection) -> dict[str, Any]:
    listed = connection.call(ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 1)
    ids = sorted(one.transactional_id for one in listed.transaction_states)
    described = connection.call(DescribeTransactionsRequest(transactional_ids=ids), 0)
    return {
        one.transactional_id: {
            "state": one.transaction_state,
            "timeout_ms": one.transaction_timeout_ms,
            "start_ms": one.transaction_start_time_ms,
            "producer": [one.producer_id, one.producer_epoch],
            "partitions": {topic.topic: sorted(topic.partitions) for topic in one.topics},
        }
        for one in described.transaction_states
    }


def _producers(connection: Connection, counts: dict[str, int]) -> dict[str, Any]:
    asked = [
        DescribeProducersTopicRequest(name=name, partition_indexes=list(range(count)))
        for name, count in counts.items()
    ]
    answer = connection.call(DescribeProducersRequest(topics=asked), 0)
    return {
        f"{topic.name}-{part.partition_index}": sorted(
            [
                one.producer_id,
                one.producer_epoch,
                one.last_sequence,
                one.coordinator_epoch,
                one.current_txn_start_offset,
            ]
            for one in part.active_producers
        )
        for topic in answer.topics
        for part in topic.partitions
    }


def _acls(connection: Connection) -> list[list[Any]]:
    request = DescribeAclsRequest(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    return sorted(
        [one.resource_type, one.resource_name, one.pattern_type, *_fields(rule)]
        for one in connection.call(request, 3).resources
        for rule in one.acls
    )


def _fields(rule: Any) -> tuple[Any, ...]:
    return rule.principal, rule.host, rule.operation, rule.permission_type


def _users(connection: Connection) -> dict[str, list[list[int]]]:
    answer = connection.call(DescribeUserScramCredentialsRequest(users=None), 0)
    return {
        one.user: sorted([each.mechanism, each.iterations] for each in one.credential_infos)
        for one in sorted(answer.results, key=lambda one: one.user)
    }
