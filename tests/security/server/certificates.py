"""Certificates for tests: an authority and the certificates that it signs, in the usual file forms."""

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import jks
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

PASSWORD = "store-secret"
DAY = datetime.timedelta(days=1)
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True)
class Identity:
    """A key, its certificate and those above it."""

    key: Key
    certificate: x509.Certificate
    above: "Identity | None" = None

    @classmethod
    def authority(cls, name: str = "CN=authority") -> Self:
        """A certificate authority with a self-signed certificate."""
        return cls._signed(name, None, is_authority=True)

    def sign(
        self,
        name: str,
        hosts: tuple[str, ...] = (),
        days: int = 1,
        key: Key | None = None,
        *,
        is_authority: bool = False,
    ) -> Self:
        """Sign a certificate for `key` or a new key.

        The certificate may name addresses and host names. A negative validity means that it has expired.
        """
        return self._signed(name, self, hosts, days, key, is_authority=is_authority)

    @classmethod
    def _signed(
        cls,
        name: str,
        above: "Identity | None",
        hosts: tuple[str, ...] = (),
        days: int = 1,
        key: Key | None = None,
        *,
        is_authority: bool,
    ) -> Self:
        key = key or ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name.from_rfc4514_string(name)
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder(
            above.certificate.subject if above else subject,
            subject,
            key.public_key(),
            x509.random_serial_number(),
            now - 10 * DAY,
            now + days * DAY,
        ).add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        if hosts:
            names: list[x509.GeneralName] = [
                x509.IPAddress(ipaddress.ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
                for host in hosts
            ]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return cls(key, builder.sign((above or cls(key, None)).key, hashes.SHA256()), above)  # type: ignore[arg-type]

    @property
    def certificate_pem(self) -> str:
        """This certificate alone."""
        return self.certificate.public_bytes(Encoding.PEM).decode()

    @property
    def chain_pem(self) -> str:
        """With those above it, but for one that signs itself."""
        above = self.above
        return self.certificate_pem + (above.chain_pem if above is not None and above.above else "")

    def key_pem(self, password: str = "") -> str:
        """The key in PKCS#8."""
        how: KeySerializationEncryption = (
            BestAvailableEncryption(password.encode()) if password else NoEncryption()
        )
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how).decode()

    @cached_property
    def pem(self) -> str:
        """Key and chain."""
        return self.key_pem() + self.chain_pem

    def pkcs12(self, password: str = PASSWORD) -> bytes:
        """Key, certificate and those above it."""
        above = self.above
        others: list[x509.Certificate] = []
        while above is not None:
            others.insert(0, above.certificate)
            above = above.above
        return pkcs12.serialize_key_and_certificates(
            b"server", self.key, self.certificate, others, BestAvailableEncryption(password.encode())
        )

    def jks(self, password: str = PASSWORD, key_password: str = "") -> bytes:
        """Key and chain as Java's own key store; the key has the password of the store unless it has its own."""
        above, chain = self.above, [self.certificate]
        while above is not None:
            chain.append(above.certificate)
            above = above.above
        key = self.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        entry = jks.PrivateKeyEntry.new("server", [each.public_bytes(Encoding.DER) for each in chain], key)
        entry.encrypt(key_password or password)
        stored: bytes = jks.KeyStore.new("jks", [entry]).saves(password)
        return stored

    def client(self, trusted: "Identity", *, version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
        """What a client with this certificate shakes hands with."""
        context = trusting(trusted)
        with_key(context, self)
        if version is not None:
            context.minimum_version = context.maximum_version = version
        return context


def java_truststore(*trusted: Identity, password: str = PASSWORD, cut: int | None = None) -> bytes:
    """These certificates, or only their first bytes, as Java's own truststore."""
    entries = []
    for number, each in enumerate(trusted):
        entry = jks.TrustedCertEntry.new(str(number), each.certificate.public_bytes(Encoding.DER)[:cut])
        entry.type = "X.509"
        entries.append(entry)
    stored: bytes = jks.KeyStore.new("jks", entries).saves(password)
    return stored


def trusting(authority: Identity) -> ssl.SSLContext:
    """What a client without a certificate shakes hands with."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority.certificate_pem)
    return context


def with_key(context: ssl.SSLContext, identity: Identity) -> None:
    """Gives a context a key and a certificate."""
    from storage.files import create_private_file

    with create_private_file(identity.pem.encode()) as path:
        context.load_cert_chain(path)


def listener(key_store: Path, trust_store: Path | None = None, **more: str) -> dict[str, str]:
    """Return the properties of a server with one SSL listener and PEM stores.

    `more` are further TLS properties by the end of their names (`client_auth`).
    """
    properties = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(key_store),
    }
    if trust_store is not None:
        properties |= {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(trust_store),
            "ssl.client.auth": "required",
        }
    return properties | {f"ssl.{name.replace('_', '.')}": value for name, value in more.items()}


def self_signed_pem(country: str) -> bytes:
    """Return a key and a certificate with a country of any length, as from keytool."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COUNTRY_NAME, country, _validate=False)])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now - DAY, now + DAY
    )
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificate
