"""groupd and Kafka with the same security configuration: listeners of every protocol, and 10,000 ACLs.

The principal is the same on all listeners, so that only the authentication differs. A separate listener serves the
set-up by a super user; Kafka's controller and broker also use it between each other.
"""

import ssl
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import pbkdf2_hmac
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from benchmarks.connection import Connection
from benchmarks.kafka import AS_KAFKA_STARTS, prepare
from benchmarks.login import ANYBODY, PLAIN, SCRAM, Login
from benchmarks.member import TOPIC
from benchmarks.process import Server, groupd
from coordinator.security.core.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from protocol.error_codes import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from tests.free_ports import free_ports
from tests.kafka_log.broker import KafkaBroker

PLAINTEXT: Final = "PLAINTEXT"
SASL_PLAINTEXT: Final = "SASL_PLAINTEXT"
SSL: Final = "SSL"
SASL_SSL: Final = "SASL_SSL"
LISTENERS: Final = (PLAINTEXT, SASL_PLAINTEXT, SSL, SASL_SSL)
"""One for each security protocol."""
_ADMIN: Final = "ADMIN"
_ALL: Final = (*LISTENERS, _ADMIN)
ACLS: Final = 10_000
PARTITIONS: Final = 6
_ACLS_AT_ONCE: Final = 1000
_USER: Final = "bench"
_SECRET: Final = "bench-secret"
_SALT: Final = bytes(range(16))
_ITERATIONS: Final = 4096
_SCRAM_SHA_256: Final = 1
_CREATE_ACLS_VERSION: Final = 3
_HOST: Final = "127.0.0.1"
_EVERY_PREFIXED: Final = 10
_GROUPD: Final = (
    "-o",
    "group.initial.rebalance.delay.ms=0",
    "-o",
    "log.flush=os",
    "--topic",
    f"{TOPIC}:{PARTITIONS}",
)

Listening = Mapping[str, Server]
"""A server with the address of each of its listeners."""


class Certificate:
    """A 2,048-bit RSA key with a self-signed certificate."""

    def __init__(self, directory: Path) -> None:
        """Create the key and write the server's file to `directory`."""
        key = rsa.generate_private_key(65537, 2048)
        name = x509.Name.from_rfc4514_string("CN=localhost")
        now = datetime.now(UTC)
        address = x509.SubjectAlternativeName([x509.IPAddress(ip_address(_HOST))])
        serial = x509.random_serial_number()
        days = timedelta(days=1)
        builder = x509.CertificateBuilder(name, name, key.public_key(), serial, now - days, now + days)
        certificate = builder.add_extension(address, critical=False).sign(key, hashes.SHA256())
        pem = certificate.public_bytes(Encoding.PEM)
        self.path = directory / "server.pem"
        """Key and certificate, for a server."""
        self.path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + pem)
        self.trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        """For clients."""
        self.trusted.load_verify_locations(cadata=pem.decode())


def new_certificate(stack: ExitStack) -> Certificate:
    """Create a certificate. Its file is deleted when `stack` is closed."""
    return Certificate(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="groupd-bench-"))))


def security(ports: Mapping[str, int], certificate: Certificate) -> dict[str, str]:
    """Return the properties of listeners at these ports and of the authorizer."""
    protocols = {_name(each): SASL_PLAINTEXT if each == _ADMIN else each for each in ports}
    module = "org.apache.kafka.common.security"
    admin = f'username="admin" password="{_SECRET}" user_admin="{_SECRET}"'
    properties = {
        "listeners": ",".join(f"{_name(each)}://{_HOST}:{port}" for each, port in ports.items()),
        "listener.security.protocol.map": ",".join(f"{name}:{each}" for name, each in protocols.items()),
        "listener.name.admin.sasl.enabled.mechanisms": PLAIN,
        "listener.name.admin.plain.sasl.jaas.config": f"{module}.plain.PlainLoginModule required {admin};",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificate.path),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
    }
    for each in (SASL_PLAINTEXT, SASL_SSL):
        listener = f"listener.name.{_name(each).lower()}"
        properties[f"{listener}.sasl.enabled.mechanisms"] = SCRAM
        properties[f"{listener}.{SCRAM.lower()}.sasl.jaas.config"] = (
            f"{module}.scram.ScramLoginModule required;"
        )
    return properties


def _name(listener: str) -> str:
    """Format a property name for the test helpers, which replace underscores by dots."""
    return listener.replace("_", "")


def _reached(server: Server, ports: Mapping[str, int], certificate: Certificate) -> dict[str, Server]:
    logins = {
        PLAINTEXT: ANYBODY,
        SASL_PLAINTEXT: Login(None, SCRAM, _USER, _SECRET),
        SSL: Login(certificate.trusted),
        SASL_SSL: Login(certificate.trusted, SCRAM, _USER, _SECRET),
        _ADMIN: Login(None, PLAIN, "admin", _SECRET),
    }
    return {name: replace(server, port=port, login=logins[name]) for name, port in ports.items()}


async def secured_groupd(stack: ExitStack, certificate: Certificate, groups: Sequence[str]) -> Listening:
    """Run groupd until `stack` is closed."""
    ports = dict(zip(_ALL, free_ports(len(_ALL)), strict=True))
    options = [word for each in security(ports, certificate).items() for word in ("-o", "=".join(each))]
    server = stack.enter_context(groupd(*_GROUPD, *options, listens=()))
    reached = _reached(server, ports, certificate)
    await _fill(reached[_ADMIN], groups)
    return reached


def open_groupd(stack: ExitStack) -> Server:
    """Run groupd without security."""
    return stack.enter_context(groupd(*_GROUPD))


async def secured_kafka(stack: ExitStack, certificate: Certificate, groups: Sequence[str]) -> Listening:
    """Run Kafka until `stack` is closed.

    Raises:
        CannotBuild: Kafka is missing.
    """
    directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="groupd-bench-"))
    broker = KafkaBroker(directory, {}, java_options=AS_KAFKA_STARTS)
    _, _, plaintext = broker.bootstrap.rpartition(":")
    *others, controller = free_ports(len(_ALL))
    ports = dict(zip(_ALL, [int(plaintext), *others], strict=True))
    properties = security(ports, certificate)
    properties["advertised.listeners"] = properties["listeners"]
    properties["listeners"] += f",CONTROLLER://{_HOST}:{controller}"
    properties["listener.security.protocol.map"] += f",CONTROLLER:{SASL_PLAINTEXT}"
    admin = properties["listener.name.admin.plain.sasl.jaas.config"]
    properties |= {
        "controller.quorum.voters": f"1@{_HOST}:{controller}",
        "inter.broker.listener.name": _ADMIN,
        "sasl.mechanism.inter.broker.protocol": PLAIN,
        "sasl.mechanism.controller.protocol": PLAIN,
        "listener.name.controller.sasl.enabled.mechanisms": PLAIN,
        "listener.name.controller.plain.sasl.jaas.config": admin,
    }
    broker.start(**properties)
    stack.callback(broker.kill)
    reached = _reached(Server(broker.pid, _HOST, int(plaintext)), ports, certificate)
    await prepare(reached[_ADMIN], TOPIC, PARTITIONS, groups)
    await _fill(reached[_ADMIN], groups)
    return reached


async def _fill(admin: Server, groups: Sequence[str]) -> None:
    """Create the user and the ACLs."""
    connection = await Connection.open(admin)
    salted = pbkdf2_hmac("sha256", _SECRET.encode(), _SALT, _ITERATIONS)
    user = ScramCredentialUpsertion(
        name=_USER, mechanism=_SCRAM_SHA_256, iterations=_ITERATIONS, salt=_SALT, salted_password=salted
    )
    altered = await connection.request(
        AlterUserScramCredentialsRequest(deletions=[], upsertions=[user]),
        0,
        AlterUserScramCredentialsResponse,
    )
    assert altered.results[0].error_code == ErrorCode.NONE, altered
    creations = acls(groups)
    for first in range(0, len(creations), _ACLS_AT_ONCE):
        created = await connection.request(
            CreateAclsRequest(creations=creations[first : first + _ACLS_AT_ONCE]),
            _CREATE_ACLS_VERSION,
            CreateAclsResponse,
        )
        assert all(each.error_code == ErrorCode.NONE for each in created.results), created.results[0]
    connection.transport.abort()


def acls(groups: Sequence[str]) -> list[AclCreation]:
    """Return READ on each group and on the topic for the measuring principal, and as many ACLs of other principals
    on other groups and topics; one in ten of these is prefixed.
    """
    own = [
        _allow(resource_type, name, PatternType.LITERAL, principal)
        for principal in ("User:ANONYMOUS", f"User:{_USER}")
        for resource_type, name in [
            (ResourceType.TOPIC, TOPIC),
            *((ResourceType.GROUP, each) for each in groups),
        ]
    ]
    others = []
    for number in range(ACLS - len(own)):
        pattern = PatternType.LITERAL if number % _EVERY_PREFIXED else PatternType.PREFIXED
        resource_type = ResourceType.TOPIC if number % 2 else ResourceType.GROUP
        name = f"team-{number % 97}.{'x' * (number % 7)}{number}"
        others.append(_allow(resource_type, name, pattern, f"User:team-{number % 97}"))
    return own + others


def _allow(resource_type: ResourceType, name: str, pattern: PatternType, principal: str) -> AclCreation:
    return AclCreation(
        resource_type=resource_type,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host="*",
        operation=AclOperation.READ,
        permission_type=AclPermissionType.ALLOW,
    )
