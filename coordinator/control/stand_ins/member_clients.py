"""Clients of stand-in members for both group protocols.

The classic client works like Kafka's `ConsumerCoordinator`: it joins, assigns partitions if it is the leader,
sends heartbeats, and joins again when the group rebalances. The client of a consumer group (KIP-848) takes
over its assignment at once, and confirms revoked partitions with its next heartbeat.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from coordinator.control.stand_ins.stand_in_assignor import (
    Partitions,
    assign_partitions,
    build_topic_partitions,
)
from coordinator.control.stand_ins.stand_in_member import (
    PAUSE_S,
    RETRY_INTERVAL_S,
    CoordinatorSender,
    StandInRefused,
    StandInSettings,
)
from protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

COOPERATIVE: Final = "cooperative-sticky"

_JOIN_VERSION: Final = 9
_SYNC_VERSION: Final = 5
_HEARTBEAT_VERSION: Final = 4
_LEAVE_VERSION: Final = 5
_SUBSCRIPTION_VERSION: Final = 2
_ASSIGNMENT_VERSION: Final = 0
_HEARTBEATS_PER_SESSION: Final = 3
_RETRIABLE: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
_REJOIN_ERRORS: Final = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)


class ClassicMemberClient:
    def __init__(
        self,
        settings: StandInSettings,
        send: CoordinatorSender,
        wake: asyncio.Event,
        count_partitions: Callable[[], Mapping[str, int]],
        client_ids: Callable[[], Mapping[str, str]],
    ) -> None:
        """Create a member that has not joined.

        Args:
            settings: the settings of the stand-in.
            send: sends requests to the coordinator.
            wake: set when the member must act.
            count_partitions: returns the number of partitions of each topic.
            client_ids: returns the client ids of the group's members by member id.
        """
        self._settings = settings
        self._send = send
        self._wake = wake
        self._count_partitions = count_partitions
        self._client_ids = client_ids
        self.member_id = ""
        self.generation_id = -1
        self.assigned: dict[str, list[int]] = {}
        self.is_member = False

    def reset(self) -> None:
        self.member_id, self.generation_id, self.assigned = "", -1, {}
        self.is_member = False

    async def run(self) -> None:
        if self.is_member:  # it was stalled and continues
            await self._send_heartbeats()
        while True:
            self.is_member = False
            joined = await self._join()
            if joined is None:
                await asyncio.sleep(PAUSE_S)
                continue
            if await self._sync(joined):
                await self._send_heartbeats()
            await asyncio.sleep(PAUSE_S)

    async def leave_group(self) -> None:
        if self.member_id:
            identity = MemberIdentity(
                member_id=self.member_id, group_instance_id=self._settings.group_instance_id
            )
            request = LeaveGroupRequest(group_id=self._settings.group_id, members=[identity])
            await self._send(request, _LEAVE_VERSION)
        self.reset()

    async def _join(self) -> JoinGroupResponse | None:
        """Send a JoinGroup. Return its response, or None if the member must join again."""
        subscription = ConsumerProtocolSubscription(
            topics=list(self._settings.topics),
            owned_partitions=build_topic_partitions(self.assigned),
            generation_id=self.generation_id,
        )
        metadata = encode_subscription(subscription, _SUBSCRIPTION_VERSION)
        request = JoinGroupRequest(
            group_id=self._settings.group_id,
            session_timeout_ms=self._settings.session_timeout_ms,
            rebalance_timeout_ms=self._settings.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self._settings.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=metadata) for name in self._settings.protocols
            ],
        )
        self._wake.clear()
        answer: JoinGroupResponse = await self._send(request, _JOIN_VERSION, is_new=not self.member_id)
        error = ErrorCode(answer.error_code)
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return None
        if not await self._check_error(error):
            return None
        self.member_id, self.generation_id = answer.member_id, answer.generation_id
        return answer

    async def _sync(self, joined: JoinGroupResponse) -> bool:
        """Fetch the assignment. Return whether the member has its assignment until the next rebalance."""
        handed_out, is_whole = self._assign_as_leader(joined)
        request = SyncGroupRequest(
            group_id=self._settings.group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=self._settings.group_instance_id,
            protocol_type=joined.protocol_type,
            protocol_name=joined.protocol_name,
            assignments=handed_out,
        )
        answer: SyncGroupResponse = await self._send(request, _SYNC_VERSION)
        if not await self._check_error(ErrorCode(answer.error_code)):
            return False
        had = {(topic, number) for topic, numbers in self.assigned.items() for number in numbers}
        assignment = decode_assignment(answer.assignment) if answer.assignment else None
        found = [] if assignment is None else assignment.assigned_partitions
        self.assigned = {each.topic: list(each.partitions) for each in found}
        self.is_member = True
        has = {(topic, number) for topic, numbers in self.assigned.items() for number in numbers}
        # A cooperative member joins again after it has revoked partitions, to report this.
        return is_whole and not (joined.protocol_name == COOPERATIVE and had - has)

    def _assign_as_leader(self, joined: JoinGroupResponse) -> tuple[list[SyncGroupRequestAssignment], bool]:
        if joined.leader != joined.member_id or joined.skip_assignment:
            return [], True
        handed_out = assign_partitions(
            joined.members,
            self._find_fixed_assignment(),
            self._count_partitions(),
            is_cooperative=joined.protocol_name == COOPERATIVE,
        )
        assignments = [
            SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=encode_assignment(
                    ConsumerProtocolAssignment(assigned_partitions=build_topic_partitions(partitions)),
                    _ASSIGNMENT_VERSION,
                ),
            )
            for member_id, partitions in handed_out.by_member.items()
        ]
        return assignments, handed_out.is_whole

    def _find_fixed_assignment(self) -> Mapping[str, Partitions]:
        fixed = self._settings.assignment
        if fixed is None:
            return {}
        return {member_id: fixed.get(client_id, {}) for member_id, client_id in self._client_ids().items()}

    async def _send_heartbeats(self) -> None:
        """Send heartbeats until the group rebalances or does not know the member any more."""
        every_s = self._settings.session_timeout_ms / _HEARTBEATS_PER_SESSION / 1000
        request = HeartbeatRequest(
            group_id=self._settings.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self._settings.group_instance_id,
        )
        error = ErrorCode.NONE
        while error is ErrorCode.NONE or error in _RETRIABLE:
            try:
                async with asyncio.timeout(every_s if error is ErrorCode.NONE else RETRY_INTERVAL_S):
                    await self._wake.wait()
            except TimeoutError:
                pass  # the next heartbeat is due
            self._wake.clear()
            answer: HeartbeatResponse = await self._send(request, _HEARTBEAT_VERSION)
            error = ErrorCode(answer.error_code)
        await self._check_error(error)

    async def _check_error(self, error: ErrorCode) -> bool:
        """Return whether a response has no error. Otherwise the member joins again, after a pause for a retriable
        error. Raises StandInRefused for other errors."""
        if error is ErrorCode.NONE:
            return True
        if error in _RETRIABLE:
            await asyncio.sleep(RETRY_INTERVAL_S)
        elif error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.reset()
        elif error not in _REJOIN_ERRORS:
            raise StandInRefused(error)
        return False


MAX_HEARTBEAT_INTERVAL_S: Final = 0.5
"""The maximum interval between heartbeats in seconds. It is shorter than necessary because tests wait for
changes."""

_CONSUMER_HEARTBEAT_VERSION: Final = 1
_JOIN_EPOCH: Final = 0
_LEAVE_EPOCH: Final = -1
_FENCED_ERRORS: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)


class ConsumerMemberClient:
    def __init__(
        self,
        settings: StandInSettings,
        send: CoordinatorSender,
        wake: asyncio.Event,
        new_member_id: Callable[[], str],
        topic_names: Callable[[], Mapping[bytes, str]],
        notify_group: Callable[[], None],
    ) -> None:
        """Create a member that has not joined.

        Args:
            settings: the settings of the stand-in.
            send: sends requests to the coordinator.
            wake: set when the member must act.
            new_member_id: creates a member id.
            topic_names: returns the names of topics by id.
            notify_group: wakes the other stand-ins of the group after a change.
        """
        self._settings = settings
        self._send = send
        self._wake = wake
        self._new_member_id = new_member_id
        self._topic_names = topic_names
        self._notify_group = notify_group
        self._is_changed = False
        self._by_id: dict[bytes, list[int]] = {}
        self.member_id = ""
        self.generation_id = _JOIN_EPOCH
        self.assigned: dict[str, list[int]] = {}
        self.is_member = False

    def reset(self) -> None:
        self.member_id, self.generation_id = "", _JOIN_EPOCH
        self._set_assignment({})
        self.is_member = False

    async def run(self) -> None:
        while True:
            is_full = not self.is_member
            if is_full:
                self.member_id = self.member_id or self._new_member_id()
                self.generation_id = _JOIN_EPOCH
                self._set_assignment({})
            self._wake.clear()
            answer = await self._send_heartbeat(is_full=is_full)
            error = ErrorCode(answer.error_code)
            if error is ErrorCode.NONE:
                self.is_member = True
                self.generation_id = answer.member_epoch
                if self._apply_assignment(answer):
                    await asyncio.sleep(PAUSE_S)
                    continue
                self._notify_once()
                await self._wait_interval(min(MAX_HEARTBEAT_INTERVAL_S, answer.heartbeat_interval_ms / 1000))
            elif error in _RETRIABLE:
                await asyncio.sleep(RETRY_INTERVAL_S)
            elif error in _FENCED_ERRORS:
                self.is_member = False
                await asyncio.sleep(PAUSE_S)
            else:
                raise StandInRefused(error)

    async def leave_group(self) -> None:
        if self.is_member:
            self.generation_id = _LEAVE_EPOCH
            await self._send_heartbeat(is_full=False)
        self.reset()

    def _notify_once(self) -> None:
        """Wake the other stand-ins of the group after a change, so that they can take the revoked partitions."""
        if self._is_changed:
            self._is_changed = False
            self._notify_group()

    def _apply_assignment(self, answer: ConsumerGroupHeartbeatResponse) -> bool:
        """Apply the assignment of a response, and return whether the assignment has changed."""
        if answer.assignment is None:
            return False
        assigned = {each.topic_id: list(each.partitions) for each in answer.assignment.topic_partitions}
        if assigned == self._by_id:
            return False
        self._set_assignment(assigned)
        self._is_changed = True
        return True

    def _set_assignment(self, partitions: dict[bytes, list[int]]) -> None:
        self._by_id = partitions
        names = self._topic_names() if partitions else {}
        self.assigned = {names.get(topic_id, ""): numbers for topic_id, numbers in partitions.items()}

    async def _send_heartbeat(self, *, is_full: bool) -> ConsumerGroupHeartbeatResponse:
        owned = [
            ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=numbers)
            for topic_id, numbers in self._by_id.items()
        ]
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._settings.group_id,
            member_id=self.member_id,
            member_epoch=self.generation_id,
            instance_id=self._settings.group_instance_id,
            rebalance_timeout_ms=self._settings.rebalance_timeout_ms if is_full else -1,
            subscribed_topic_names=list(self._settings.topics) if is_full else None,
            topic_partitions=owned,
        )
        answer: ConsumerGroupHeartbeatResponse = await self._send(request, _CONSUMER_HEARTBEAT_VERSION)
        return answer

    async def _wait_interval(self, interval_s: float) -> None:
        try:
            async with asyncio.timeout(interval_s):
                await self._wake.wait()
        except TimeoutError:
            pass  # the next heartbeat is due
