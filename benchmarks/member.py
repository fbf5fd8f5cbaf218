"""A classic group member for benchmarks: it joins, acts as leader if elected, and keeps its assignment."""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from benchmarks.connection import Connection
from protocol.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from protocol.error_codes import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

TOPIC: Final = "orders"
SESSION_TIMEOUT_MS: Final = 1_800_000
REBALANCE_TIMEOUT_MS: Final = 60_000
JOIN_VERSION: Final = 5
SYNC_VERSION: Final = 3
HEARTBEAT_VERSION: Final = 3
SUBSCRIPTION: Final = encode_subscription(ConsumerProtocolSubscription(topics=[TOPIC], user_data=b""), 0)
ASSIGNMENT: Final = bytes(32)
_REJOIN: Final = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)


@dataclass(slots=True)
class Member:
    """A member on its own or a shared connection (then one rebalance at a time)."""

    connection: Connection
    group_id: str
    member_id: str = ""
    generation_id: int = -1
    rejoins: int = 0
    heartbeat_seconds: float = field(default=0.1, kw_only=True)

    async def join(self) -> None:
        """Join and sync until the member has an assignment of the current generation."""
        while True:
            joined = await self._join_once()
            synced = await self.connection.request(
                SyncGroupRequest(
                    group_id=self.group_id,
                    generation_id=joined.generation_id,
                    member_id=self.member_id,
                    assignments=self._assignments(joined),
                ),
                SYNC_VERSION,
                SyncGroupResponse,
            )
            if synced.error_code == ErrorCode.NONE:
                assert synced.assignment == ASSIGNMENT
                self.generation_id = joined.generation_id
                return
            assert synced.error_code in _REJOIN, ErrorCode(synced.error_code)
            self.rejoins += 1

    async def _join_once(self) -> JoinGroupResponse:
        while True:
            answer = await self.connection.request(self.join_request(), JOIN_VERSION, JoinGroupResponse)
            if answer.error_code == ErrorCode.NONE:
                self.member_id = answer.member_id
                return answer
            assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED, ErrorCode(answer.error_code)
            self.member_id = answer.member_id

    def _assignments(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        if joined.leader != self.member_id:
            return []
        return [
            SyncGroupRequestAssignment(member_id=member.member_id, assignment=ASSIGNMENT)
            for member in joined.members
        ]

    def join_request(self) -> JoinGroupRequest:
        """Return a JoinGroup with the present member id, if any."""
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
        )

    def heartbeat_request(self) -> HeartbeatRequest:
        """Return a heartbeat of the present generation."""
        return HeartbeatRequest(
            group_id=self.group_id, generation_id=self.generation_id, member_id=self.member_id
        )

    async def heartbeat(self) -> None:
        """Wait one interval, then send a heartbeat. Rejoin and sync if the coordinator requires it."""
        await asyncio.sleep(self.heartbeat_seconds)
        answer = await self.connection.request(self.heartbeat_request(), HEARTBEAT_VERSION, HeartbeatResponse)
        if answer.error_code != ErrorCode.NONE:
            assert answer.error_code in _REJOIN, ErrorCode(answer.error_code)
            self.rejoins += 1
            await self.join()
