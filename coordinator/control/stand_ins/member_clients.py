"""A stand-in that is a member of a classic group, as Kafka's `ConsumerCoordinator` is: joins, hands out where it
leads, keeps up its session, and joins again when the group rebalances."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from coordinator.control.stand_ins.assigning import Partitions, hand_out, topic_partitions
from coordinator.control.stand_ins.stand_in import BREATH_S, LOOKS_AGAIN_S, Asks, Refusal, StandInSettings
from protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from protocol.errors import ErrorCode
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
_HEARTBEATS_A_SESSION: Final = 3
_LATER: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
_AGAIN: Final = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)


class ClassicPlayer:
    """See `Player`."""

    def __init__(
        self,
        settings: StandInSettings,
        ask: Asks,
        wake: asyncio.Event,
        counts: Callable[[], Mapping[str, int]],
        client_ids: Callable[[], Mapping[str, str]],
    ) -> None:
        """In: partitions by topic; the client ids of the members of its group, by member id."""
        self._settings = settings
        self._ask = ask
        self._wake = wake
        self._counts = counts
        self._client_ids = client_ids
        self.member_id = ""
        self.generation_id = -1
        self.assigned: dict[str, list[int]] = {}
        self.is_member = False

    def forget(self) -> None:
        self.member_id, self.generation_id, self.assigned = "", -1, {}
        self.is_member = False

    async def play(self) -> None:
        if self.is_member:  # it was stalled, and goes on where it was
            await self._keep_up()
        while True:
            self.is_member = False
            joined = await self._join()
            if joined is None:
                await asyncio.sleep(BREATH_S)
                continue
            if await self._sync(joined):
                await self._keep_up()
            await asyncio.sleep(BREATH_S)

    async def leave(self) -> None:
        if self.member_id:
            identity = MemberIdentity(
                member_id=self.member_id, group_instance_id=self._settings.group_instance_id
            )
            request = LeaveGroupRequest(group_id=self._settings.group_id, members=[identity])
            await self._ask(request, _LEAVE_VERSION)
        self.forget()

    async def _join(self) -> JoinGroupResponse | None:
        """None where it has to be done again."""
        subscription = ConsumerProtocolSubscription(
            topics=list(self._settings.topics),
            owned_partitions=topic_partitions(self.assigned),
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
        answer: JoinGroupResponse = await self._ask(request, _JOIN_VERSION, is_new=not self.member_id)
        error = ErrorCode(answer.error_code)
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return None
        if not await self._is_well(error):
            return None
        self.member_id, self.generation_id = answer.member_id, answer.generation_id
        return answer

    async def _sync(self, joined: JoinGroupResponse) -> bool:
        """Whether it has what it is to have, until something happens."""
        handed_out, is_whole = self._lead(joined)
        request = SyncGroupRequest(
            group_id=self._settings.group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=self._settings.group_instance_id,
            protocol_type=joined.protocol_type,
            protocol_name=joined.protocol_name,
            assignments=handed_out,
        )
        answer: SyncGroupResponse = await self._ask(request, _SYNC_VERSION)
        if not await self._is_well(ErrorCode(answer.error_code)):
            return False
        had = {(topic, number) for topic, numbers in self.assigned.items() for number in numbers}
        assignment = decode_assignment(answer.assignment) if answer.assignment else None
        found = [] if assignment is None else assignment.assigned_partitions
        self.assigned = {each.topic: list(each.partitions) for each in found}
        self.is_member = True
        has = {(topic, number) for topic, numbers in self.assigned.items() for number in numbers}
        # A cooperative member that gives something up says so by joining again.
        return is_whole and not (joined.protocol_name == COOPERATIVE and had - has)

    def _lead(self, joined: JoinGroupResponse) -> tuple[list[SyncGroupRequestAssignment], bool]:
        if joined.leader != joined.member_id or joined.skip_assignment:
            return [], True
        handed_out = hand_out(
            joined.members, self._told(), self._counts(), is_cooperative=joined.protocol_name == COOPERATIVE
        )
        assignments = [
            SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=encode_assignment(
                    ConsumerProtocolAssignment(assigned_partitions=topic_partitions(partitions)),
                    _ASSIGNMENT_VERSION,
                ),
            )
            for member_id, partitions in handed_out.by_member.items()
        ]
        return assignments, handed_out.is_whole

    def _told(self) -> Mapping[str, Partitions]:
        told = self._settings.assignment
        if told is None:
            return {}
        return {member_id: told.get(client_id, {}) for member_id, client_id in self._client_ids().items()}

    async def _keep_up(self) -> None:
        """Heartbeats, until the group rebalances or does not know it any more."""
        every_s = self._settings.session_timeout_ms / _HEARTBEATS_A_SESSION / 1000
        request = HeartbeatRequest(
            group_id=self._settings.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self._settings.group_instance_id,
        )
        error = ErrorCode.NONE
        while error is ErrorCode.NONE or error in _LATER:
            try:
                async with asyncio.timeout(every_s if error is ErrorCode.NONE else LOOKS_AGAIN_S):
                    await self._wake.wait()
            except TimeoutError:
                pass  # nothing has happened
            self._wake.clear()
            answer: HeartbeatResponse = await self._ask(request, _HEARTBEAT_VERSION)
            error = ErrorCode(answer.error_code)
        await self._is_well(error)

    async def _is_well(self, error: ErrorCode) -> bool:
        """Whether it goes on as it is; otherwise it joins again, when it has rested where it should. Raises
        Refusal."""
        if error is ErrorCode.NONE:
            return True
        if error in _LATER:
            await asyncio.sleep(LOOKS_AGAIN_S)
        elif error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.forget()
        elif error not in _AGAIN:
            raise Refusal(error)
        return False
