"""A member of a stock client outlives its coordinator without a rebalance and without a lost commit."""

import contextlib
import threading

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.cluster.etcd.conftest import Groupds
from tests.cluster.etcd.history import History
from tests.librdkafka import COMMITS_DURING_A_TAKEOVER, committed_offsets

COMMITS = 20
HANG_S = 60

pytestmark = pytest.mark.timeout(600)


class Member:
    """A consumer that commits one offset after the other in a thread."""

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
                **COMMITS_DURING_A_TAKEOVER,
            }
        )
        self._consumer.subscribe(["orders"], on_assign=self._on_assign, on_revoke=self._on_revoke)
        self._changed = threading.Condition()
        self._is_over = False
        self._thread = threading.Thread(target=self._commit_until_over)
        self._thread.start()

    def _on_assign(self, *_: object) -> None:
        self.assignments += 1

    def _on_revoke(self, *_: object) -> None:
        self.revocations += not self._is_over

    def _commit_until_over(self) -> None:
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

    def wait_for_commits(self) -> None:
        """Wait until the coordinator has acknowledged `COMMITS` more commits."""
        with self._changed:
            wanted = self.commits + COMMITS
            assert self._changed.wait_for(lambda: self.commits >= wanted, HANG_S)

    def close(self) -> int:
        """Leave the group, and return its committed offset."""
        self._is_over = True
        self._thread.join()
        [found] = committed_offsets(self._consumer, [TopicPartition("orders", 0)])
        self._consumer.close()
        return int(found.offset)


async def test_a_member_keeps_its_generation_when_its_coordinator_is_killed(groupds: Groupds) -> None:
    member = Member(groupds.bootstrap, "stock")
    try:
        member.wait_for_commits()
        owner = await History(groupds.ports, "stock").owner()
        groupds.kill(owner)
        member.wait_for_commits()
    finally:
        committed = member.close()
    assert committed >= member.acknowledged
    assert (member.assignments, member.revocations) == (1, 0)
