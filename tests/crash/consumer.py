"""A member of a consumer group under load: the only one of its group, which subscribes to a topic more or less with
each heartbeat, and commits at the epoch that this gave it.
"""

from collections.abc import Callable
from random import Random
from typing import Any, Final

from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from tests.broker.harness import Client
from tests.crash import load
from tests.crash.register import Register

SUBSCRIPTIONS: Final = (("orders",), ("orders", "payments"))
PARTITIONS: Final = {"orders": [0, 1], "payments": [0]}
JOINED_AT: Final = 2
"""The epoch of the first member of a new group."""
OPTIONS: Final = (
    *("-o", "group.consumer.assignment.interval.ms=0"),
    *("-o", "group.consumer.max.session.timeout.ms=120000", "-o", "group.consumer.session.timeout.ms=120000"),
)
"""Each change gets its target at once; on a stalled machine a missing member was lost, and did not time out."""

Standing = tuple[int, tuple[str, ...]]
"""Epoch and topics of the member; 0 and none before it has joined."""


class ConsumerMember:
    """Every answer with an epoch is a promise that the log has that epoch, its topics and all their partitions."""

    def __init__(self, group: str, random: Random) -> None:
        self.group = group
        self.offsets = Register(load.NOTHING)
        self.standing = Register[Standing]((0, ()))
        self._random = random
        self._next = 0
        self._owned: list[ConsumerGroupHeartbeatRequestTopicPartitions] = []

    @property
    def acknowledged(self) -> int:
        return self.offsets.acknowledged + self.standing.acknowledged

    async def run(self, client: Client, answered: Callable[[], None]) -> None:
        while True:
            await self._subscribe(client)
            answered()
            for _ in range(self._random.randrange(1, 8)):
                self._next += 1
                self.offsets.write(self._next)
                request = load.commit(self.group, self._next, "m", self.standing.value[0])
                answer = await client.call(request, 9)
                load.check(answer.topics[0].partitions[0].error_code, answer)
                self.offsets.acknowledge()
                answered()

    async def _subscribe(self, client: Client) -> None:
        """Change the subscription, effective in one heartbeat.

        the member reports only partitions of both subscriptions.
        """
        epoch, before = self.standing.value
        topics = SUBSCRIPTIONS[0] if before == SUBSCRIPTIONS[1] else SUBSCRIPTIONS[1]
        after = epoch + 1 if epoch else JOINED_AT
        self.standing.write((after, topics))
        kept = [each for each in self._owned if len(each.partitions) == len(PARTITIONS["orders"])]
        answer = await self._heartbeat(client, epoch, topics, kept)
        assert answer.member_epoch == after, answer
        self._owned = [_plain(each) for each in answer.assignment.topic_partitions]
        self.standing.acknowledge()

    async def _heartbeat(
        self,
        client: Client,
        epoch: int,
        topics: tuple[str, ...],
        owned: list[ConsumerGroupHeartbeatRequestTopicPartitions],
    ) -> Any:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id="m",
            member_epoch=epoch,
            rebalance_timeout_ms=120_000,
            subscribed_topic_names=list(topics),
            topic_partitions=owned,
        )
        answer = await client.call(request, 1)
        load.check(answer.error_code, answer)
        return answer

    async def verify(self, client: Client) -> None:
        self.offsets.found(await load.committed(client, self.group))
        request = ConsumerGroupDescribeRequest(group_ids=[self.group], include_authorized_operations=False)
        (group,) = (await client.call(request, 1)).groups
        if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND or not group.members:
            self.standing.found((0, ()))
            self._owned = []
            return
        load.check(group.error_code, group)
        (member,) = group.members
        topics = tuple(sorted(member.subscribed_topic_names))
        self.standing.found((member.member_epoch, topics))
        assert (group.group_state, group.group_epoch) == ("Stable", member.member_epoch), group
        for assignment in (member.assignment, member.target_assignment):
            had = {each.topic_name: sorted(each.partitions) for each in assignment.topic_partitions}
            assert had == {topic: PARTITIONS[topic] for topic in topics}, group
        self._owned = [_plain(each) for each in member.assignment.topic_partitions]
        answer = await self._heartbeat(client, member.member_epoch, topics, self._owned)
        assert answer.member_epoch == member.member_epoch, answer


def _plain(described: Any) -> ConsumerGroupHeartbeatRequestTopicPartitions:
    return ConsumerGroupHeartbeatRequestTopicPartitions(
        topic_id=described.topic_id, partitions=described.partitions
    )
