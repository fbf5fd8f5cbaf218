"""ApiVersions, FindCoordinator, DescribeCluster, and the address in responses to clients."""

from collections.abc import AsyncIterator

import pytest

from coordinator.apis.find_coordinator import CoordinatorType
from coordinator.broker.server import Server
from coordinator.config.listeners import Address
from coordinator.core.shared_types import CONSUMER_OFFSETS
from protocol.apis import APIS, ApiKey
from protocol.codec import decode
from protocol.error_codes import ErrorCode
from protocol.framing import encode_request
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.describe_cluster import DescribeClusterRequest
from protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.harness import Client, serving
from tests.free_ports import has_ipv6


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as server:
        yield server


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    async with Client(server) as client:
        yield client


def versions(key: int) -> range:
    return range(APIS[key].versions.first, APIS[key].versions.last + 1)


@pytest.mark.parametrize("version", versions(ApiKey.API_VERSIONS))
async def test_what_is_advertised_is_what_is_served(client: Client, version: int) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
    answer = await client.call(request, version)
    assert answer.error_code == ErrorCode.NONE
    advertised = {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}
    assert advertised == {key: (api.versions.first, api.versions.last) for key, api in APIS.items()}


@pytest.mark.parametrize(
    ("name", "software_version"), [("", "1"), ("a", ""), ("-a", "1"), ("a b", "1"), ("é", "1")]
)
async def test_a_client_that_cannot_name_itself_is_told_so(
    client: Client, name: str, software_version: str
) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=software_version)
    assert (await client.call(request, 3)).error_code == ErrorCode.INVALID_REQUEST
    assert (await client.call(request, 2)).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", [APIS[ApiKey.API_VERSIONS].versions.last + 1, 32767, 65535])
async def test_a_version_that_is_not_served_gets_the_answer_of_v0(client: Client, version: int) -> None:
    frame = encode_request(ApiKey.API_VERSIONS, 0, 77, "c", ApiVersionsRequest())
    frame[6:8] = version.to_bytes(2, "big")
    client.writer.write(bytes(frame) + bytes(frame))
    for _ in range(2):  # the connection stays open
        answer_frame = await client.receive_frame()
        assert int.from_bytes(answer_frame[:4], "big") == 77
        answer = decode(ApiVersionsResponse, 0, answer_frame, 4)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        first, last = APIS[ApiKey.API_VERSIONS].versions.first, APIS[ApiKey.API_VERSIONS].versions.last
        told = [(entry.api_key, entry.min_version, entry.max_version) for entry in answer.api_keys]
        assert told == [(ApiKey.API_VERSIONS, first, last)]


async def test_a_client_of_another_cluster_is_told_to_look_again(server: Server, client: Client) -> None:
    def request(cluster_id: str | None, node_id: int) -> ApiVersionsRequest:
        return ApiVersionsRequest(
            client_software_name="a", client_software_version="1", cluster_id=cluster_id, node_id=node_id
        )

    own = server.directory.meta.cluster_id
    assert (await client.call(request(None, -1), 5)).error_code == ErrorCode.NONE
    assert (await client.call(request(own, 1), 5)).error_code == ErrorCode.NONE
    assert (await client.call(request("another", 1), 5)).error_code == ErrorCode.REBOOTSTRAP_REQUIRED
    assert (await client.call(request(own, 2), 5)).error_code == ErrorCode.REBOOTSTRAP_REQUIRED
    assert (await client.call(request(own, -1), 5)).error_code == ErrorCode.INVALID_REQUEST
    assert (await client.call(request(None, 1), 5)).error_code == ErrorCode.INVALID_REQUEST


async def check_that_it_coordinates(server: Server, client: Client, version: int, key_type: int) -> None:
    port = server.endpoints[0].port
    request = FindCoordinatorRequest(key="g", key_type=key_type, coordinator_keys=["g", "h"])
    answer = await client.call(request, version)
    if version < 4:
        assert (answer.error_code, answer.node_id, answer.host, answer.port) == (0, 1, "127.0.0.1", port)
    else:
        found = [(c.key, c.error_code, c.node_id, c.host, c.port) for c in answer.coordinators]
        assert found == [(key, 0, 1, "127.0.0.1", port) for key in ("g", "h")]


@pytest.mark.parametrize("version", versions(ApiKey.FIND_COORDINATOR))
async def test_this_broker_coordinates_every_group(server: Server, client: Client, version: int) -> None:
    await check_that_it_coordinates(server, client, version, CoordinatorType.GROUP)


@pytest.mark.parametrize(
    "request_of_group",
    [
        FindCoordinatorRequest(key="g"),
        OffsetCommitRequest(
            group_id="g",
            topics=[
                OffsetCommitRequestTopic(
                    name=CONSUMER_OFFSETS,
                    partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
                )
            ],
        ),
    ],
    ids=lambda request: type(request).__name__,
)
async def test_the_offsets_topic_is_listed_when_a_client_needs_it(
    client: Client, request_of_group: FindCoordinatorRequest | OffsetCommitRequest
) -> None:
    async def is_listed() -> bool:
        metadata = (await client.call(MetadataRequest(topics=None), 12)).topics
        described = (await client.call(DescribeTopicPartitionsRequest(topics=[]), 0)).topics
        assert [topic.name for topic in metadata] == [topic.name for topic in described]
        return CONSUMER_OFFSETS in [topic.name for topic in metadata]

    assert not await is_listed()
    named = MetadataRequest(topics=[MetadataRequestTopic(name=CONSUMER_OFFSETS)])
    assert (await client.call(named, 12)).topics[0].error_code == ErrorCode.NONE
    await client.call(ListGroupsRequest(), 4)
    assert not await is_listed()
    await client.call(request_of_group, 2)
    assert await is_listed()


@pytest.mark.parametrize("version", versions(ApiKey.FIND_COORDINATOR)[1:])
async def test_this_broker_coordinates_every_transaction(
    server: Server, client: Client, version: int
) -> None:
    await check_that_it_coordinates(server, client, version, CoordinatorType.TRANSACTION)


@pytest.mark.parametrize(
    ("version", "key_type", "error"),
    [
        (5, 2, ErrorCode.INVALID_REQUEST),
        (6, 2, ErrorCode.INVALID_REQUEST),
        (2, 9, ErrorCode.INVALID_REQUEST),
        (6, -1, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_coordinators_that_do_not_exist_are_refused_for_good(
    client: Client, version: int, key_type: int, error: ErrorCode
) -> None:
    answer = await client.call(
        FindCoordinatorRequest(key="k", key_type=key_type, coordinator_keys=["k"]), version
    )
    found = answer if version < 4 else answer.coordinators[0]
    assert (found.error_code, found.node_id, found.host, found.port) == (error, -1, "", -1)
    assert found.error_message
    assert not ErrorCode(found.error_code).retriable


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_CLUSTER))
async def test_the_cluster_is_one_broker(server: Server, client: Client, version: int) -> None:
    answer = await client.call(DescribeClusterRequest(include_cluster_authorized_operations=False), version)
    assert answer.error_code == ErrorCode.NONE
    assert answer.cluster_id == server.directory.meta.cluster_id
    assert answer.controller_id == 1
    assert [(b.broker_id, b.host, b.port) for b in answer.brokers] == [
        (1, "127.0.0.1", server.endpoints[0].port)
    ]
    assert answer.cluster_authorized_operations == -(2**31)
    asked = await client.call(DescribeClusterRequest(include_cluster_authorized_operations=True), version)
    assert asked.cluster_authorized_operations > 0


@pytest.mark.parametrize(
    ("endpoint_type", "error"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
)
async def test_other_endpoints_are_not_here(client: Client, endpoint_type: int, error: ErrorCode) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=endpoint_type)
    answer = await client.call(request, 1)
    assert answer.error_code == error
    assert answer.brokers == []


async def brokers(client: Client) -> list[tuple[str, int]]:
    answer = await client.call(MetadataRequest(topics=[]), 1)
    return [(broker.host, broker.port) for broker in answer.brokers]


async def test_a_wildcard_listener_answers_with_the_address_that_the_client_used() -> None:
    """It accepts IPv4 and IPv6 however it is written, as Java's sockets do."""
    for host in ("0.0.0.0", "", "[::]", "[0:0:0:0:0:0:0:0]"):
        properties = {"listeners": f"PLAINTEXT://{host}:0"}
        async with serving(None, properties) as server:
            port = server.endpoints[0].port
            async with Client(server) as client:
                assert await brokers(client) == [("127.0.0.1", port)]
            if has_ipv6():
                async with Client(server, host="::1") as client:
                    assert await brokers(client) == [("::1", port)]


async def test_each_listener_answers_with_what_it_advertises() -> None:
    properties = {
        "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        "advertised.listeners": "INSIDE://groupd:9092,OUTSIDE://example.org:0",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    }
    async with serving(None, properties) as server:
        inside, outside = server.endpoints
        assert inside.bound_address == Address("127.0.0.1", inside.port)
        async with Client(server) as client:
            assert await brokers(client) == [("groupd", 9092)]
        async with Client(server, port=outside.port) as client:
            assert await brokers(client) == [("example.org", outside.port)]
            found = await client.call(FindCoordinatorRequest(key="g"), 0)
            assert (found.host, found.port) == ("example.org", outside.port)
