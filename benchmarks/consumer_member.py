"""A consumer group member (KIP-848) for benchmarks: it joins, and takes over and revokes partitions as assigned."""

import asyncio
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

from benchmarks.connection import Connection
from benchmarks.member import REBALANCE_TIMEOUT_MS, SESSION_TIMEOUT_MS, TOPIC
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)

VERSION: Final = 1
HEARTBEAT_MS: Final = 100
PROPERTIES: Final[Mapping[str, str]] = {
    "group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.max.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
}
"""For every server: no session expires while another server is measured, and all servers send the same heartbeat
interval.
"""
OPTIONS: Final = tuple(word for name, value in PROPERTIES.items() for word in ("-o", f"{name}={value}"))
"""The same properties as options of groupd's command line."""


@dataclass(slots=True)
class ConsumerMember:
    """A member that reads one topic, on its own or a shared connection."""

    connection: Connection
    group_id: str
    member_id: str = field(default_factory=lambda: str(uuid4()))
    member_epoch: int = 0
    topic_id: bytes = bytes(16)
    owned: AbstractSet[int] = frozenset()
    heartbeats: int = 0
    _has_news: bool = False

    async def join(self) -> None:
        """Send the first heartbeat, with all fields."""
        await self._send(
            ConsumerGroupHeartbeatRequest(
                group_id=self.group_id,
                member_id=self.member_id,
                member_epoch=0,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                subscribed_topic_names=[TOPIC],
                topic_partitions=[],
            )
        )

    def heartbeat_request(self) -> ConsumerGroupHeartbeatRequest:
        """Return a heartbeat without changes."""
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.member_epoch
        )

    async def heartbeat(self) -> None:
        """Wait one interval, then send a heartbeat, with the owned partitions if they have changed."""
        await asyncio.sleep(HEARTBEAT_MS / 1000)
        request = self.heartbeat_request()
        if self._has_news:
            self._has_news = False
            owned = ConsumerGroupHeartbeatRequestTopicPartitions(
                topic_id=self.topic_id, partitions=sorted(self.owned)
            )
            request.topic_partitions = [owned] if self.owned else []
        await self._send(request)

    async def _send(self, request: ConsumerGroupHeartbeatRequest) -> None:
        answer = await self.connection.request(request, VERSION, ConsumerGroupHeartbeatResponse)
        self.heartbeats += 1
        assert answer.error_code == ErrorCode.NONE, (answer.error_code, answer.error_message)
        self.member_epoch = answer.member_epoch
        if answer.assignment is not None:
            owned: AbstractSet[int] = frozenset()
            for of_topic in answer.assignment.topic_partitions:
                self.topic_id, owned = of_topic.topic_id, frozenset(of_topic.partitions)
            self._has_news = self._has_news or owned != self.owned
            self.owned = owned


def is_settled(members: Sequence[ConsumerMember], partitions: int) -> bool:
    """Return whether the group is stable: all members have the same epoch and equal shares of `partitions`, which
    are at least as many as the members.
    """
    share = partitions // len(members)
    epoch = members[0].member_epoch
    return all(len(member.owned) == share and member.member_epoch == epoch for member in members)
