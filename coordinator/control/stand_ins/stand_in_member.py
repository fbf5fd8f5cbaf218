"""A stand-in: its settings, its description and its life cycle. `member_clients.py` has its requests."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final, Literal, Protocol
from uuid import uuid4

from msgspec import Struct

from coordinator.control.group_client import InternalGroupClient
from coordinator.control.problem import Problem
from coordinator.control.stand_ins.stand_in_assignor import Partitions
from coordinator.core.message_text import printable
from coordinator.core.wire_name import wire_name
from protocol.error_codes import ErrorCode

_LOG: Final = logging.getLogger("Control")

RETRY_INTERVAL_S: Final = 0.1
"""The pause before a stand-in repeats a request after a retriable error, seconds."""
PAUSE_S: Final = 0.01
"""The pause before a stand-in joins again, seconds, so that it never occupies the event loop."""

StandInState = Literal["joining", "member", "stalled", "left", "failed"]


class StandInSettings(Struct, frozen=True, kw_only=True):
    """The settings of a stand-in. `protocols` are its classic protocols, best first. `assignment` is the
    assignment by client id if it leads; None means that of the range assignor."""

    group_id: str
    client_id: str
    group_instance_id: str | None
    topics: tuple[str, ...]
    is_classic: bool
    protocols: tuple[str, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    assignment: Mapping[str, Partitions] | None


@wire_name("StandInDescription")
class StandInDescription(Struct, frozen=True, kw_only=True):
    """The state of a stand-in. `generation_id` is the member epoch in a consumer group. `error` is the Kafka name
    of the error that ended it, null without one."""

    client_id: str
    group_instance_id: str | None
    group_protocol: Literal["classic", "consumer"]
    state: StandInState
    member_id: str
    generation_id: int
    topics: tuple[str, ...]
    assigned: dict[str, list[int]]
    error: str | None


class StandInRefused(Exception):
    """The coordinator refuses the stand-in as a member."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error: Final = error


class MemberClient(Protocol):
    """Sends the requests of a stand-in."""

    member_id: str
    generation_id: int
    assigned: dict[str, list[int]]
    is_member: bool
    """Whether the member has its assignment, and no rebalance began since."""

    async def run(self) -> None:
        """Join and stay a member until cancellation. Raises StandInRefused, and Problem while the coordinator is
        unavailable."""

    async def leave_group(self) -> None:
        """Leave the group with a request. Raises Problem."""

    def reset(self) -> None:
        """Forget the member id and the assignment."""


class StandInMember:
    """The life cycle of one stand-in. All methods belong to the event loop's thread."""

    def __init__(
        self, settings: StandInSettings, client: MemberClient, wake: asyncio.Event, connection_id: int
    ) -> None:
        """Create a stand-in. `wake` is set when it has something to do. `connection_id` is an unused number."""
        self.settings: Final = settings
        self.connection_id: Final = connection_id
        self.wake: Final = wake
        self._client = client
        self._task: asyncio.Task[None] | None = None
        self._state: StandInState = "left"
        self._error: ErrorCode | None = None

    @property
    def is_connected(self) -> bool:
        """Whether the stand-in counts as connected. A stalled one does."""
        return self._state in ("joining", "member", "stalled")

    def start(self) -> None:
        """Start to join under the current member id, unless the stand-in is running."""
        if self._task is None:
            if self._state in ("left", "failed"):
                self._client.reset()
            self._error = None
            self._state = "joining"
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stall(self) -> None:
        """Stop sending requests, as a stopped process does. The connection stays open."""
        if await self._stop():
            self._state = "stalled"

    async def leave(self) -> None:
        """Leave the group, also as a static member. Raises Problem if the coordinator refuses."""
        was_there = self.is_connected
        await self._stop()
        self._state = "left"
        if was_there:
            await self._client.leave_group()

    async def _stop(self) -> bool:
        """Cancel the task of the stand-in. Return whether the stand-in was running."""
        task, self._task = self._task, None
        if task is None:
            return False
        task.cancel()
        await asyncio.wait([task])
        return self._state != "failed"

    async def _run(self) -> None:
        while True:
            try:
                await self._client.run()
            except StandInRefused as refusal:
                self._mark_failed(refusal.error)
                return
            except Problem:
                # The group has another coordinator, or is loading.
                await asyncio.sleep(RETRY_INTERVAL_S)

    def close(self) -> None:
        """Cancel the task of the stand-in without leaving the group."""
        if self._task is not None:
            self._task.cancel()

    def _mark_failed(self, error: ErrorCode) -> None:
        self._state, self._error, self._task = "failed", error, None
        group, client = printable(self.settings.group_id), printable(self.settings.client_id)
        _LOG.warning("groupd refused stand-in %s of group %s: %s", client, group, error.name)

    def describe(self) -> StandInDescription:
        """Return the current state of the stand-in."""
        state: StandInState = self._state
        if state == "joining" and self._client.is_member:
            state = "member"
        return StandInDescription(
            client_id=self.settings.client_id,
            group_instance_id=self.settings.group_instance_id,
            group_protocol="classic" if self.settings.is_classic else "consumer",
            state=state,
            member_id=self._client.member_id,
            generation_id=self._client.generation_id,
            topics=self.settings.topics,
            assigned={topic: numbers for topic, numbers in self._client.assigned.items() if numbers},
            error=None if self._error is None else self._error.name,
        )


class CoordinatorSender(Protocol):
    """Sends requests to the coordinator as one stand-in."""

    async def __call__(self, request: object, api_version: int, *, is_new: bool = False) -> Any:
        """Send a request and return the response. `is_new`: the stand-in has no member id yet. Raises Problem
        (loading)."""


def create_sender(
    group_client: InternalGroupClient, settings: StandInSettings, connection_id: int
) -> CoordinatorSender:
    """Return the function that sends the requests of a stand-in to the coordinator."""

    async def send_request(request: object, api_version: int, *, is_new: bool = False) -> Any:
        return await group_client.request(
            settings.group_id,
            request,
            api_version,
            client_id=settings.client_id,
            connection_id=connection_id,
            new_member_uuid=str(uuid4()) if is_new else "",
        )

    return send_request
