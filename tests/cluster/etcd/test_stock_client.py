"""A group of a stock client goes on after its coordinator was killed: no rebalance, no commit lost."""

import contextlib
import threading

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.cluster.etcd.conftest import Groupds
from tests.cluster.etcd.history import History
from tests.librdkafka import committed_offsets

pytestmark = pytest.mark.timeout(600)


class Member:
    """A consumer that commits all the time, in a thread of its own."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self.assignments = self.revocations = 0
        self.acknowledged = -1
        self.commits = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "reconnect.backoff.max.ms": 500,
            }
        )
        self._consumer.subscribe(["orders"], on_assign=self._assigned, on_revoke=self._revoked)
        self._changed = threading.Condition()
        self._is_over = False
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _assigned(self, *_: object) -> None:
        self.assignments += 1

    def _revoked(self, *_: object) -> None:
        self.revocations += not self._is_over

    def _work(self) -> None:
        number = 0
        while not self._is_over:
            self._consumer.poll(0.01)
            if not self.assignments:
                continue
            with contextlib.suppress(KafkaException):
                self._consumer.commit(offsets=[TopicPartition("orders", 0, number)], asynchronous=False)
                with self._changed:
                    self.acknowledged = number
                    self.commits += 1
                    self._changed.notify_all()
            number += 1

    def until_more(self, commits: int = 20) -> None:
        """Until so many more commits were acknowledged."""
        with self._changed:
            wanted = self.commits + commits
            assert self._changed.wait_for(lambda: self.commits >= wanted, 60)

    def close(self) -> int:
        """Leaves; what is committed."""
        self._is_over = True
        self._thread.join()
        [found] = committed_offsets(self._consumer, [TopicPartition("orders", 0)])
        self._consumer.close()
        return int(found.offset)


async def test_a_member_keeps_its_generation_when_its_coordinator_is_killed(groupds: Groupds) -> None:
    member = Member(groupds.bootstrap, "stock")
    try:
        member.until_more()
        owner = await History(groupds.ports, "stock").owner()
        groupds.kill(owner)
        member.until_more()
    finally:
        committed = member.close()
    assert committed >= member.acknowledged
    assert (member.assignments, member.revocations) == (1, 0)
