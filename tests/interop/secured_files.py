"""The certificates of a secured broker and its clients, in files of every form that people have them in."""

import os
import subprocess
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from tests.interop.build import tool
from tests.security.server.certificates import PASSWORD, Identity

SUBJECT: Final = "CN=alice,OU=Desk,O=Example"
HOSTS: Final = ("localhost", "127.0.0.1")


@dataclass(frozen=True, slots=True)
class Stores:
    """What a Java client shows and trusts, in one form."""

    form: str
    """As `ssl.keystore.type` has it."""
    key_store: str
    trust_store: str


class SecuredFiles:
    """An authority and its certificates: a server, alice, and an expired one of alice. mallory has a
    certificate of an unknown authority.
    """

    def __init__(self, directory: str) -> None:
        """Writes them into a directory."""
        self._directory = directory
        authority = Identity.authority()
        server = authority.sign("CN=localhost", HOSTS)
        self._alice = authority.sign(SUBJECT)
        self._authority = authority
        self.authority = self._write("authority.pem", authority.certificate_pem)
        self.server = self._write("server.pem", server.pem)
        self.server_pkcs12 = self._write("server.p12", server.pkcs12())
        self.alice = self._pair("alice", self._alice)
        self.expired = self._pair("expired", authority.sign(SUBJECT, days=-1))
        self.foreign = self._pair("mallory", Identity.authority("CN=another").sign("CN=mallory"))

    def _write(self, name: str, content: str | bytes) -> str:
        path = os.path.join(self._directory, name)
        with open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return path

    def _pair(self, name: str, identity: Identity) -> tuple[str, str, str]:
        """Paths: the certificate with those above it, the key, and both in one file."""
        return (
            self._write(f"{name}.crt", identity.chain_pem),
            self._write(f"{name}.key", identity.key_pem()),
            self._write(f"{name}.pem", identity.pem),
        )

    def java_stores(self) -> tuple[Stores, ...]:
        """Alice's, for a Java client: PKCS12, JKS. Raises CannotBuild where keytool is missing."""
        trusted = [pkcs12.PKCS12Certificate(self._authority.certificate, b"authority")]
        encryption = BestAvailableEncryption(PASSWORD.encode())
        key_store = self._write("alice.p12", self._alice.pkcs12())
        trust_store = self._write("trusted.p12", pkcs12.serialize_java_truststore(trusted, encryption))
        return (
            Stores("PKCS12", key_store, trust_store),
            Stores("JKS", self._as_jks(key_store), self._as_jks(trust_store)),
        )

    @staticmethod
    def _as_jks(store: str) -> str:
        """As people make one, with keytool."""
        made = f"{os.path.splitext(store)[0]}.jks"
        subprocess.run(
            [
                *(tool("keytool"), "-importkeystore", "-noprompt"),
                *("-srckeystore", store, "-srcstoretype", "PKCS12", "-srcstorepass", PASSWORD),
                *("-destkeystore", made, "-deststoretype", "JKS", "-deststorepass", PASSWORD),
            ],
            check=True,
            capture_output=True,
        )
        return made
