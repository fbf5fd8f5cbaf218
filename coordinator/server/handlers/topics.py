"""Requests of the data plane: put to it, and its answers brought to who waits for them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from typing import Any, Final

from coordinator import clock
from coordinator.answers import GOODBYE, HELD, NO_ANSWER, PARKED
from coordinator.engine.threads import Share, Threads
from coordinator.machine.outcome import Context
from coordinator.net.caller import Caller
from coordinator.net.run_queue import RunQueue
from coordinator.net.slot import Slot
from coordinator.server.handlers.durable_answers import DurableAnswers, Ears
from coordinator.server.handlers.in_steps import InSteps
from coordinator.topics.answer import Answer, PartitionFailed, SegmentRolled, TopicChange
from coordinator.topics.consent import AskConsent, Consent
from coordinator.topics.data_plane import Completions, DataPlane
from coordinator.topics.missing import MOST_TOLD, TopicMissing
from coordinator.topics.steps import Apart
from coordinator.topics.topic_rights import ALL_TOPIC_RIGHTS, TopicRights
from storage.checkpoint import Draft
from storage.errors import StorageError
from storage.log import PartitionLog
from storage.topic_partition import TopicPartition

_LOG: Final = logging.getLogger("KafkaApis")

ChangesCallback = Callable[[Sequence[TopicChange]], None]
MissingCallback = Callable[[Sequence[TopicMissing], Caller], None]
"""Takes what is not there, and who asked for it."""


class TopicsHandler:
    """Answers whatever the data plane serves."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        data_plane: DataPlane,
        threads: Threads,
        run_queue: RunQueue,
        arrival: clock.Arrival,
        next_waiter: Callable[[], int],
        on_changes: ChangesCallback,
        on_missing: MissingCallback,
        write: Callable[[Draft], Awaitable[None]],
    ) -> None:
        """In: who writes checkpoints, as the last."""
        self._loop = loop
        self._data_plane = data_plane
        self._run_queue = run_queue
        self.arrival = arrival
        """The instant that the engine takes for that of the request at hand."""
        self._next_waiter = next_waiter
        self._on_changes = on_changes
        self._on_missing = on_missing
        self._write = write
        self.ask_consent: Callable[[AskConsent], asyncio.Future[Consent]]
        """Who answers for the coordinators of transactions; set by whoever has them."""
        self._parked: dict[int, Slot] = {}
        ears = Ears(self._advanced, self._failed)
        self.durable = DurableAnswers(loop, threads.flusher, self._topic_id, ears)
        """Who waits until records are durable."""
        self._expiry: asyncio.TimerHandle | None = None
        self._expiry_ms = 0
        self._batches = Share(threads.batches)
        self._underway: set[InSteps] = set()

    def handle(self, request: Any, caller: Caller, rights: TopicRights = ALL_TOPIC_RIGHTS) -> object:
        """Puts a request to the data plane. In: what the data plane itself has to check."""
        waiter = self._next_waiter()
        context = Context(
            waiter,
            caller.api_version,
            caller.client_id,
            caller.client_host,
            node=caller.node,
            may_read=rights.may_read,
            may_describe=rights.may_describe,
            may_delete=rights.may_delete,
        )
        answer = self._data_plane.begin(request, context, self.arrival.now)
        if not isinstance(answer, Answer):
            fill = partial(self._fill, caller, waiter)
            steps = InSteps(answer, self._run_queue, self.elsewhere, fill, self._underway)
            at_once = steps.advance()
            if at_once is None:
                steps.wait_in(caller.answer_later(parks=True))
                return PARKED
            answer = at_once
        self._consequences(answer, caller)
        if answer.response is PARKED:
            self._park(waiter, caller.answer_later(parks=True))
            return PARKED
        if answer.response is GOODBYE:
            return GOODBYE
        return self._when_durable(answer, caller)

    @property
    def underway(self) -> int:
        """How many answers are being found that take long."""
        return len(self._underway)

    def _consequences(self, answer: Answer, caller: Caller) -> None:
        """What an answer is for others than who asked."""
        if answer.changes:
            self._changed(answer.changes)
        if answer.completions:
            self.complete(answer.completions)
        if answer.unawaited:
            self.durable.have_synced(answer.unawaited)
        if answer.missing:
            self._on_missing(answer.missing[:MOST_TOLD], caller)

    def _fill(self, caller: Caller, waiter: int, answer: Answer, slot: Slot | None) -> None:
        """An answer is there that has taken long. In: None when nobody waits for it any more."""
        self._consequences(answer, caller)
        if slot is None:
            return
        if answer.response is PARKED:
            self._park(waiter, slot)
            return
        logs = _not_durable(answer)
        if logs:
            self.durable.wait_for(logs, answer.response, slot)
        elif answer.response is GOODBYE:
            slot.fill(NO_ANSWER)
            slot.owner.close()
        else:
            slot.fill(answer.response)

    def elsewhere(self, work: Apart) -> "asyncio.Future[Any]":
        """Has work done that is not the loop's."""
        if isinstance(work, AskConsent):
            return self.ask_consent(work)
        if isinstance(work, Draft):
            return self._loop.create_task(self._written(work))
        return asyncio.wrap_future(self._batches.submit(work), loop=self._loop)

    async def _written(self, draft: Draft) -> OSError | None:
        try:
            await self._write(draft)
        except OSError as error:
            return error
        return None

    def _when_durable(self, answer: Answer, caller: Caller) -> object:
        logs = _not_durable(answer)
        if not logs:
            return answer.response
        self.durable.wait_for(logs, answer.response, caller.answer_later(parks=False))
        return HELD

    def _changed(self, changes: Sequence[TopicChange]) -> None:
        self._on_changes(changes)
        rolled = [change.log for change in changes if isinstance(change, SegmentRolled)]
        if rolled:
            self.durable.sync(rolled)

    def _advanced(self, partition: TopicPartition) -> None:
        if self._parked:
            self.complete(self._data_plane.advanced(*partition, clock.monotonic_ms()))

    def _failed(self, partition: TopicPartition, error: StorageError) -> None:
        self._on_changes([PartitionFailed(*partition, str(error))])

    def _topic_id(self, name: str) -> bytes:
        topic = self._data_plane.catalogue.get(name)
        return b"" if topic is None else topic.topic_id

    @property
    def waiters(self) -> int:
        """How many answers are owed."""
        return len(self._parked) + self.durable.answers

    # Long-poll fetches

    def _park(self, waiter: int, slot: Slot) -> None:
        slot.ends = False
        slot.dropped = partial(self._drop, waiter)
        self._parked[waiter] = slot
        self._watch_deadline()

    def complete(self, completions: Completions) -> None:
        """Answers parked fetches."""
        for waiter, response in completions:
            slot = self._parked.pop(waiter, None)
            if slot is None:
                continue
            if isinstance(response, Generator):
                InSteps(response, self._run_queue, self.elsewhere, _fill_parked, self._underway).wait_in(slot)
            else:
                slot.fill(response)

    def _drop(self, waiter: int) -> None:
        self._parked.pop(waiter, None)
        self._data_plane.drop_waiter(waiter)

    def _watch_deadline(self) -> None:
        """One call of the loop for the earliest deadline of all parked fetches."""
        deadline_ms = self._data_plane.next_deadline_ms()
        if deadline_ms is None or (self._expiry is not None and self._expiry_ms <= deadline_ms):
            return
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry_ms = deadline_ms
        delay_ms = max(0, deadline_ms - clock.monotonic_ms()) + 1
        self._expiry = self._loop.call_later(delay_ms / 1000, self._expire)

    def _expire(self) -> None:
        self._expiry = None
        self.complete(self._data_plane.expire(clock.monotonic_ms()))
        self._watch_deadline()

    def internal_advanced(self, topic: str, partition: int) -> None:
        """A partition of an internal topic can be read further."""
        if self._parked:
            self.complete(self._data_plane.advanced(topic, partition, clock.monotonic_ms()))

    def complete_all(self) -> None:
        """Answers every parked fetch with what there is; the end is near."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        self.complete(self._data_plane.expire(2**62))

    def stop_steps(self) -> None:
        """Leaves what is under way as it is; a start finishes it, as after a crash."""
        for steps in list(self._underway):
            steps.stop()

    # Upkeep

    def sync_dirty(self) -> None:
        """Asks for what was appended to any topic to be synced, as far as it is not."""
        logs = self._data_plane.logs().values()
        self.durable.sync([log for log in logs if log.failure is None and log.is_dirty])

    def close(self) -> None:
        """Nothing is looked at any more."""
        self._batches.cancel()

    def stop_listening(self) -> None:
        """What makes logs durable, which others share, goes on without it."""
        self.durable.forget()

    def sweep(self) -> None:
        """Retention of topics."""
        failures = self._data_plane.sweep(clock.wall_ms())
        if failures:
            self._on_changes(failures)


def _fill_parked(answer: Answer, slot: Slot | None) -> None:
    if slot is not None:
        slot.fill(answer.response)


def _not_durable(answer: Answer) -> dict[PartitionLog, int]:
    """The logs that an answer has to wait for, and how far they have to come."""
    return {log: offset for log, offset in answer.durable if log.durable_offset < offset}
