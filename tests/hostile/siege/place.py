"""Where an attack happens: on a listener without security, through TLS, before SASL is done, or after it."""

import ssl
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from coordinator.core.shared_types import SecurityProtocol
from tests.free_ports import free_ports
from tests.security.server.certificates import Identity, trusting

USER: Final = "alice"
PASSWORD: Final = "alice-secret"
_JAAS: Final = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'


@cache
def _authority() -> Identity:
    return Identity.authority()


@dataclass(frozen=True)
class Place:
    """A listener, and how far an attacker goes before it begins."""

    protocol: SecurityProtocol
    logs_in: bool = False

    @property
    def is_let_in(self) -> bool:
        """Whether its requests are answered."""
        return self.logs_in or not self.protocol.has_sasl

    def client_context(self) -> ssl.SSLContext | None:
        """What its connections shake hands with."""
        return trusting(_authority()) if self.protocol.has_tls else None

    def listening(self, directory: Path) -> tuple[int, list[str]]:
        """A port, and the options of a daemon that has this listener there, besides its own."""
        (port,) = free_ports(1)
        options = ["--listen", f"{self.protocol.value}://127.0.0.1:{port}"]
        if self.protocol.has_tls:
            store = directory / "server.pem"
            store.write_text(_authority().sign("CN=localhost", ("localhost", "127.0.0.1")).pem)
            options += ["-o", "ssl.keystore.type=PEM", "-o", f"ssl.keystore.location={store}"]
        if self.protocol.has_sasl:
            name = self.protocol.value.lower()
            options += ["-o", "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256"]
            options += ["-o", f"listener.name.{name}.plain.sasl.jaas.config={_JAAS}"]
        return port, options


PLAIN: Final = Place(SecurityProtocol.PLAINTEXT)
THROUGH_TLS: Final = Place(SecurityProtocol.SSL)
BEFORE_SASL: Final = Place(SecurityProtocol.SASL_PLAINTEXT)
BEFORE_SASL_THROUGH_TLS: Final = Place(SecurityProtocol.SASL_SSL)
AFTER_SASL_THROUGH_TLS: Final = Place(SecurityProtocol.SASL_SSL, logs_in=True)

PLACES: Final = {
    "plain": PLAIN,
    "through TLS": THROUGH_TLS,
    "before SASL": BEFORE_SASL,
    "before SASL through TLS": BEFORE_SASL_THROUGH_TLS,
    "after SASL through TLS": AFTER_SASL_THROUGH_TLS,
}
