"""A stand-in that is a member of a consumer group (KIP-848): it has what it is told to have, and gives up what
it is told to give up, with its next heartbeat."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from coordinator.control.stand_ins.stand_in import BREATH_S, LOOKS_AGAIN_S, Asks, Refusal, StandInSettings
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)

MOST_RESTED_S: Final = 0.5
"""After how long it asks whether there is something new, however rarely it would have to: tests wait for it."""

_VERSION: Final = 1
_JOINS: Final = 0
_LEAVES: Final = -1
_LATER: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
_ANEW: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)


class ConsumerPlayer:
    """See `Player`."""

    def __init__(
        self,
        settings: StandInSettings,
        ask: Asks,
        wake: asyncio.Event,
        new_member_id: Callable[[], str],
        names: Callable[[], Mapping[bytes, str]],
        tell: Callable[[], None],
    ) -> None:
        """In: who makes the ids of members; the names of topics, by id; who tells the others of the group that
        there may be something for them now."""
        self._settings = settings
        self._ask = ask
        self._wake = wake
        self._new_member_id = new_member_id
        self._names = names
        self._tell = tell
        self._is_changed = False
        self._by_id: dict[bytes, list[int]] = {}
        self.member_id = ""
        self.generation_id = _JOINS
        self.assigned: dict[str, list[int]] = {}
        self.is_member = False

    def forget(self) -> None:
        self.member_id, self.generation_id = "", _JOINS
        self._has({})
        self.is_member = False

    async def play(self) -> None:
        while True:
            says_all = not self.is_member
            if says_all:
                self.member_id = self.member_id or self._new_member_id()
                self.generation_id = _JOINS
                self._has({})
            self._wake.clear()
            answer = await self._beat(says_all=says_all)
            error = ErrorCode(answer.error_code)
            if error is ErrorCode.NONE:
                self.is_member = True
                self.generation_id = answer.member_epoch
                if self._is_news(answer):
                    await asyncio.sleep(BREATH_S)
                    continue
                self._tell_once()
                await self._rest(min(MOST_RESTED_S, answer.heartbeat_interval_ms / 1000))
            elif error in _LATER:
                await asyncio.sleep(LOOKS_AGAIN_S)
            elif error in _ANEW:
                self.is_member = False
                await asyncio.sleep(BREATH_S)
            else:
                raise Refusal(error)

    async def leave(self) -> None:
        if self.is_member:
            self.generation_id = _LEAVES
            await self._beat(says_all=False)
        self.forget()

    def _tell_once(self) -> None:
        """What it has given up is free when its heartbeat has said so."""
        if self._is_changed:
            self._is_changed = False
            self._tell()

    def _is_news(self, answer: ConsumerGroupHeartbeatResponse) -> bool:
        """Whether it has something else from now on."""
        if answer.assignment is None:
            return False
        told = {each.topic_id: list(each.partitions) for each in answer.assignment.topic_partitions}
        if told == self._by_id:
            return False
        self._has(told)
        self._is_changed = True
        return True

    def _has(self, partitions: dict[bytes, list[int]]) -> None:
        self._by_id = partitions
        names = self._names() if partitions else {}
        self.assigned = {names.get(topic_id, ""): numbers for topic_id, numbers in partitions.items()}

    async def _beat(self, *, says_all: bool) -> ConsumerGroupHeartbeatResponse:
        owned = [
            ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=numbers)
            for topic_id, numbers in self._by_id.items()
        ]
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._settings.group_id,
            member_id=self.member_id,
            member_epoch=self.generation_id,
            instance_id=self._settings.group_instance_id,
            rebalance_timeout_ms=self._settings.rebalance_timeout_ms if says_all else -1,
            subscribed_topic_names=list(self._settings.topics) if says_all else None,
            topic_partitions=owned,
        )
        answer: ConsumerGroupHeartbeatResponse = await self._ask(request, _VERSION)
        return answer

    async def _rest(self, interval_s: float) -> None:
        try:
            async with asyncio.timeout(interval_s):
                await self._wake.wait()
        except TimeoutError:
            pass  # nothing has happened
