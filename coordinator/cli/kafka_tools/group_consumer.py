"""A consumer in a group: its assigned partitions, their positions, and commits of consumed offsets."""

import re
from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from coordinator.cli.kafka_tools.cluster_client import ClusterClient, Deadline, pause
from coordinator.cli.kafka_tools.group_member import GroupMember, MemberSettings
from coordinator.cli.kafka_tools.offset_requests import TopicPartition, fetch_committed, require_offsets
from coordinator.cli.kafka_tools.record_fetcher import FetchedRecord, RecordFetcher
from coordinator.cli.kafka_tools.tool_errors import KafkaError, ToolFailure
from protocol.error_codes import ErrorCode

_KNOWN_TOPICS_PAUSE_S = 30.0
_UNKNOWN_TOPICS_PAUSE_S = 0.5
_NO_PARTITIONS_PAUSE_S = 0.25


class Subscription(NamedTuple):
    """The subscription of a consumer: one topic, or a regular expression."""

    topic: str | None
    pattern: str | None


class GroupConsumer:
    """A consumer in a group. It joins with the first `poll`."""

    def __init__(
        self,
        client: ClusterClient,
        fetcher: RecordFetcher,
        subscription: Subscription,
        settings: MemberSettings,
        reset_to: int | None,
    ) -> None:
        """Create a consumer.

        Args:
            client: sends the requests.
            fetcher: reads the assigned partitions.
            subscription: the topics, or their pattern.
            settings: the settings of the member.
            reset_to: start of partitions without a committed offset: LATEST or EARLIEST; None: an error.

        Raises:
            ToolFailure: the pattern is invalid.
        """
        self._client = client
        self._fetcher = fetcher
        self._topic = subscription.topic
        self._pattern = None if subscription.pattern is None else _compile(subscription.pattern)
        self._group = settings.group
        self._member = GroupMember(client, settings, self._count_partitions)
        self._reset_to = reset_to
        self._subscribed: dict[str, int] | None = None
        self._next_update = Deadline(0.0)
        self._unread: dict[TopicPartition, deque[int]] = {}
        """The offsets of fetched records that were not consumed yet, by partition."""
        self._next_commit = Deadline(0.0)
        self.commits = True
        """Whether the consumer commits offsets."""
        self.commit_interval_s = 5.0

    def poll(self, max_wait_ms: int) -> list[FetchedRecord]:
        """Return the next records. Raises KafkaError."""
        self._update_topics()
        assigned = self._member.poll(self._commit)
        if assigned is not None:
            self._fetcher.assign(self._find_positions(assigned))
        if self._next_commit.left_s <= 0:
            self._commit()
        if not self._fetcher.positions:
            pause(min(max_wait_ms / 1000, _NO_PARTITIONS_PAUSE_S))
            return []
        records = self._fetcher.fetch(max_wait_ms)
        for each in records:
            self._unread.setdefault((each.topic, each.partition), deque()).append(each.record.offset)
        return records

    def mark_consumed(self, record: FetchedRecord) -> None:
        """Mark a record as consumed. The next commit is behind the record."""
        self._unread[record.topic, record.partition].popleft()

    def close(self) -> None:
        """Commit and leave the group. Raises KafkaError."""
        self._commit()
        self._member.leave()

    def _update_topics(self) -> None:
        """Subscribe to the existing topics, and again when a topic appears or grows."""
        if self._next_update.left_s > 0:
            return
        wanted = None if self._topic is None else [self._topic]
        found = self._count_partitions(wanted)
        if self._pattern is not None:
            found = {topic: count for topic, count in found.items() if self._pattern.fullmatch(topic)}
        if found != self._subscribed:
            self._subscribed = found
            self._member.subscribe([*found] if self._topic is None else [self._topic])
        self._next_update = Deadline(_KNOWN_TOPICS_PAUSE_S if found else _UNKNOWN_TOPICS_PAUSE_S)

    def _count_partitions(self, topics: Iterable[str] | None) -> dict[str, int]:
        """Return the number of partitions of topics that exist; of all topics for None."""
        wanted = None if topics is None else sorted(topics)
        found = self._client.fetch_topics(wanted, creates=True)
        for topic in found:
            if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise KafkaError(
                    f"Not authorized to access topics: [{topic.name}]", "TopicAuthorizationException"
                )
            if topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION:
                raise KafkaError(f"Invalid topics: [{topic.name}]", "InvalidTopicException")
        return {topic.name: len(topic.partitions) for topic in found if topic.partitions}

    def _find_positions(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        kept = {} if self.commits else self._fetcher.positions
        committed = fetch_committed(self._client, self._group, partitions)
        positions = {partition: each.offset for partition, each in committed.items()}
        positions |= {partition: kept[partition] for partition in partitions if partition in kept}
        unset = [partition for partition in partitions if partition not in positions]
        if unset and self._reset_to is None:
            names = ", ".join(f"{topic}-{number}" for topic, number in unset)
            message = f"Undefined offset with no reset policy for partitions: [{names}]"
            raise KafkaError(message, "NoOffsetForPartitionException")
        if unset and self._reset_to is not None:
            isolation_level = self._fetcher.isolation_level
            positions |= require_offsets(self._client, dict.fromkeys(unset, self._reset_to), isolation_level)
        return positions

    def _commit(self) -> None:
        """Commit for each partition the offset of the first record that was not consumed."""
        self._next_commit = Deadline(self.commit_interval_s)
        if not self.commits:
            return
        offsets = dict(self._fetcher.positions)
        offsets |= {partition: unread[0] for partition, unread in self._unread.items() if unread}
        self._member.commit(offsets)


def _compile(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ToolFailure(f"{text} is not a valid regular expression: {error}") from error


def read_seconds(properties: Mapping[str, str], name: str, default: float) -> float:
    """Return a property of milliseconds in seconds. Raises ToolFailure unless it is a number above 0."""
    text = properties.get(name)
    if text is None:
        return default
    if not text.strip().isdecimal() or not int(text):
        raise ToolFailure(
            f"Invalid value {text} for configuration {name}: use a number of milliseconds above 0"
        )
    return int(text) / 1000
