"""Misbehaving or very many members of consumer groups: other clients work as before."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from protocol.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponseGroup
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from protocol.primitives import MAX_STRING_BYTES
from tests.hostile.heartbeats import describing, joining
from tests.hostile.siege.attacker import Hostile, frame, read
from tests.hostile.siege.siege import Siege, besieged

AT_ONCE: Final = ("-o", "group.consumer.assignment.interval.ms=0", "-o", "group.initial.rebalance.delay.ms=0")
"""Targets are computed at once, without waiting for further members."""
NOW_AND_THEN: Final = ("-o", "group.consumer.assignment.interval.ms=5000")
"""Targets, which a thread computes from 1,000 members with 20 partitions on."""
PATIENT: Final = (
    *("-o", "group.consumer.max.session.timeout.ms=600000"),
    *("-o", "group.consumer.session.timeout.ms=600000"),
)
"""On a busy machine members join for longer than a session usually lasts."""
REBALANCE_TIMEOUT_MS: Final = 1_000
ROUNDS: Final = 100
MEMBERS: Final = 1_500
"""Of one group: with 20 partitions enough for targets that a thread computes."""
TOO_MANY: Final = 100
IN_FLIGHT: Final = 1_000
LONG: Final = MAX_STRING_BYTES
METADATA_BYTES: Final = 9_000_000
REFUSED: Final = 20
LATEST_MS: Final = 250


def beat(member_id: str, epoch: int, group_id: str = "g") -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=epoch)


def leave(member_id: str) -> ConsumerGroupHeartbeatRequest:
    return beat(member_id, -1)


def classic_join(member_id: str) -> JoinGroupRequest:
    metadata = encode_subscription(ConsumerProtocolSubscription(topics=["orders"]), 1)
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )


def owned(answer: ConsumerGroupHeartbeatResponse) -> list[int]:
    """Return the assigned partitions of the single topic."""
    assert answer.assignment is not None
    return [number for topic in answer.assignment.topic_partitions for number in topic.partitions]


async def described(client: Hostile) -> ConsumerGroupDescribeResponseGroup:
    answer = await client.call(describing(["g"]), 1)
    group: ConsumerGroupDescribeResponseGroup = answer.groups[0]
    return group


def chunks(requests: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for begin in range(0, len(requests), IN_FLIGHT):
        yield requests[begin : begin + IN_FLIGHT]


async def test_a_member_that_never_revokes_is_fenced(
    tmp_path: Path,
) -> None:
    async with besieged(tmp_path, (*AT_ONCE, "--topic", "orders:4")) as siege:
        await siege.begin()
        clinging = await siege.attacker.connect()
        other = await siege.attacker.connect()
        request = joining("g", ["orders"], member_id="clinging")
        request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
        joined = await clinging.call(request, 1)
        assert owned(joined) == [0, 1, 2, 3]
        answer = await other.call(joining("g", ["orders"], member_id="other"), 1)
        while answer.assignment is None or len(owned(answer)) < 4:
            told = await clinging.call(beat("clinging", joined.member_epoch), 1)
            assert told.error_code in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)
            answer = await other.call(beat("other", answer.member_epoch), 1)
            assert answer.error_code == ErrorCode.NONE
        told = await clinging.call(beat("clinging", joined.member_epoch), 1)
        assert told.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        toll = await siege.toll()
        assert toll.is_bearable(), toll


async def test_a_client_that_alternates_protocols_is_harmless(tmp_path: Path) -> None:
    async with besieged(tmp_path, (*AT_ONCE, "--topic", "orders:4")) as siege:
        await siege.begin()
        client = await siege.attacker.connect()
        stays = await siege.attacker.connect()
        for number in range(ROUNDS):
            if number == ROUNDS // 2:  # from now on in a group that has a member
                epoch = (await stays.call(joining("g", ["orders"], member_id="stays"), 1)).member_epoch
            joined = await client.call(classic_join("flaps" if number >= ROUNDS // 2 else ""), 3)
            assert joined.error_code == ErrorCode.NONE, number
            joined = await client.call(joining("g", ["orders"], member_id=joined.member_id), 1)
            assert joined.error_code == ErrorCode.NONE, number
            assert (await client.call(leave(joined.member_id), 1)).error_code == ErrorCode.NONE
            if number < ROUNDS // 2:
                members = [MemberIdentity(member_id=joined.member_id)]
                await client.call(LeaveGroupRequest(group_id="g", members=members), 3)
        answer = await stays.call(beat("stays", epoch), 1)
        while answer.member_epoch != (await described(client)).group_epoch:
            answer = await stays.call(beat("stays", answer.member_epoch), 1)
            assert answer.error_code == ErrorCode.NONE
        (member,) = (await described(client)).members
        assert [topic.partitions for topic in member.assignment.topic_partitions] == [[0, 1, 2, 3]]
        toll = await siege.toll()
        assert toll.is_bearable(), toll


async def test_heartbeats_to_a_classic_group_that_the_log_cannot_store(tmp_path: Path) -> None:
    """Each of them would convert the group: parse nine megabytes of subscriptions, and be refused."""
    request = classic_join("")
    names = [""] * (METADATA_BYTES // 2)
    request.protocols[0].metadata = encode_subscription(ConsumerProtocolSubscription(topics=names), 1)
    heartbeats = frame(joining("g", ["orders"], member_id="m"), 1) * REFUSED
    async with besieged(tmp_path, (*AT_ONCE, "--topic", "orders:4")) as siege:
        join = frame(request, 3)
        await siege.begin()
        client = await siege.attacker.connect()
        await client.send(join)
        assert read(JoinGroupResponse, 3, await client.answer()).error_code == ErrorCode.NONE
        await client.send(heartbeats)
        for _ in range(REFUSED):
            refused = read(ConsumerGroupHeartbeatResponse, 1, await client.answer())
            assert (refused.error_code, refused.error_message) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
        toll = await siege.toll()
        assert toll.is_bearable(LATEST_MS), toll


async def test_as_many_members_as_there_may_be_and_no_more(tmp_path: Path) -> None:
    options = ("-o", f"group.consumer.max.size={MEMBERS}", *NOW_AND_THEN, *PATIENT, "--topic", "orders:20")
    joins = [
        frame(joining("g", ["orders"], member_id=f"member-{number}"), 1)
        for number in range(MEMBERS + TOO_MANY)
    ]
    async with besieged(tmp_path, options) as siege:
        await siege.begin()
        errors = await joined_by(siege, joins)
        assert errors == [ErrorCode.NONE] * MEMBERS + [ErrorCode.GROUP_MAX_SIZE_REACHED] * TOO_MANY
        client = await siege.attacker.connect()
        assert (await client.call(leave("member-0"), 1)).error_code == ErrorCode.NONE
        assert await joined_by(siege, joins[-1:]) == [ErrorCode.NONE]
        toll = await siege.toll()
        assert toll.is_bearable(), toll


async def joined_by(siege: Siege, joins: Sequence[bytes]) -> list[int]:
    """Send prepared requests, some at a time, and return the response codes."""
    client = await siege.attacker.connect()
    errors = []
    for some in chunks(joins):
        await client.send(b"".join(some))
        for _ in some:
            answer = read(ConsumerGroupHeartbeatResponse, 1, await client.answer())
            errors.append(answer.error_code)
    return errors


async def test_names_as_long_as_any_may_be(tmp_path: Path) -> None:
    async with besieged(tmp_path, (*AT_ONCE, "--topic", "orders:4")) as siege:
        await siege.begin()
        client = await siege.attacker.connect()
        for number in range(5):
            request = joining("g", ["orders"], member_id=f"{number}".rjust(LONG, "m"))
            request.rack_id, request.instance_id = "r" * LONG, f"{number}".rjust(LONG, "i")
            answer = await client.call(request, 1)
            assert (answer.error_code, len(answer.member_id)) == (ErrorCode.NONE, LONG)
        members = (await described(client)).members
        assert {(len(member.member_id), len(member.rack_id or "")) for member in members} == {(LONG, LONG)}
        regex = await client.call(joining("h", None, "(" * LONG, "x" * LONG), 1)
        assert regex.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
        toll = await siege.toll()
        assert toll.is_bearable(), toll
