"""Faults on the requests of consumer groups: a member that is refused, one group of several."""

from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.broker.harness import Client
from tests.control.faults.lab import Lab


def joining(group_id: str, instance_id: str | None = None) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=f"{group_id}-member",
        instance_id=instance_id,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )


async def test_a_heartbeat_of_a_group_is_refused(lab: Lab) -> None:
    match = {"api": "ConsumerGroupHeartbeat", "group": "g"}
    name = lab.fault(match, do={"at": "request", "error": "COORDINATOR_NOT_AVAILABLE"})
    async with Client(lab.server) as client:
        assert (await client.call(joining("g"), 1)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (await client.call(joining("other"), 1)).error_code == ErrorCode.NONE
    await lab.hit(name)


async def test_a_static_member_is_known_by_its_instance_id_and_epoch(lab: Lab) -> None:
    match = {"api": "ConsumerGroupHeartbeat", "group_instance_id": "i", "generation": ">=1"}
    lab.fault(match, do={"at": "request", "error": "FENCED_MEMBER_EPOCH"})
    async with Client(lab.server) as client:
        joined = await client.call(joining("g", "i"), 1)
        assert joined.error_code == ErrorCode.NONE
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="g-member", instance_id="i", member_epoch=joined.member_epoch
        )
        assert (await client.call(request, 1)).error_code == ErrorCode.FENCED_MEMBER_EPOCH


async def test_one_of_several_described_groups_is_refused(lab: Lab) -> None:
    lab.fault(
        {"api": "ConsumerGroupDescribe", "group": "b"},
        do={"at": "request", "error": "GROUP_AUTHORIZATION_FAILED"},
    )
    async with Client(lab.server) as client:
        for group_id in "ab":
            await client.call(joining(group_id), 1)
        request = ConsumerGroupDescribeRequest(group_ids=["b", "a"], include_authorized_operations=False)
        answer = await client.call(request, 1)
        assert [(group.group_id, group.error_code) for group in answer.groups] == [
            ("b", ErrorCode.GROUP_AUTHORIZATION_FAILED),
            ("a", ErrorCode.NONE),
        ]
