"""Questions of and about members: joins, syncs, heartbeats, leaves, commits in a group."""

from collections.abc import Callable
from typing import Any, Final

from protocol.error_codes import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.hostile.wire.question import GROUPS, Member, Question, Stage, some_version

_FIRST_WITH_REBALANCE_TIMEOUT: Final = 1
_PROTOCOLS: Final = ("range", "roundrobin")


def join(stage: Stage) -> Question:
    """As a new member, or again."""
    chance = stage.chance
    again = stage.some_member() if chance.random() < 0.7 else None
    group_id = again.group_id if again else chance.choice(GROUPS)
    member_id = again.member_id if again else ""
    version = some_version(chance, JoinGroupRequest, _FIRST_WITH_REBALANCE_TIMEOUT)
    metadata = chance.randbytes(chance.choice((0, 3, 30, 3000)))
    request = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=chance.choice((300, 1000, 6000)),
        rebalance_timeout_ms=chance.choice((200, 500)),
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in _PROTOCOLS],
        reason=chance.choice((None, "", "why not")),
    )
    asked = stage.reading.asks(group_id)

    def hear(answer: JoinGroupResponse) -> None:
        if not member_id and answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            stage.reading.new_id(answer.member_id)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            stage.members.append(Member(group_id, answer.member_id))
        if answer.error_code != ErrorCode.NONE:
            return
        assert not member_id or answer.member_id == member_id
        assert answer.protocol_name in _PROTOCOLS
        members = [member.member_id for member in answer.members]
        stage.reading.joined(asked, group_id, answer.member_id, answer.generation_id, answer.leader, members)
        stage.members.append(Member(group_id, answer.member_id, answer.generation_id, members))

    return Question(request, version, hear)


def sync(stage: Stage) -> Question:
    """A SyncGroup of a known member. The sender of an assignment is mostly, but not always, the leader."""
    chance, member = stage.chance, stage.some_member()
    planned = member.members or ([member.member_id] if chance.random() < 0.2 else [])
    plan = {one: chance.randbytes(chance.choice((1, 8, 500))) for one in planned if chance.random() < 0.95}
    version = some_version(chance, SyncGroupRequest)
    request = SyncGroupRequest(
        group_id=member.group_id,
        generation_id=_generation(stage, member),
        member_id=member.member_id,
        protocol_type="consumer",
        protocol_name=_PROTOCOLS[0],
        assignments=[
            SyncGroupRequestAssignment(member_id=one, assignment=part) for one, part in plan.items()
        ],
    )
    asked = stage.reading.asks(member.group_id)
    stage.reading.sends_plan(member.group_id, request.generation_id, member.member_id, plan)

    def hear(answer: SyncGroupResponse) -> None:
        if answer.error_code == ErrorCode.NONE:
            stage.reading.synced(
                asked, member.group_id, member.member_id, request.generation_id, answer.assignment
            )

    return Question(request, version, hear)


def heartbeat(stage: Stage) -> Question:
    """A heartbeat of a known member."""
    member = stage.some_member()
    request = HeartbeatRequest(
        group_id=member.group_id, generation_id=_generation(stage, member), member_id=member.member_id
    )
    asked = stage.reading.asks(member.group_id)

    def hear(answer: Any) -> None:
        if answer.error_code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            stage.reading.beat(asked, member.group_id, member.member_id, request.generation_id)

    return Question(request, some_version(stage.chance, HeartbeatRequest), hear)


def leave(stage: Stage) -> Question:
    """Of one member, or of several from version 3 on."""
    version = some_version(stage.chance, LeaveGroupRequest)
    first = stage.some_member()
    if version < 3:
        request = LeaveGroupRequest(group_id=first.group_id, member_id=first.member_id)
    else:
        others = [one for one in (stage.some_member(), stage.some_member()) if one.group_id == first.group_id]
        ids = dict.fromkeys(one.member_id for one in (first, *others))
        request = LeaveGroupRequest(
            group_id=first.group_id, members=[MemberIdentity(member_id=one) for one in ids]
        )

    def hear(answer: LeaveGroupResponse) -> None:
        if answer.error_code != ErrorCode.NONE:
            return
        gone = (
            [first.member_id]
            if version < 3
            else [member.member_id for member in answer.members if member.error_code == ErrorCode.NONE]
        )
        for member_id in gone:
            stage.reading.left(first.group_id, member_id)

    return Question(request, version, hear)


def _generation(stage: Stage, member: Member) -> int:
    """Return the generation of the member, and sometimes another one."""
    if stage.chance.random() < 0.95:
        return member.generation_id
    return member.generation_id + stage.chance.choice((-1, 1, 7))


QUESTIONS: Final[tuple[Callable[[Stage], Question], ...]] = (
    join,
    join,
    join,
    sync,
    sync,
    sync,
    heartbeat,
    heartbeat,
    leave,
)
