"""What real clients do with a real broker before its directory is captured."""

import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from protocol.error_codes import ErrorCode
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.kafka_log.artifacts import broker
from tests.kafka_log.connection import Connection

TIMEOUT_S: Final = 60
LOADING: Final = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
Commit = tuple[str, int, int]
"""Topic, partition, offset."""


class Workload:
    """The clients of one scenario. Members stay in their groups until they are closed."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._members: list[Consumer] = []
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def create_topics(self, configs: dict[str, dict[str, str]] | None = None, **partitions: int) -> None:
        """Creates topics, and waits until they can be written to: each partition gets a record."""
        wanted = [
            NewTopic(name, count, 1, config=(configs or {}).get(name, {}))
            for name, count in partitions.items()
        ]
        for created in self._admin.create_topics(wanted).values():
            created.result(TIMEOUT_S)
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for name, count in partitions.items():
            for number in range(count):
                producer.produce(name, f"{name}-{number}", key=f"{number}", partition=number)
        assert producer.flush(TIMEOUT_S) == 0

    def reconfigure(self, topic: str, **values: str | None) -> None:
        """Sets properties of a topic (underscores for dots); None removes one."""
        entries = [
            ConfigEntry(
                name.replace("_", "."),
                value,
                incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
            )
            for name, value in values.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        self._admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)

    def grow_topic(self, topic: str, partitions: int) -> None:
        """Adds partitions."""
        self._admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(TIMEOUT_S)

    def delete_topic(self, name: str) -> None:
        """Deletes a topic; the broker then forgets its offsets."""
        self._admin.delete_topics([name])[name].result(TIMEOUT_S)

    def consumer(self, group: str, **properties: Any) -> Consumer:
        """A consumer of a group; properties with underscores for dots."""
        dotted = {name.replace("_", "."): value for name, value in properties.items()}
        common = {
            "bootstrap.servers": self.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
        return Consumer({**common, **dotted})

    def join(self, group: str, topics: Sequence[str], each: Sequence[dict[str, Any]]) -> list[Consumer]:
        """Members that stay, one for each set of properties; returns when all have partitions."""
        members = [self.consumer(group, **properties) for properties in each]
        for member in members:
            member.subscribe(list(topics))
        self._members += members
        self.wait(lambda: self._have_partitions(members), f"{group} to settle")
        return members

    def _have_partitions(self, members: list[Consumer]) -> bool:
        for member in members:
            member.poll(0.1)
        return all(member.assignment() for member in members)

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Waits for a condition while the members poll."""
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < deadline, f"waited for {what}"
            for member in self._members:
                member.poll(0.01)

    def leave(self, member: Consumer) -> None:
        """Closes a member; a dynamic one leaves its group."""
        self._members.remove(member)
        member.close()

    @staticmethod
    def commit(member: Consumer, commits: Sequence[Commit], metadata: str = "", epoch: int = -1) -> None:
        """Commits and waits for the answer."""
        more: dict[str, Any] = {"metadata": metadata} if metadata else {}
        if epoch >= 0:
            more["leader_epoch"] = epoch
        offsets = [TopicPartition(topic, partition, offset, **more) for topic, partition, offset in commits]
        for result in member.commit(offsets=offsets, asynchronous=False):
            assert result.error is None, result

    def visit(self, group: str, commits: Sequence[Commit], metadata: str = "", **properties: Any) -> None:
        """A member joins, commits and leaves."""
        (member,) = self.join(group, sorted({topic for topic, _, _ in commits}), [properties])
        self.commit(member, commits, metadata)
        self.leave(member)

    def delete_group(self, group: str) -> None:
        """Deletes an empty group, once the broker has loaded it."""

        def is_deleted() -> bool:
            try:
                self._admin.delete_consumer_groups([group])[group].result(TIMEOUT_S)
            except KafkaException as problem:
                if problem.args[0].code() not in LOADING:
                    raise
                return False
            return True

        self.wait(is_deleted, f"{group} to be deleted")

    def delete_offsets(self, group: str, topic: str, partitions: Sequence[int]) -> None:
        """Delete committed offsets of partitions without subscribed members."""
        parts = [OffsetDeleteRequestPartition(partition_index=number) for number in partitions]
        topics = [OffsetDeleteRequestTopic(name=topic, partitions=parts)]
        request = OffsetDeleteRequest(group_id=group, topics=topics)

        def is_deleted() -> bool:
            with Connection(self.bootstrap) as connection:
                code: int = connection.call(request, 0).error_code
            assert code == 0 or code in LOADING, code
            return code == 0

        self.wait(is_deleted, f"offsets of {group} to be deleted")

    def producer(self, transactional_id: str) -> Producer:
        """A transactional producer, ready to begin."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "transactional.id": transactional_id})
        producer.init_transactions(TIMEOUT_S)
        return producer

    @staticmethod
    def send_offsets(producer: Producer, member: Consumer, commits: Sequence[Commit]) -> None:
        """Begins a transaction with a record and offsets in it."""
        producer.begin_transaction()
        producer.produce(commits[0][0], b"in a transaction", partition=commits[0][1])
        offsets = [TopicPartition(*commit) for commit in commits]
        producer.send_offsets_to_transaction(offsets, member.consumer_group_metadata(), TIMEOUT_S)

    def read_share_group(self, group: str, topic: str) -> None:
        """A member of a share group comes, reads and goes."""
        command = [*broker(), "ShareMember", self.bootstrap, group, topic]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as member:
            assert member.stdout is not None
            assert member.stdout.readline().strip() == "subscribed"
            # It begins at the end of the topic, whenever the group has found that.
            producer = Producer({"bootstrap.servers": self.bootstrap})
            self.wait(lambda: self._has_ended(member, producer, topic), "a share group to read")
            _, said = member.communicate()
            assert member.returncode == 0, said

    def _has_ended(self, member: subprocess.Popen[str], producer: Producer, topic: str) -> bool:
        producer.produce(topic, b"to share")
        producer.flush(TIMEOUT_S)
        try:
            member.wait(0.3)
        except subprocess.TimeoutExpired:
            return False
        return True
