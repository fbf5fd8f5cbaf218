"""Consumer groups over the wire: the responsible broker, and the response without one."""

from pathlib import Path

import pytest

from coordinator.core.outcome import Context
from protocol.error_codes import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.broker.harness import Client
from tests.broker.harness import serving_kafka_defaults as serving


def joining(
    group_id: str = "billing", member_id: str = "m", topic: str = "orders"
) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[topic],
        topic_partitions=[],
    )


def describing(*group_ids: str) -> ConsumerGroupDescribeRequest:
    return ConsumerGroupDescribeRequest(group_ids=list(group_ids), include_authorized_operations=False)


async def test_a_member_joins_and_is_described() -> None:
    async with serving(topics=[("orders", 3)]) as server, Client(server) as client:
        answer = await client.call(joining(), 1)
        assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, 2)
        assert answer.heartbeat_interval_ms == 5000
        assert sorted(answer.assignment.topic_partitions[0].partitions) == [0, 1, 2]
        described = await client.call(describing("nobody", "billing", "nobody"), 1)
        assert [group.group_id for group in described.groups] == ["nobody", "billing", "nobody"]
        assert [group.error_code for group in described.groups] == [69, 0, 69]
        assert described.groups[1].group_state == "Stable"
        assert described.groups[1].members[0].member_id == "m"


async def test_a_member_of_the_first_version_is_given_an_id() -> None:
    async with serving(topics=[("orders", 1)]) as server, Client(server) as client:
        answer = await client.call(joining(member_id=""), 0)
        assert answer.error_code == ErrorCode.NONE
        assert len(answer.member_id) == 22
        other = await client.call(joining(member_id=""), 0)
        assert other.member_id != answer.member_id


async def test_a_heartbeat_that_is_repeated_is_told_what_is_new() -> None:
    texts = {"group.consumer.assignment.interval.ms": "0"}
    async with (
        serving(None, texts, topics=[("orders", 2)]) as server,
        Client(server) as client,
        Client(server) as other,
    ):
        epoch = (await client.call(joining(), 1)).member_epoch
        steady = ConsumerGroupHeartbeatRequest(group_id="billing", member_id="m", member_epoch=epoch)
        for _ in range(3):
            answer = await client.call(steady, 1)
            assert (answer.error_code, answer.member_epoch, answer.assignment) == (0, epoch, None)
        kept = [each for connection in server.connections.open for each in connection.repeated_requests()]
        assert kept == [steady]
        assert (await other.call(joining(member_id="n"), 1)).error_code == ErrorCode.NONE
        answer = await client.call(steady, 1)
        assert [len(topic.partitions) for topic in answer.assignment.topic_partitions] == [1]


async def test_no_heartbeat_overtakes_the_log() -> None:
    async with serving(topics=[("orders", 1)]) as server, Client(server) as client:
        epoch = (await client.call(joining(), 1)).member_epoch
        steady = ConsumerGroupHeartbeatRequest(group_id="billing", member_id="m", member_epoch=epoch)
        await client.call(steady, 1)
        partition, context = server.runtime.find_partition("billing"), Context(0, 1, "client", "/127.0.0.1")
        (member,) = (await client.call(describing("billing"), 1)).groups[0].members
        context.client_id, context.client_host = member.client_id, member.client_host
        assert server.runtime.try_heartbeat(partition, steady, context, waits_for_log=True) is not None
        partition.pending_records += 1
        assert server.runtime.try_heartbeat(partition, steady, context, waits_for_log=True) is None
        partition.pending_records -= 1


async def test_a_group_outlives_the_daemon(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=[("orders", 1)]) as server, Client(server) as client:
        assert (await client.call(joining(), 1)).member_epoch == 2
    async with serving(tmp_path) as server, Client(server) as client:
        described = await client.call(describing("billing"), 1)
        assert described.groups[0].members[0].member_epoch == 2


async def test_without_the_protocol_nobody_is_asked() -> None:
    texts = {"group.coordinator.rebalance.protocols": "classic"}
    async with serving(None, texts, topics=[("orders", 1)]) as server, Client(server) as client:
        answer = await client.call(joining(), 1)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        described = await client.call(describing("billing", "other"), 1)
        assert [(group.group_id, group.error_code) for group in described.groups] == [
            ("billing", ErrorCode.UNSUPPORTED_VERSION),
            ("other", ErrorCode.UNSUPPORTED_VERSION),
        ]


@pytest.mark.parametrize("protocols", ["classic", "classic,consumer,streams"])
async def test_clients_learn_of_the_feature(protocols: str) -> None:
    texts = {"group.coordinator.rebalance.protocols": protocols}
    async with serving(None, texts) as server, Client(server) as client:
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        answer = await client.call(request, 4)
        supported = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
        finalized = {
            each.name: (each.min_version_level, each.max_version_level) for each in answer.finalized_features
        }
        assert supported["group.version"] == (0, 1)
        assert finalized["group.version"] == (1, 1)
