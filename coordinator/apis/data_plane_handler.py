"""The handler of the requests of the data plane, and the replies that wait for its answers."""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from typing import Any

from coordinator.apis.deferred_answers import RemainingSteps
from coordinator.apis.produce_purgatory import LogListeners, ProducePurgatory
from coordinator.core import clock
from coordinator.core.outcome import Context
from coordinator.core.reply import Reply
from coordinator.core.response_status import AWAITING_DISK, BLOCKED, CLOSE_CONNECTION
from coordinator.core.time_budget import RunQueue
from coordinator.network.request_context import RequestContext
from coordinator.runtime.worker_threads import ExecutorShare, WorkerThreads
from coordinator.topics.data_plane import Completions, DataPlane
from coordinator.topics.data_plane_answer import (
    MAX_REPORTED_MISSING,
    Answer,
    MissingTopic,
    PartitionFailed,
    SegmentRolled,
    TopicChange,
)
from coordinator.topics.stepwise_work import AddOrVerifyRequest, AddOrVerifyResult, ExternalStep
from coordinator.topics.topic_authorization import ALL_TOPIC_RIGHTS, TopicRights
from storage.log import PartitionLog
from storage.offset_checkpoint import CheckpointDraft
from storage.storage_errors import StorageError
from storage.topic_partition import TopicPartition

OnTopicsChanged = Callable[[Sequence[TopicChange]], None]
OnTopicsMissing = Callable[[Sequence[MissingTopic], RequestContext], None]
"""Takes what is not there, and who asked for it."""


class DataPlaneHandler:
    """Answers whatever the data plane serves."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        data_plane: DataPlane,
        threads: WorkerThreads,
        run_queue: RunQueue,
        arrival: clock.Arrival,
        next_waiter: Callable[[], int],
        on_changes: OnTopicsChanged,
        on_missing: OnTopicsMissing,
        write: Callable[[CheckpointDraft], Awaitable[None]],
    ) -> None:
        """In: `write` writes a checkpoint."""
        self._loop = loop
        self._data_plane = data_plane
        self._run_queue = run_queue
        self.arrival = arrival
        """The instant that the engine takes for that of the request at hand."""
        self._next_waiter = next_waiter
        self._on_changes = on_changes
        self._on_missing = on_missing
        self._write_checkpoint = write
        self.verify_transaction: Callable[[AddOrVerifyRequest], asyncio.Future[AddOrVerifyResult]]
        """Who answers for the coordinators of transactions; set by whoever has them."""
        self._delayed_fetches: dict[int, Reply] = {}
        listeners = LogListeners(self._on_log_advanced, self._on_log_failed)
        self.produce_purgatory = ProducePurgatory(loop, threads.flusher, self._find_topic_id, listeners)
        """Who waits until records are durable."""
        self._expiry: asyncio.TimerHandle | None = None
        self._expiry_ms = 0
        self._batches = ExecutorShare(threads.batch_executor)
        self._underway: set[RemainingSteps] = set()

    def handle(self, request: Any, context: RequestContext, rights: TopicRights = ALL_TOPIC_RIGHTS) -> object:
        """Puts a request to the data plane. In: what the data plane itself has to check."""
        waiter = self._next_waiter()
        client = context.client
        machine_context = Context(
            waiter,
            context.api_version,
            client.client_id,
            client.host,
            node=client.node,
            may_read=rights.may_read,
            may_describe=rights.may_describe,
            may_delete=rights.may_delete,
        )
        answer = self._data_plane.begin_request(request, machine_context, self.arrival.now)
        if not isinstance(answer, Answer):
            finish = partial(self._finish_late_answer, context, waiter)
            steps = RemainingSteps(answer, self._run_queue, self.run_in_background, finish, self._underway)
            at_once = steps.advance()
            if at_once is None:
                steps.complete(context.defer(blocks=True))
                return BLOCKED
            answer = at_once
        self._apply_side_effects(answer, context)
        if answer.response is BLOCKED:
            self._park_fetch(waiter, context.defer(blocks=True))
            return BLOCKED
        if answer.response is CLOSE_CONNECTION:
            return CLOSE_CONNECTION
        logs = _find_undurable_logs(answer)
        if not logs:
            return answer.response
        self.produce_purgatory.delay_response(logs, answer.response, context.defer(blocks=False))
        return AWAITING_DISK

    @property
    def underway_count(self) -> int:
        """How many answers are being found that take long."""
        return len(self._underway)

    def _apply_side_effects(self, answer: Answer, context: RequestContext) -> None:
        """What an answer is for others than who asked."""
        if answer.changes:
            self._on_topics_changed(answer.changes)
        if answer.completions:
            self.complete_fetches(answer.completions)
        if answer.unawaited:
            self.produce_purgatory.schedule_sync(answer.unawaited)
        if answer.missing:
            self._on_missing(answer.missing[:MAX_REPORTED_MISSING], context)

    def _finish_late_answer(
        self, context: RequestContext, waiter: int, answer: Answer, reply: Reply | None
    ) -> None:
        """An answer is there that has taken long. In: None when nobody waits for it any more."""
        self._apply_side_effects(answer, context)
        if reply is None:
            return
        if answer.response is BLOCKED:
            self._park_fetch(waiter, reply)
            return
        logs = _find_undurable_logs(answer)
        if logs:
            self.produce_purgatory.delay_response(logs, answer.response, reply)
        else:
            reply.send(answer.response)

    def run_in_background(self, work: ExternalStep) -> "asyncio.Future[Any]":
        """Has work done that is not the loop's."""
        if isinstance(work, AddOrVerifyRequest):
            return self.verify_transaction(work)
        if isinstance(work, CheckpointDraft):
            return self._loop.create_task(self._try_write_checkpoint(work))
        return asyncio.wrap_future(self._batches.submit(work), loop=self._loop)

    async def _try_write_checkpoint(self, draft: CheckpointDraft) -> OSError | None:
        try:
            await self._write_checkpoint(draft)
        except OSError as error:
            return error
        return None

    def _on_topics_changed(self, changes: Sequence[TopicChange]) -> None:
        self._on_changes(changes)
        rolled = [change.log for change in changes if isinstance(change, SegmentRolled)]
        if rolled:
            self.produce_purgatory.sync_now(rolled)

    def _on_log_advanced(self, partition: TopicPartition) -> None:
        if self._delayed_fetches:
            self.complete_fetches(
                self._data_plane.on_high_watermark_advanced(*partition, clock.monotonic_ms())
            )

    def _on_log_failed(self, partition: TopicPartition, error: StorageError) -> None:
        self._on_changes([PartitionFailed(*partition, str(error))])

    def _find_topic_id(self, name: str) -> bytes:
        topic = self._data_plane.catalogue.find_topic(name)
        return b"" if topic is None else topic.topic_id

    @property
    def waiter_count(self) -> int:
        """How many answers are owed."""
        return len(self._delayed_fetches) + self.produce_purgatory.delayed_count

    # Long-poll fetches

    def _park_fetch(self, waiter: int, reply: Reply) -> None:
        reply.is_in_progress = False
        reply.on_abandoned = partial(self._drop_fetch, waiter)
        self._delayed_fetches[waiter] = reply
        self._schedule_expiry()

    def complete_fetches(self, completions: Completions) -> None:
        """Answers delayed fetches."""
        for waiter, response in completions:
            reply = self._delayed_fetches.pop(waiter, None)
            if reply is None:
                continue
            if isinstance(response, Generator):
                RemainingSteps(
                    response, self._run_queue, self.run_in_background, _send_fetch, self._underway
                ).complete(reply)
            else:
                reply.send(response)

    def _drop_fetch(self, waiter: int) -> None:
        self._delayed_fetches.pop(waiter, None)
        self._data_plane.forget_waiter(waiter)

    def _schedule_expiry(self) -> None:
        """One call of the loop for the earliest deadline of all delayed fetches."""
        deadline_ms = self._data_plane.next_deadline_ms()
        if deadline_ms is None or (self._expiry is not None and self._expiry_ms <= deadline_ms):
            return
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry_ms = deadline_ms
        delay_ms = max(0, deadline_ms - clock.monotonic_ms()) + 1
        self._expiry = self._loop.call_later(delay_ms / 1000, self._expire_fetches)

    def _expire_fetches(self) -> None:
        self._expiry = None
        self.complete_fetches(self._data_plane.expire_fetches(clock.monotonic_ms()))
        self._schedule_expiry()

    def on_internal_topic_advanced(self, topic: str, partition: int) -> None:
        """A partition of an internal topic can be read further."""
        if self._delayed_fetches:
            self.complete_fetches(
                self._data_plane.on_high_watermark_advanced(topic, partition, clock.monotonic_ms())
            )

    def complete_all_fetches(self) -> None:
        """Answers every delayed fetch with what there is; the end is near."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        self.complete_fetches(self._data_plane.expire_fetches(2**62))

    def stop_steps(self) -> None:
        """Leaves what is under way as it is; a start finishes it, as after a crash."""
        for steps in list(self._underway):
            steps.stop()

    # Periodic jobs

    def sync_dirty_logs(self) -> None:
        """Asks for what was appended to any topic to be synced, as far as it is not."""
        logs = self._data_plane.list_logs().values()
        self.produce_purgatory.sync_now([log for log in logs if log.failure is None and log.is_dirty])

    def close(self) -> None:
        """Nothing is looked at any more."""
        self._batches.cancel()

    def stop_listening(self) -> None:
        """What makes logs durable, which others share, goes on without it."""
        self.produce_purgatory.stop_listening()

    def apply_retention(self) -> None:
        """Retention of topics."""
        failures = self._data_plane.apply_retention(clock.wall_ms())
        if failures:
            self._on_changes(failures)


def _send_fetch(answer: Answer, reply: Reply | None) -> None:
    if reply is not None:
        reply.send(answer.response)


def _find_undurable_logs(answer: Answer) -> dict[PartitionLog, int]:
    """The logs that an answer has to wait for, and how far they have to come."""
    return {log: offset for log, offset in answer.durable if log.durable_offset < offset}
