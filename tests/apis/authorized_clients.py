"""A server with authorization that takes the client id as the principal.

async with authorizing(monkeypatch) as server, Client(server, "alice") as alice:
    await allow(server, "alice", Operation.READ, ResourceType.TOPIC, "orders")
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from coordinator.broker.server import Server
from coordinator.security.core.acl import (
    CLUSTER_NAME,
    WILDCARD,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from tests.broker.harness import Client, serving
from tests.network.requests import trust_client_ids

ADMIN = "admin"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{ADMIN}",
}
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
TRANSACTIONAL_ID, CLUSTER = ResourceType.TRANSACTIONAL_ID, ResourceType.CLUSTER


@asynccontextmanager
async def authorizing(
    monkeypatch: pytest.MonkeyPatch,
    properties: Mapping[str, str] | None = None,
    *,
    topics: Sequence[tuple[str, int]] = (("orders", 3), ("secret", 2)),
) -> AsyncIterator[Server]:
    """Start a server that trusts client ids as principals; only the admin has permissions."""
    trust_client_ids(monkeypatch)
    async with serving(None, AUTHORIZER | dict(properties or {}), topics=topics) as server:
        yield server


def acl(
    user: str,
    operation: AclOperation,
    resource_type: ResourceType,
    name: str = CLUSTER_NAME,
    permission: AclPermissionType = AclPermissionType.ALLOW,
    pattern_type: PatternType = PatternType.LITERAL,
) -> AclBinding:
    """An ACL of a user, from anywhere."""
    return AclBinding(resource_type, name, pattern_type, f"User:{user}", WILDCARD, operation, permission)


async def change(
    server: Server, *, added: Sequence[AclBinding] = (), removed: Sequence[AclBinding] = ()
) -> None:
    """Adds and removes ACLs."""
    store = server.security.store
    acls = store.state.acls - frozenset(removed) | frozenset(added)
    await store.change_state(replace(store.state, acls=acls))


async def allow(
    server: Server,
    user: str,
    operation: AclOperation,
    resource_type: ResourceType,
    *names: str,
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> None:
    """Lets a user do something to resources of a type; the cluster where none is named."""
    added = [acl(user, operation, resource_type, name, permission) for name in names or (CLUSTER_NAME,)]
    await change(server, added=added)


@asynccontextmanager
async def admin_and_alice(
    monkeypatch: pytest.MonkeyPatch,
    properties: Mapping[str, str] | None = None,
) -> AsyncIterator[tuple[Server, Client, Client]]:
    """The same, with a client with all permissions and one with none."""
    async with (
        authorizing(monkeypatch, properties) as server,
        Client(server, ADMIN) as admin,
        Client(server, "alice") as alice,
    ):
        yield server, admin, alice
