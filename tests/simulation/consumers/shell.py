"""The shell, which also reports topics to the core and does the core's background work."""

from collections.abc import Callable
from typing import Any

from coordinator.core.outcome import Context, Outcome, Work, WorkDone
from coordinator.group.consumer.target_assignment import TargetWork, compute_target
from coordinator.group.group_config import ConsumerGroupConfig, GroupConfig
from coordinator.group.group_request_rules import build_group_error_response
from coordinator.group.group_requests import EndTransaction, TopicsChanged
from coordinator.group.group_shard import GroupShard
from protocol.error_codes import ErrorCode
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.group.consumer.resolution import resolved
from tests.simulation.checks import Checks
from tests.simulation.consumers.topics import Topics
from tests.simulation.shell import Shell
from tests.simulation.world import World

NOBODY = Context(0, 0, "", "")
MARKER_RETRY_MS = 500


class ConsumerShell(Shell):
    """A shell that does background work. The work takes time, sometimes fails, and ends when its partition is
    unloaded.
    """

    def __init__(
        self,
        world: World,
        config: GroupConfig,
        shard: Callable[..., GroupShard],
        checks: Checks,
        consumer_config: ConsumerGroupConfig,
        topics: Topics,
    ) -> None:
        self._consumer_config = consumer_config
        self._topics = topics
        self._told = topics.image
        self.work_ms = (0, 50)
        self.work_fails = 0.0
        self._ended: set[int] = set()
        self._marked: set[int] = set()
        self._markers: dict[int, int] = {}
        super().__init__(world, config, shard, checks)
        topics.listener = self._tell_topics

    def end_transaction(self, producer_id: int, is_committed: bool) -> None:
        """End a transaction as its coordinator does: send the marker repeatedly until it is durable. The
        transaction gets no further offsets.
        """
        self._ended.add(producer_id)
        if producer_id in self._marked:
            return
        self.world.after(MARKER_RETRY_MS, lambda: self.end_transaction(producer_id, is_committed))
        if self.shard is not None and self.paused_until_ms <= self.world.now_ms:
            self._waiters += 1
            waiter = self._waiters
            self._markers[waiter] = producer_id
            request = EndTransaction(producer_id, 1, 1, is_committed)
            self.checks.asked(waiter, request)
            outcome = self.shard.handle(request, Context(waiter, 0, "", ""), self.now())
            self._follow(request, waiter, outcome)

    def _release(self, waiter: int, message: Any) -> None:
        super()._release(waiter, message)
        if waiter in self._markers:
            self._marked.add(self._markers.pop(waiter))

    def _refusal(self, message: Any) -> Any:
        if not isinstance(message, TxnOffsetCommitRequest) or message.producer_id not in self._ended:
            return None
        return build_group_error_response(message, 5, ErrorCode.INVALID_TXN_STATE)

    def _new_shard(self) -> GroupShard:
        return self._make(self.config, self._told, self._consumer_config)

    def _load(self) -> None:
        super()._load()
        self._tell_topics()

    def _tell_topics(self) -> None:
        before, image = self._told, self._topics.image
        if self.shard is not None and image is not before:
            self._told = image
            request = TopicsChanged(image, before.find_deleted(image))
            self._follow(request, 0, self.shard.handle(request, NOBODY, self.now()))

    def _follow(self, cause: Any, waiter: int, outcome: Outcome) -> None:
        life = self._life
        super()._follow(cause, waiter, outcome)
        for work in outcome.work if life == self._life else ():
            self.world.after(self.world.random.randint(*self.work_ms), lambda work=work: self._do(work, life))  # type: ignore[misc]

    def _do(self, work: Work, life: int) -> None:
        if life != self._life or self.shard is None or self._is_paused(lambda: self._do(work, life)):
            return
        if self.world.chance(self.work_fails):
            done = WorkDone(work, None, "no memory")
        elif isinstance(work.argument, TargetWork):
            done = WorkDone(work, compute_target(work.argument))
        else:
            done = resolved(work)
        self._follow(done, 0, self.shard.handle(done, NOBODY, self.now()))
