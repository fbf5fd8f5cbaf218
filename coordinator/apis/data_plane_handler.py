"""The handler of the requests of the data plane, and the replies that wait for its answers."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from coordinator.apis.data_plane_work import DataPlaneServices, DataPlaneWork
from coordinator.apis.produce_purgatory import LogListeners, ProducePurgatory
from coordinator.core import clock
from coordinator.core.outcome import Context
from coordinator.core.reply import Reply
from coordinator.core.response_status import AWAITING_DISK, BLOCKED
from coordinator.core.time_budget import Budget
from coordinator.network.request_context import RequestContext
from coordinator.runtime.flusher import DurabilityBackend
from coordinator.topics.data_plane import Completions, DataPlane, LongAnswer
from coordinator.topics.data_plane_answer import (
    MAX_REPORTED_MISSING,
    Answer,
    MissingTopic,
    PartitionFailed,
    SegmentRolled,
    TopicChange,
)
from coordinator.topics.topic_authorization import ALL_TOPIC_RIGHTS, TopicRights
from storage.log import PartitionLog
from storage.storage_errors import StorageError
from storage.topic_partition import TopicPartition

OnTopicsMissing = Callable[[Sequence[MissingTopic], RequestContext], None]
"""Takes the topics and partitions that do not exist, and the context of the request that named them."""


class DataPlaneHandler:
    """Answers the requests that the data plane serves."""

    def __init__(
        self,
        data_plane: DataPlane,
        services: DataPlaneServices,
        durability: DurabilityBackend,
        arrival: clock.Arrival,
        next_waiter: Callable[[], int],
        on_missing: OnTopicsMissing,
    ) -> None:
        """Create the handler.

        Args:
            services: the services that long work waits for.
            durability: makes the logs durable that responses wait for.
        """
        self.services = services
        self._loop = services.loop
        self._data_plane = data_plane
        self.arrival = arrival
        """The arrival time that the engine uses for the current request."""
        self._next_waiter = next_waiter
        self._on_missing = on_missing
        self._delayed_fetches: dict[int, Reply] = {}
        listeners = LogListeners(self._on_log_advanced, self._on_log_failed, data_plane.on_replication_failed)
        self.produce_purgatory = ProducePurgatory(self._loop, durability, self._find_topic_id, listeners)
        """The responses that wait until records are durable."""
        self._expiry: asyncio.TimerHandle | None = None
        self._expiry_ms = 0

    def handle(self, request: Any, context: RequestContext, rights: TopicRights = ALL_TOPIC_RIGHTS) -> object:
        """Answer a request. The data plane itself checks `rights`."""
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
            may_create=rights.may_create,
        )
        answer = self._data_plane.begin_request(request, machine_context, self.arrival.now)
        if not isinstance(answer, Answer):
            work = self.services.create_work()
            return self.services.request_tasks.run(
                self._answer_request(answer, work, context),
                context.defer,
                work,
                partial(self._create_response, waiter, context),
            )
        self._apply_side_effects(answer, context)
        return self._create_response(waiter, context, answer, None)

    async def _answer_request(
        self, answer_request: LongAnswer, work: DataPlaneWork, context: RequestContext
    ) -> Answer:
        answer = await answer_request(work)
        self._apply_side_effects(answer, context)
        return answer

    def _apply_side_effects(self, answer: Answer, context: RequestContext) -> None:
        """Apply the effects of an answer on other clients. Its own client may have disconnected."""
        if answer.changes:
            self._on_topics_changed(answer.changes)
        if answer.completions:
            self.complete_fetches(answer.completions)
        if answer.unawaited:
            self.produce_purgatory.schedule_sync(answer.unawaited)
        if answer.missing:
            self._on_missing(answer.missing[:MAX_REPORTED_MISSING], context)

    def _create_response(
        self, waiter: int, context: RequestContext, answer: Answer, reply: Reply | None
    ) -> object:
        """Return the result of a handler. `reply` is set if it is already deferred."""
        if answer.response is BLOCKED:
            self._park_fetch(waiter, context.defer(blocks=True) if reply is None else reply)
            return BLOCKED
        logs = _find_undurable_logs(answer)
        if not logs:
            return answer.response
        if reply is None:
            reply = context.defer(blocks=False)
        self.produce_purgatory.delay_response(logs, answer.response, reply)
        return AWAITING_DISK

    def _on_topics_changed(self, changes: Sequence[TopicChange]) -> None:
        self.services.publish_changes(changes)
        rolled = [change.log for change in changes if isinstance(change, SegmentRolled)]
        if rolled:
            self.produce_purgatory.sync_now(rolled)

    def _on_log_advanced(self, partition: TopicPartition) -> None:
        if self._delayed_fetches:
            self.complete_fetches(
                self._data_plane.on_high_watermark_advanced(*partition, clock.monotonic_ms())
            )

    def _on_log_failed(self, partition: TopicPartition, error: StorageError) -> None:
        self.services.publish_changes([PartitionFailed(*partition, str(error))])

    def _find_topic_id(self, name: str) -> bytes:
        topic = self._data_plane.catalogue.find_topic(name)
        return b"" if topic is None else topic.topic_id

    @property
    def waiter_count(self) -> int:
        """Return the number of requests that wait for records, or for the disk."""
        return len(self._delayed_fetches) + self.produce_purgatory.delayed_count

    # Long-poll fetches

    def _park_fetch(self, waiter: int, reply: Reply) -> None:
        reply.is_in_progress = False
        reply.on_abandoned = partial(self._drop_fetch, waiter)
        self._delayed_fetches[waiter] = reply
        self._schedule_expiry()

    def complete_fetches(self, completions: Completions) -> None:
        """Answer the delayed fetches of `completions`."""
        for waiter, response in completions:
            reply = self._delayed_fetches.pop(waiter, None)
            if reply is None:
                continue
            if callable(response):
                work = self.services.create_work()
                reply.complete_with(
                    self.services.request_tasks.run,
                    self._answer_large_fetch(response, work),
                    reply.reopen,
                    work,
                )
            else:
                reply.send(response)

    async def _answer_large_fetch(self, answer_fetch: LongAnswer, work: DataPlaneWork) -> object:
        """Return the response of a large fetch. One append may complete many: each waits for its turn first."""
        await self.services.request_tasks.run_queue.wait_turn()
        return (await answer_fetch(work)).response

    def _drop_fetch(self, waiter: int) -> None:
        self._delayed_fetches.pop(waiter, None)
        self._data_plane.forget_waiter(waiter)

    def _schedule_expiry(self) -> None:
        """Schedule one call of the loop for the earliest deadline of all delayed fetches."""
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
        """Complete the fetches that wait for more records of an internal topic."""
        if self._delayed_fetches:
            self.complete_fetches(
                self._data_plane.on_high_watermark_advanced(topic, partition, clock.monotonic_ms())
            )

    def complete_all_fetches(self) -> None:
        """Answer every delayed fetch with the records that exist now, because the daemon stops."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        self.complete_fetches(self._data_plane.expire_fetches(2**62))

    # Periodic jobs

    def sync_dirty_logs(self) -> None:
        """Request a sync of every log with records that are not on the disk."""
        logs = self._data_plane.list_logs().values()
        self.produce_purgatory.sync_now([log for log in logs if log.failure is None and log.is_dirty])

    def stop_listening(self) -> None:
        """Stop listening. The shared flusher of logs continues."""
        self.produce_purgatory.stop_listening()

    async def apply_retention(self, budget: Budget) -> None:
        """Apply retention to all partitions of topics, in slices."""
        failures = await self._data_plane.apply_retention(clock.wall_ms(), budget)
        if failures:
            self.services.publish_changes(failures)


def _find_undurable_logs(answer: Answer) -> dict[PartitionLog, int]:
    """Return the logs that an answer must wait for, with the required durable offsets."""
    return {log: offset for log, offset in answer.durable if log.durable_offset < offset}
