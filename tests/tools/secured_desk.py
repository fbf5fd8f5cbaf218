"""As `desk.py`, at a broker with SASL over TLS."""

import os
from dataclasses import dataclass

from tests.interop.secured_broker import PASSWORDS, SecuredBroker
from tests.tools.machine import Done, Machine


@dataclass(frozen=True, slots=True)
class Login:
    """A user and the credentials."""

    user: str
    password: str
    mechanism: str = "SCRAM-SHA-512"


ADMIN = Login("admin", PASSWORDS["admin"], "PLAIN")
ALICE = Login("alice", PASSWORDS["alice"])


class SecuredDesk:
    """The tools and the broker; a properties file gives each tool its user."""

    def __init__(self, broker: SecuredBroker, machine: Machine, directory: str) -> None:
        """Keep the directory for the properties files of the tools."""
        self._broker = broker
        self._machine = machine
        self._directory = directory

    def run(self, tool: str, *arguments: str, by: Login = ADMIN, stdin: str = "") -> Done:
        """Run a tool against the broker."""
        where = ("--bootstrap-server", self._broker.addresses["SASL_SSL"])
        return self._machine.run(
            tool, *arguments, *where, "--command-config", self._properties(by), stdin=stdin
        )

    def _properties(self, login: Login) -> str:
        plain = login.mechanism == "PLAIN"
        module = "plain.PlainLoginModule" if plain else "scram.ScramLoginModule"
        properties = {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self._broker.files.authority,
            "sasl.mechanism": login.mechanism,
            "sasl.jaas.config": (
                f"org.apache.kafka.common.security.{module} required "
                f'username="{login.user}" password="{login.password}";'
            ),
        }
        path = os.path.join(self._directory, f"{login.user}-{login.password}.properties")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{name}={value}\n" for name, value in properties.items())
        return path
