"""Requests of the data plane: put to it, and its answers brought to who waits for them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from functools import partial
from typing import Any, Final

from coordinator import clock
from coordinator.answers import GOODBYE, HELD, NO_ANSWER, PARKED
from coordinator.engine.threads import Share, Threads
from coordinator.machine.outcome import Context
from coordinator.net.caller import Caller
from coordinator.net.run_queue import RunQueue
from coordinator.net.slot import Slot
from coordinator.server.handlers.in_steps import InSteps
from coordinator.topics.answer import Answer, PartitionFailed, SegmentRolled, TopicChange
from coordinator.topics.consent import AskConsent, Consent
from coordinator.topics.data_plane import Completions, DataPlane
from coordinator.topics.missing import MOST_TOLD, TopicMissing
from coordinator.topics.steps import Apart
from protocol.errors import ErrorCode
from protocol.messages.produce import ProduceResponse
from storage.checkpoint import Draft
from storage.errors import StorageError
from storage.log import PartitionLog

_LOG: Final = logging.getLogger("KafkaApis")

ChangesCallback = Callable[[Sequence[TopicChange]], None]
MissingCallback = Callable[[Sequence[TopicMissing], Caller], None]
"""Takes what is not there, and who asked for it."""


class _Durable:
    """An answer to Produce that waits until its records are on the disk."""

    __slots__ = ("logs", "response", "slot")

    def __init__(self, slot: Slot, response: object, logs: dict[PartitionLog, int]) -> None:
        self.slot = slot
        self.response = response
        self.logs = logs


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
        self._flusher = threads.flusher
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
        self._durable: dict[PartitionLog, list[_Durable]] = {}
        self._awaited: dict[PartitionLog, list[tuple[int, Callable[[ErrorCode], None]]]] = {}
        """Who, besides, waits until a log is durable up to an offset."""
        self._expiry: asyncio.TimerHandle | None = None
        self._expiry_ms = 0
        self._batches = Share(threads.batches)
        self._underway: set[InSteps] = set()

    def handle(self, request: Any, caller: Caller, may_read: Callable[[str], bool] | None = None) -> object:
        """Puts a request to the data plane. In: see `Context`."""
        waiter = self._next_waiter()
        context = Context(
            waiter,
            caller.api_version,
            caller.client_id,
            caller.client_host,
            node=caller.node,
            may_read=may_read,
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
            self._have_synced(answer.unawaited)
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
            self._wait_for(logs, answer, slot)
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
        self._wait_for(logs, answer, caller.answer_later(parks=False))
        return HELD

    def _wait_for(self, logs: dict[PartitionLog, int], answer: Answer, slot: Slot) -> None:
        self._have_synced(logs)
        entry = _Durable(slot, answer.response, logs)
        for log in logs:
            self._durable.setdefault(log, []).append(entry)

    def _have_synced(self, logs: Iterable[PartitionLog]) -> None:
        """With what others need that are answered in the same iteration of the loop."""
        for log in logs:
            self._flusher.need(log, self._synced)
        self._loop.call_soon(self._flusher.kick)

    def _changed(self, changes: Sequence[TopicChange]) -> None:
        self._on_changes(changes)
        rolled = [change.log for change in changes if isinstance(change, SegmentRolled)]
        if rolled:
            for log in rolled:
                self._flusher.need(log, self._synced)
            self._flusher.kick()

    @property
    def waiters(self) -> int:
        """How many answers are owed."""
        return len(self._parked) + len({entry for waiting in self._durable.values() for entry in waiting})

    @property
    def awaited_logs(self) -> Iterable[PartitionLog]:
        """The logs that answers wait for, or others."""
        return {**self._durable, **self._awaited}

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

    # The disk

    def _synced(self, log: PartitionLog, error: StorageError | None) -> None:
        if log in self._awaited:
            self._tell_awaiting(log, error)
        waiting = self._durable.pop(log, None)
        if waiting is not None and log.is_closed and log.failure is None:
            self._settle_deleted(log, waiting)
        elif waiting is not None:
            self._settle(log, waiting, error)
        if error is None and self._parked:
            topic, partition = _partition_of(log)
            self.complete(self._data_plane.advanced(topic, partition, clock.monotonic_ms()))

    def _settle(self, log: PartitionLog, waiting: list[_Durable], error: StorageError | None) -> None:
        later: list[_Durable] = []
        for entry in waiting:
            if entry.slot.data is not None:
                continue
            if error is not None:
                self._refuse(entry.response, log)
                entry.logs.pop(log)
                if not entry.logs:
                    entry.slot.fill(entry.response)
            elif log.durable_offset >= entry.logs[log]:
                del entry.logs[log]
                if not entry.logs:
                    entry.slot.fill(entry.response)
            else:
                later.append(entry)
        if error is not None:
            self._on_changes([PartitionFailed(*_partition_of(log), str(error))])
        if later:
            self._durable[log] = later
            self._flusher.need(log, self._synced)
            self._flusher.kick()

    def _settle_deleted(self, log: PartitionLog, waiting: list[_Durable]) -> None:
        """The topic was deleted after these records were appended: nothing of it has to last any more."""
        for entry in waiting:
            del entry.logs[log]
            if not entry.logs and entry.slot.data is None:
                entry.slot.fill(entry.response)

    def _refuse(self, response: object, log: PartitionLog) -> None:
        """What was appended to this log may be lost: its partition's part of an answer to Produce says so."""
        assert isinstance(response, ProduceResponse)
        name, partition = _partition_of(log)
        topic = self._data_plane.catalogue.get(name)
        topic_id = b"" if topic is None else topic.topic_id
        for answered in response.responses:
            if answered.name != name and answered.topic_id != topic_id:
                continue
            for part in answered.partition_responses:
                if part.index == partition and part.error_code == ErrorCode.NONE:
                    part.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                    part.base_offset = -1

    def await_durable(self, log: PartitionLog, end_offset: int, done: Callable[[ErrorCode], None]) -> None:
        """Has `done` called once a log is synced up to an offset, or is gone for good; or its error is."""
        self._awaited.setdefault(log, []).append((end_offset, done))
        self._have_synced([log])

    def _tell_awaiting(self, log: PartitionLog, error: StorageError | None) -> None:
        later = []
        for end_offset, done in self._awaited.pop(log, ()):
            if log.is_deleted or log.durable_offset >= end_offset:
                done(ErrorCode.NONE)
            elif error is not None or log.is_closed:
                done(ErrorCode.KAFKA_STORAGE_ERROR)
            else:
                later.append((end_offset, done))
        if later:
            self._awaited[log] = later
            self._flusher.need(log, self._synced)
            self._flusher.kick()

    # Upkeep

    def sync_dirty(self) -> None:
        """Asks for what was appended to any topic to be synced, as far as it is not."""
        for log in self._data_plane.logs().values():
            if log.failure is None and log.is_dirty:
                self._flusher.need(log, self._synced)
        self._flusher.kick()

    def close(self) -> None:
        """Nothing is looked at any more."""
        self._batches.cancel()

    def stop_listening(self) -> None:
        """The flusher, which others share, goes on without it."""
        self._flusher.forget(self._synced)

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


def _partition_of(log: PartitionLog) -> tuple[str, int]:
    """The topic and number in the name of a log's directory."""
    topic, _, number = log.directory.rpartition("/")[2].rpartition("-")
    return topic, int(number)
