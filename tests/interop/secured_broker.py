"""A broker with a listener for each protocol, users and ACLs: a groupd, or with GROUPD_TEST_SECURED=kafka an Apache
Kafka for comparison.

alice may read and write topics and groups that begin with `open-`, by SASL or with her certificate, and so may
unauthenticated clients (ANONYMOUS). Only admin may use the topic `payroll` and the group `audit`.
"""

import contextlib
import os
import re
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.free_ports import free_ports
from tests.interop.daemon import ANSWER_TIMEOUT_S, Daemon
from tests.interop.secured_files import SecuredFiles
from tests.kafka_log.broker import KafkaBroker
from tests.security.server.certificates import PASSWORD

KAFKA: Final = os.environ.get("GROUPD_TEST_SECURED") == "kafka"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
ONE_MECHANISM: Final = "SCRAM-SHA-512"
"""What the listener LIMITED knows."""
SESSION_MS: Final = 3000
"""Of the listener SHORT."""
PROTOCOLS: Final = {
    "PLAINTEXT": "PLAINTEXT",
    "SSL": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "LIMITED": "SASL_PLAINTEXT",
    "SHORT": "SASL_SSL",
}
"""The listeners, and what each speaks."""
PASSWORDS: Final = {"admin": "admin-secret", "alice": "alice-secret"}
MISTAKE: Final = "alice-mistake"
"""A wrong password."""
FORBIDDEN_TOPIC: Final = "payroll"
FORBIDDEN_GROUP: Final = "audit"
OPEN: Final = "open-"
_MODULES: Final = "org.apache.kafka.common.security"
_USERS: Final = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
_AS_ADMIN: Final = f'username="admin" password="{PASSWORDS["admin"]}"'
_JAAS: Final = {
    "plain": f"{_MODULES}.plain.PlainLoginModule required {_AS_ADMIN} {_USERS};",
    "scram-sha-256": f"{_MODULES}.scram.ScramLoginModule required;",
    "scram-sha-512": f"{_MODULES}.scram.ScramLoginModule required;",
}
_COUNT: Final = re.compile(r"^(groupd_[a-z_]+)_total(?:\{[^}]*\})? (\S+)$", re.MULTILINE)
_TIMEOUT_S: Final = 60


def _properties(files: SecuredFiles) -> dict[str, str]:
    """Return the properties of both brokers."""
    return {
        "listener.security.protocol.map": ",".join(f"{name}:{what}" for name, what in PROTOCOLS.items()),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.limited.sasl.enabled.mechanisms": ONE_MECHANISM,
        "listener.name.ssl.ssl.keystore.type": "PEM",
        "listener.name.ssl.ssl.keystore.location": files.server,
        "listener.name.ssl.ssl.truststore.type": "PEM",
        "listener.name.ssl.ssl.truststore.location": files.authority,
        "listener.name.ssl.ssl.client.auth": "required",
        "listener.name.ssl.ssl.principal.mapping.rules": "RULE:^CN=([^,]+),OU=Desk,.*$/$1/L,DEFAULT",
        **{
            f"listener.name.{name}.ssl.{word}": value
            for name in ("sasl_ssl", "short")
            for word, value in {
                "keystore.type": "PKCS12",
                "keystore.location": files.server_pkcs12,
                "keystore.password": PASSWORD,
                "key.password": PASSWORD,
            }.items()
        },
        **{
            f"listener.name.{name}.{mechanism}.sasl.jaas.config": jaas
            for name in ("sasl_plaintext", "sasl_ssl", "limited", "short")
            for mechanism, jaas in _JAAS.items()
        },
        **{
            f"listener.name.short.{mechanism}.connections.max.reauth.ms": str(SESSION_MS)
            for mechanism in _JAAS
        },
    }


class SecuredBroker:
    def __init__(self, files: SecuredFiles, addresses: dict[str, str], broker: Daemon | KafkaBroker) -> None:
        """Keep the broker and the addresses of its listeners."""
        self.files = files
        self.addresses = addresses
        self._broker = broker

    def is_alive(self) -> bool:
        """Return whether the broker runs. A Kafka counts as running."""
        return not isinstance(self._broker, Daemon) or self._broker.is_alive()

    def counts(self) -> Counter[str]:
        """Return the sum of each counter of groupd over all its labels; nothing for a Kafka broker."""
        counts: Counter[str] = Counter()
        if not isinstance(self._broker, Daemon):
            return counts
        with urllib.request.urlopen(
            f"http://{self._broker.http}/metrics", timeout=ANSWER_TIMEOUT_S
        ) as answer:
            found: list[tuple[str, str]] = _COUNT.findall(answer.read().decode())
        for name, count in found:
            counts[name] += int(float(count))
        return counts

    def log(self) -> str:
        """The end of a groupd's log."""
        return self._broker.report() if isinstance(self._broker, Daemon) else ""

    def prepare(self, topics: Iterable[str]) -> None:
        """Create the ACLs of this module's docstring, SCRAM users, and topics of one partition each."""
        administrator = AdminClient(
            {
                "bootstrap.servers": self.addresses["SASL_PLAINTEXT"],
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "admin",
                "sasl.password": PASSWORDS["admin"],
            }
        )
        mechanisms = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        secret = PASSWORDS["alice"].encode()
        for mechanism in mechanisms:  # a request may name a user once
            credential = UserScramCredentialUpsertion("alice", ScramCredentialInfo(mechanism, 4096), secret)
            _done(administrator.alter_user_scram_credentials([credential]))
        topic, group = ResourceType.TOPIC, ResourceType.GROUP
        rights = [(topic, AclOperation.WRITE), (topic, AclOperation.READ), (group, AclOperation.READ)]
        _done(
            administrator.create_acls(
                [
                    AclBinding(
                        *(kind, OPEN, ResourcePatternType.PREFIXED, f"User:{who}", "*"),
                        *(operation, AclPermissionType.ALLOW),
                    )
                    for who in ("alice", "ANONYMOUS")
                    for kind, operation in rights
                ]
            )
        )
        _done(administrator.create_topics([NewTopic(name, 1, 1) for name in (FORBIDDEN_TOPIC, *topics)]))


def _done(futures: dict[Any, Any]) -> None:
    for future in futures.values():
        future.result(_TIMEOUT_S)


@contextlib.contextmanager
def secured_broker(directory: str, *topics: str) -> Iterator[SecuredBroker]:
    """Start a broker with users, ACLs and topics while the context lasts. `directory` must exist."""
    files = SecuredFiles(directory)
    ports = free_ports(len(PROTOCOLS) + 1)
    addresses = {name: f"127.0.0.1:{port}" for name, port in zip(PROTOCOLS, ports, strict=False)}
    properties = _properties(files)
    listeners = ",".join(f"{name}://{address}" for name, address in addresses.items())
    make = (
        _kafka(directory, listeners, ports[-1], properties)
        if KAFKA
        else _groupd(directory, listeners, properties)
    )
    with make as broker:
        secured = SecuredBroker(files, addresses, broker)
        secured.prepare(topics)
        yield secured


@contextlib.contextmanager
def _groupd(directory: str, listeners: str, properties: dict[str, str]) -> Iterator[Daemon]:
    options = [word for name, value in properties.items() for word in ("-o", f"{name}={value}")]
    daemon = Daemon(os.path.join(directory, "data"), *options, listen=listeners)
    try:
        yield daemon
    except BaseException:
        daemon.kill()
        raise
    daemon.stop()
    said = "\n".join(daemon.stderr)
    assert "Traceback" not in said, said
    assert not [password for password in (*PASSWORDS.values(), MISTAKE, PASSWORD) if password in said]


@contextlib.contextmanager
def _kafka(
    directory: str, listeners: str, controller_port: int, properties: dict[str, str]
) -> Iterator[KafkaBroker]:
    """It talks to itself as admin."""
    controller = f"127.0.0.1:{controller_port}"
    plain = _JAAS["plain"]
    broker = KafkaBroker(
        directory,
        {
            **properties,
            "listeners": f"{listeners},CONTROLLER://{controller}",
            "advertised.listeners": listeners,
            "controller.quorum.voters": f"1@{controller}",
            "listener.security.protocol.map": (
                f"{properties['listener.security.protocol.map']},CONTROLLER:SASL_PLAINTEXT"
            ),
            "inter.broker.listener.name": "SASL_PLAINTEXT",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": plain,
        },
    )
    broker.bootstrap = listeners.split(",")[0].split("://")[1]
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()
