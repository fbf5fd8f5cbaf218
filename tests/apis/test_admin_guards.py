"""Topics that are created, altered and deleted; configs; log directories."""

from pathlib import Path

import pytest

from coordinator.security.core.acl import AclOperation, AclPermissionType
from protocol.error_codes import ErrorCode
from protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalAlterConfigsResource,
)
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.messages.list_config_resources import ListConfigResourcesRequest
from protocol.schema import ZERO_UUID
from tests.apis.authorized_clients import CLUSTER, GROUP, TOPIC, acl, admin_and_alice, allow, change

NONE, DENIED = ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED
OF_TOPIC, OF_BROKER, OF_GROUP = 2, 4, 32
RESOURCES = [(OF_TOPIC, "secret"), (OF_TOPIC, "orders"), (OF_GROUP, "g"), (OF_BROKER, "")]


def creating(*names: str) -> CreateTopicsRequest:
    topics = [
        CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        for name in names
    ]
    return CreateTopicsRequest(topics=topics)


@pytest.mark.parametrize("version", [2, 4, 5, 7])
async def test_topics_are_created_where_that_is_allowed(
    monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    async with admin_and_alice(monkeypatch) as (server, _, alice):
        await allow(server, "alice", AclOperation.CREATE, TOPIC, "mine")
        answer = await alice.call(creating("theirs", "mine", "twice", "twice"), version)
        mine, twice, denied = answer.topics
        assert (mine.name, mine.error_code) == ("mine", NONE)
        assert (twice.name, twice.error_code) == ("twice", ErrorCode.INVALID_REQUEST)
        assert (denied.name, denied.error_code) == ("theirs", DENIED)
        assert denied.error_message == "Authorization failed."
        if version >= 5:  # it may not see what configs its topic has
            assert (mine.topic_config_error_code, mine.num_partitions, mine.configs) == (DENIED, -1, [])
            await allow(server, "alice", AclOperation.CREATE, CLUSTER)
            await allow(server, "alice", AclOperation.DESCRIBE_CONFIGS, TOPIC, "theirs")
            answer = await alice.call(creating("theirs"), version)
            assert (answer.topics[0].topic_config_error_code, answer.topics[0].num_partitions) == (NONE, 1)
            assert answer.topics[0].configs


async def test_partitions_are_added_where_altering_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with admin_and_alice(monkeypatch) as (server, _, alice):
        await allow(server, "alice", AclOperation.ALTER, TOPIC, "orders")
        topics = [CreatePartitionsTopic(name=name, count=4) for name in ("orders", "secret")]
        request = CreatePartitionsRequest(topics=topics, timeout_ms=1000, validate_only=False)
        answer = await alice.call(request, 3)
        assert [(result.name, result.error_code) for result in answer.results] == [
            ("secret", DENIED),
            ("orders", NONE),
        ]
        secret = server.data_plane.catalogue.find_topic("secret")
        assert secret is not None
        assert len(secret.partitions) == 2


@pytest.mark.parametrize("version", [1, 5])
async def test_topics_are_deleted_by_name_where_that_is_allowed(
    monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    async with admin_and_alice(monkeypatch) as (server, _, alice):
        await allow(server, "alice", AclOperation.DELETE, TOPIC, "orders")
        request = DeleteTopicsRequest(topic_names=["orders", "secret", "nowhere"], timeout_ms=1000)
        answer = await alice.call(request, version)
        assert [(each.name, each.error_code) for each in answer.responses] == [
            ("orders", NONE),
            ("secret", DENIED),
            ("nowhere", DENIED),
        ]
        await allow(server, "alice", AclOperation.DELETE, CLUSTER)
        answer = await alice.call(request, version)
        assert {each.name: each.error_code for each in answer.responses}["secret"] == NONE


async def test_topics_are_deleted_by_id_where_that_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with admin_and_alice(monkeypatch) as (server, _, alice):
        catalogue = server.data_plane.catalogue
        ids = [
            topic.topic_id
            for topic in (catalogue.find_topic("orders"), catalogue.find_topic("secret"))
            if topic
        ]
        await allow(server, "alice", AclOperation.DESCRIBE, TOPIC, "orders")
        states = [DeleteTopicState(topic_id=topic_id) for topic_id in [*ids, b"\7" * 16]]
        request = DeleteTopicsRequest(topics=states, timeout_ms=1000)
        answer = await alice.call(request, 6)
        assert [(each.name, each.topic_id, each.error_code) for each in answer.responses] == [
            ("orders", ids[0], DENIED),
            (None, ids[1], DENIED),
            (None, b"\7" * 16, ErrorCode.UNKNOWN_TOPIC_ID),
        ]
        await allow(server, "alice", AclOperation.DELETE, TOPIC, "orders")
        by_name = DeleteTopicState(name="secret", topic_id=ZERO_UUID)
        states = [DeleteTopicState(topic_id=ids[0]), by_name]
        answer = await alice.call(DeleteTopicsRequest(topics=states, timeout_ms=1000), 6)
        assert [(each.name, each.error_code) for each in answer.responses] == [
            ("orders", NONE),
            ("secret", DENIED),
        ]


async def test_a_right_to_delete_names_does_not_reveal_which_topics_exist(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with admin_and_alice(monkeypatch) as (server, _, alice):
        await allow(server, "alice", AclOperation.DELETE, TOPIC, "*")
        denied = acl("alice", AclOperation.DESCRIBE, TOPIC, "*", AclPermissionType.DENY)
        await change(server, added=[denied])
        request = DeleteTopicsRequest(topic_names=["orders", "nowhere"], timeout_ms=1000)
        answer = await alice.call(request, 5)
        assert [each.error_code for each in answer.responses] == [DENIED, DENIED]
        assert server.data_plane.catalogue.find_topic("orders") is not None


@pytest.mark.parametrize(
    ("properties", "timeout_ms", "error"),
    [
        ({"delete.topic.enable": "false"}, 1000, ErrorCode.TOPIC_DELETION_DISABLED),
        ({}, 0, ErrorCode.REQUEST_TIMED_OUT),
    ],
)
async def test_a_deletion_that_no_client_can_make_is_refused_before_rights_are_checked(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    properties: dict[str, str],
    timeout_ms: int,
    error: ErrorCode,
) -> None:
    async with admin_and_alice(monkeypatch, properties) as (_, _, alice):
        request = DeleteTopicsRequest(topic_names=["orders", "nowhere"], timeout_ms=timeout_ms)
        answer = await alice.call(request, 5)
        assert [each.error_code for each in answer.responses] == [error, error]


@pytest.mark.parametrize("version", [1, 4])
async def test_configs_are_described_where_that_is_allowed(
    monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    async with admin_and_alice(monkeypatch) as (server, _, alice):
        await allow(server, "alice", AclOperation.DESCRIBE_CONFIGS, TOPIC, "orders")
        resources = [
            DescribeConfigsResource(resource_type=kind, resource_name=name) for kind, name in RESOURCES
        ]
        answer = await alice.call(DescribeConfigsRequest(resources=resources), version)
        assert [(each.resource_name, each.error_code, bool(each.configs)) for each in answer.results] == [
            ("orders", NONE, True),
            ("secret", DENIED, False),
            ("g", ErrorCode.GROUP_AUTHORIZATION_FAILED, False),
            ("", ErrorCode.CLUSTER_AUTHORIZATION_FAILED, False),
        ]
        await allow(server, "alice", AclOperation.DESCRIBE_CONFIGS, GROUP, "g")
        await allow(server, "alice", AclOperation.ALTER_CONFIGS, CLUSTER)  # which implies describing
        answer = await alice.call(DescribeConfigsRequest(resources=resources), version)
        assert [each.error_code for each in answer.results] == [NONE, NONE, NONE, DENIED]


@pytest.mark.parametrize("is_incremental", [False, True])
async def test_configs_are_altered_where_that_is_allowed(
    monkeypatch: pytest.MonkeyPatch, is_incremental: bool
) -> None:
    async with admin_and_alice(monkeypatch) as (server, _, alice):
        await allow(server, "alice", AclOperation.ALTER_CONFIGS, TOPIC, "orders")
        await allow(server, "alice", AclOperation.ALTER_CONFIGS, GROUP, "g")
        request: object
        if is_incremental:
            request = IncrementalAlterConfigsRequest(
                resources=[
                    IncrementalAlterConfigsResource(resource_type=kind, resource_name=name, configs=[])
                    for kind, name in RESOURCES
                ],
                validate_only=False,
            )
        else:
            request = AlterConfigsRequest(
                resources=[
                    AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])
                    for kind, name in RESOURCES[:2]
                ],
                validate_only=False,
            )
        answer = await alice.call(request, 1)
        found = [(each.resource_name, each.error_code) for each in answer.responses]
        if is_incremental:
            last = ("", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            assert found == [("secret", DENIED), ("orders", NONE), ("g", NONE), last]
        else:
            assert found == [("secret", DENIED), ("orders", NONE)]


@pytest.mark.parametrize("version", [1, 2, 3, 4])
async def test_log_directories_are_for_who_may_describe_the_cluster(
    monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    async with admin_and_alice(monkeypatch) as (server, _, alice):
        answer = await alice.call(DescribeLogDirsRequest(topics=None), version)
        expected = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if version >= 3 else NONE
        assert (answer.error_code, answer.results) == (expected, [])
        await allow(server, "alice", AclOperation.DESCRIBE, CLUSTER)
        assert len((await alice.call(DescribeLogDirsRequest(topics=None), version)).results) == 1


@pytest.mark.parametrize("version", [0, 1])
async def test_what_has_configs_is_for_who_may_describe_those_of_the_cluster(
    monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    async with admin_and_alice(monkeypatch) as (server, _, alice):
        answer = await alice.call(ListConfigResourcesRequest(), version)
        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert (answer.error_code, answer.config_resources) == (denied, [])
        await allow(server, "alice", AclOperation.DESCRIBE_CONFIGS, CLUSTER)
        assert (await alice.call(ListConfigResourcesRequest(), version)).error_code == NONE


async def test_all_users_are_refused_to_who_may_not_describe_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with admin_and_alice(monkeypatch) as (_, _, alice):
        answer = await alice.call(DescribeUserScramCredentialsRequest(users=None), 0)
        assert (answer.error_code, answer.results) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
