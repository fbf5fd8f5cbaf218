"""Clusters with one listener for brokers, INTERNAL, and another for clients, PLAINTEXT.

Brokers must authenticate to each other as `User:admin` or by their certificate, because only these principals have
ClusterAction. Clients are ANONYMOUS and have client permissions.
"""

from dataclasses import replace
from pathlib import Path

from coordinator.security.core.acl import AclOperation, ResourceType
from coordinator.security.core.sasl_mechanisms import ScramMechanism
from tests.apis.authorized_clients import AUTHORIZER, CLUSTER, GROUP, TOPIC, TRANSACTIONAL_ID, acl
from tests.cluster.daemon.cluster_daemons import Daemons, eventually
from tests.cluster.daemon.spread import PROPERTIES
from tests.security.server.certificates import Identity
from tests.security.server.sasl_server import credential

BROKER = "CN=broker"
HOSTS = ("localhost", "127.0.0.1")
PASSWORD = "admin-secret"
_MODULES = "org.apache.kafka.common.security."


def internal(protocol: str, **more: str) -> dict[str, str]:
    """The properties of brokers that reach each other by a protocol, but for those of TLS and SASL."""
    return {
        **PROPERTIES,
        **AUTHORIZER,
        "super.users": f"User:admin;User:{BROKER}",
        "listeners": "PLAINTEXT://127.0.0.1:0,INTERNAL://127.0.0.1:0",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,INTERNAL:{protocol}",
        "inter.broker.listener.name": "INTERNAL",
        "connection.failed.authentication.delay.ms": "20",
        **more,
    }


def by_password(mechanism: str, password: str = PASSWORD) -> dict[str, str]:
    """The brokers log in as admin; PLAIN knows the password from here, SCRAM from users."""
    users = f' user_admin="{PASSWORD}"' if mechanism == "PLAIN" else ""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    name = f"listener.name.internal.{mechanism.lower()}.sasl.jaas.config"
    return {
        "sasl.enabled.mechanisms": mechanism,
        "sasl.mechanism.inter.broker.protocol": mechanism,
        name: f'{_MODULES}{module} required username="admin" password="{password}"{users};',
    }


def by_certificate(directory: Path, identity: Identity, *trusted: Identity) -> dict[str, str]:
    """Write a broker's certificate and the `trusted` authorities to a directory; return the properties."""
    directory.mkdir(exist_ok=True)
    key_store, trust_store = directory / "broker.pem", directory / "trusted.pem"
    key_store.write_text(identity.pem)
    trust_store.write_text("".join(each.certificate_pem for each in trusted))
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(key_store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trust_store),
        "ssl.client.auth": "required",
    }


def certified(directory: Path) -> dict[str, str]:
    """The same with a certificate that all have from one authority."""
    authority = Identity.authority()
    return by_certificate(directory, authority.sign(BROKER, HOSTS), authority)


async def let_clients_in(cluster: Daemons) -> None:
    """Allow unauthenticated clients everything except inter-broker requests."""
    await allow(
        cluster,
        "ANONYMOUS",
        *((AclOperation.ALL, resource_type, "*") for resource_type in (TOPIC, GROUP, TRANSACTIONAL_ID)),
    )


async def let_brokers_in(cluster: Daemons) -> None:
    """Allow ClusterAction to brokers that are admin, independent of super users."""
    await allow(cluster, "admin", (AclOperation.CLUSTER_ACTION, CLUSTER, "kafka-cluster"))


async def keep_brokers_out(cluster: Daemons) -> None:
    """They may no longer."""
    store = next(iter(cluster.by_id.values())).server.security.store
    acls = frozenset(each for each in store.state.acls if each.principal != "User:admin")
    await store.change_state(replace(store.state, acls=acls))
    await _known(cluster)


async def allow(cluster: Daemons, user: str, *rights: tuple[AclOperation, ResourceType, str]) -> None:
    """Lets a user do something, at every broker."""
    store = next(iter(cluster.by_id.values())).server.security.store
    added = frozenset(acl(user, operation, kind, name) for operation, kind, name in rights)
    await store.change_state(replace(store.state, acls=store.state.acls | added))
    await _known(cluster)


async def set_password(cluster: Daemons, mechanism: ScramMechanism, password: str = PASSWORD) -> None:
    """Makes admin a user of SCRAM, or gives it another password, at every broker."""
    store = next(iter(cluster.by_id.values())).server.security.store
    scram = {**store.state.scram, ("admin", mechanism): credential(mechanism, password)}
    await store.change_state(replace(store.state, scram=scram))
    await _known(cluster)


async def _known(cluster: Daemons) -> None:
    """Wait until all brokers have the first broker's ACLs."""
    first, *others = (daemon.server.security.store for daemon in cluster.by_id.values())
    await eventually(
        lambda: all(
            (each.state.acls, each.state.scram) == (first.state.acls, first.state.scram) for each in others
        )
    )
