"""TLS, SASL and ACLs with several brokers: all require the same logins and have the same users and ACLs."""

import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from coordinator.broker.server import Server
from coordinator.security.core.acl import AclOperation
from protocol.error_codes import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.apis.authorized_clients import AUTHORIZER, GROUP, TOPIC, allow
from tests.broker.harness import Client, heartbeat_request, join_alone, join_request
from tests.cluster.brokers import NODE_IDS, Cluster, three_brokers
from tests.security.server.certificates import Identity, trusting
from tests.security.server.sasl_server import JAAS_PLAIN, log_in

SECURED = "SASL_SSL"
NONE, ELSEWHERE = ErrorCode.NONE, ErrorCode.NOT_COORDINATOR
DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED


class Secured(Cluster):
    """Clients come to the listener with TLS and SASL, and have logged in as alice."""

    tls: ssl.SSLContext

    def port(self, node_id: int) -> int:
        [port] = [
            endpoint.port
            for endpoint in self.server.brokers.listeners[node_id].endpoints
            if endpoint.listener.name == SECURED
        ]
        return port


def properties(directory: Path) -> tuple[dict[str, str], ssl.SSLContext]:
    authority = Identity.authority()
    key_store = directory / "server.pem"
    key_store.write_text(authority.sign("CN=localhost", ("localhost", "127.0.0.1")).pem)
    jaas = JAAS_PLAIN.partition("=")[2]
    texts = {
        **AUTHORIZER,
        "listeners": f"{SECURED}://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(key_store),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": jaas,
        "connection.failed.authentication.delay.ms": "20",
    }
    return texts, trusting(authority)


@asynccontextmanager
async def secured(directory: Path) -> AsyncIterator[Secured]:
    texts, tls = properties(directory)
    async with AsyncExitStack() as stack:
        server: Server = (await stack.enter_async_context(three_brokers(directory / "data", texts))).server
        cluster = Secured(server)
        cluster.tls = tls
        for node_id in NODE_IDS:
            client = await stack.enter_async_context(Client(port=cluster.port(node_id), tls=tls))
            assert (await log_in(client)).error_code == NONE
            cluster.clients[node_id] = client
        yield cluster


async def test_every_broker_asks_who_its_clients_are(tmp_path: Path) -> None:
    async with secured(tmp_path) as cluster:
        for node_id in NODE_IDS:
            async with Client(port=cluster.port(node_id), tls=cluster.tls) as stranger:
                refused = await log_in(stranger, password="wrong")
                assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
                assert await stranger.closed()
            with pytest.raises(ssl.SSLError):
                async with Client(port=cluster.port(node_id), tls=ssl.create_default_context()):
                    pass


async def test_a_right_counts_at_every_broker_from_the_same_moment(tmp_path: Path) -> None:
    async with secured(tmp_path) as cluster:
        owner = cluster.owner(cluster.partition("billing"))
        for client in cluster.clients.values():
            assert (await client.call(join_request("billing"), 3)).error_code == DENIED
        await allow(cluster.server, "alice", AclOperation.READ, GROUP, "billing")
        for node_id, client in cluster.clients.items():
            answer = await client.call(join_request("billing"), 3)
            assert answer.error_code == (NONE if node_id == owner else ELSEWHERE)


async def test_a_member_follows_its_coordinator_by_the_listener_that_it_came_to(tmp_path: Path) -> None:
    async with secured(tmp_path) as cluster:
        await allow(cluster.server, "alice", AclOperation.READ, GROUP, "billing")
        partition = cluster.partition("billing")
        before = cluster.owner(partition)
        member, generation = await join_alone(cluster.clients[before], "billing")
        to = before % 3 + 1
        cluster.server.membership.move_partition(partition, to)
        found = await cluster.clients[before].call(FindCoordinatorRequest(key="billing"), 3)
        assert (found.node_id, found.port) == (to, cluster.port(to))
        beat = heartbeat_request("billing", member, generation)
        assert (await cluster.clients[before].call(beat, 3)).error_code == ELSEWHERE
        assert (await cluster.until(to, beat, 3)).error_code == NONE


async def test_metadata_hides_topics_at_every_broker(tmp_path: Path) -> None:
    async with secured(tmp_path) as cluster:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
        for client in cluster.clients.values():
            answer = await client.call(request, 9)
            assert answer.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        await allow(cluster.server, "alice", AclOperation.DESCRIBE, TOPIC, "orders")
        ports = {node_id: cluster.port(node_id) for node_id in NODE_IDS}
        for client in cluster.clients.values():
            answer = await client.call(request, 9)
            assert answer.topics[0].error_code == NONE
            assert {broker.node_id: broker.port for broker in answer.brokers} == ports


async def test_a_stopped_broker_lets_nobody_in_and_a_started_one_asks_again(tmp_path: Path) -> None:
    async with secured(tmp_path) as cluster:
        port = cluster.port(2)
        cluster.server.membership.stop_broker(2)
        assert await cluster.clients[2].closed()
        with pytest.raises(ConnectionRefusedError):
            async with Client(port=port, tls=cluster.tls):
                pass
        cluster.server.membership.start_broker(2)
        async with Client(port=cluster.port(2), tls=cluster.tls) as client:
            assert (await log_in(client)).error_code == NONE
            assert (await client.call(join_request("billing"), 3)).error_code == DENIED
