"""Key stores and truststores that cannot be used: each stops the start, in a line that names it."""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    pkcs12,
)

from coordinator.core.message_text import StartFailed
from tests.broker.harness import settings, start
from tests.security.server.certificates import PASSWORD, Identity, java_truststore

AUTHORITY: Final = Identity.authority()
MIDDLE: Final = AUTHORITY.sign("CN=middle", is_authority=True)
SERVER: Final = MIDDLE.sign("CN=localhost", ("localhost",))
OTHER: Final = AUTHORITY.sign("CN=other")


class File(NamedTuple):
    """A property whose value is a file path. No content means a missing file, no name the directory itself."""

    name: str
    content: str | bytes | None = None


Properties = Mapping[str, str | File]

PEM: Final[Properties] = {"ssl.keystore.type": "PEM"}
P12: Final[Properties] = {"ssl.keystore.type": "PKCS12", "ssl.keystore.password": PASSWORD}
KEYLESS: Final = pkcs12.serialize_key_and_certificates(
    None, None, AUTHORITY.certificate, None, NoEncryption()
)
TRUSTED: Final = pkcs12.serialize_java_truststore(
    [pkcs12.PKCS12Certificate(AUTHORITY.certificate, b"x")], BestAvailableEncryption(PASSWORD.encode())
)


def key_store(name: str, content: str | bytes | None = None) -> Properties:
    return {"ssl.keystore.location": File(name, content)}


def pem_block(label: str) -> str:
    """What PEM is like, without sense."""
    return f"-----BEGIN {label}-----\nAAAA\n-----END {label}-----"


def of_strange_curve() -> str:
    """Return the server's certificate with an unknown curve name."""
    der = SERVER.certificate.public_bytes(Encoding.DER)
    usual = bytes.fromhex("2a8648ce3d030107")
    assert usual in der
    return ssl.DER_cert_to_PEM_cert(der.replace(usual, usual[:-1] + b"\6"))


def truststore(name: str, content: str | bytes | None = None, type_: str = "PEM") -> Properties:
    """Beside a good key store."""
    return {
        **PEM,
        **key_store("server.pem", SERVER.pem),
        "ssl.client.auth": "required",
        "ssl.truststore.type": type_,
        "ssl.truststore.location": File(name, content),
    }


BROKEN: Final[Mapping[str, tuple[Properties, str]]] = {
    "no file": ({**PEM, **key_store("no")}, "ssl.keystore.location: .*no such file"),
    "a directory": ({**PEM, **key_store("")}, "ssl.keystore.location: .*directory"),
    "no key": (
        {**PEM, **key_store("s.pem", SERVER.chain_pem)},
        "ssl.keystore.location: .*the key is missing",
    ),
    "no certificate": (
        {**PEM, **key_store("s.pem", SERVER.key_pem())},
        "ssl.keystore.location: .*certificate is missing",
    ),
    "a bad certificate": (
        {**PEM, **key_store("s.pem", SERVER.key_pem() + pem_block("CERTIFICATE"))},
        "ssl.keystore.location: .*cannot be read",
    ),
    "a bad key": (
        {**PEM, **key_store("s.pem", pem_block("PRIVATE KEY"))},
        "ssl.keystore.location: .*cannot be read",
    ),
    "not that of the key": (
        {**PEM, **key_store("s.pem", SERVER.key_pem() + OTHER.chain_pem)},
        "ssl.keystore.location: .*does not belong to the key",
    ),
    "the wrong order": (
        {**PEM, **key_store("s.pem", SERVER.key_pem() + MIDDLE.certificate_pem + SERVER.certificate_pem)},
        "must be the first",
    ),
    "a strange kind of key": (
        {**PEM, **key_store("s.pem", SERVER.key_pem() + of_strange_curve())},
        "ssl.keystore.location: .*type of key",
    ),
    "no password of a key": (
        {**PEM, **key_store("s.pem", SERVER.key_pem("x") + SERVER.chain_pem)},
        "ssl.key.password is not set",
    ),
    "the wrong password of a key": (
        {
            **PEM,
            **key_store("s.pem", SERVER.key_pem("x") + SERVER.chain_pem),
            "ssl.key.password": "secret",
        },
        "ssl.key.password is wrong",
    ),
    "a password for nothing": (
        {**PEM, **key_store("s.pem", SERVER.pem), "ssl.key.password": "secret"},
        "ssl.key.password: the key is not encrypted",
    ),
    "inline, not that of the key": (
        {
            **PEM,
            "ssl.keystore.key": SERVER.key_pem(),
            "ssl.keystore.certificate.chain": OTHER.certificate_pem,
        },
        "ssl.keystore.certificate.chain: .*does not belong to the key",
    ),
    "the wrong password": (
        {**P12, **key_store("s.p12", SERVER.pkcs12()), "ssl.keystore.password": "secret"},
        "ssl.keystore.password is wrong",
    ),
    "another password of the key": (
        {**P12, **key_store("s.p12", SERVER.pkcs12()), "ssl.key.password": "secret"},
        "ssl.key.password: .*ssl.keystore.password",
    ),
    "a PKCS12 without a key": (
        {**P12, **key_store("s.p12", KEYLESS), "ssl.keystore.password": "unused"},
        "ssl.keystore",
    ),
    "PEM as PKCS12": ({**P12, **key_store("s.pem", SERVER.pem)}, "ssl.keystore.type=PKCS12: .* is PEM"),
    "nonsense as PKCS12": ({**P12, **key_store("s.p12", b"nonsense")}, "neither PKCS12 nor JKS"),
    "an empty PKCS12": ({**P12, **key_store("s.p12", b"")}, "neither PKCS12 nor JKS"),
    "a cut PKCS12": (
        {**P12, **key_store("s.p12", SERVER.pkcs12()[:200])},
        "ssl.keystore.password is wrong, or",
    ),
    "a cut JKS": (
        {**P12, **key_store("s.jks", SERVER.jks()[:200])},
        "ssl.keystore.location: .*/s.jks: .*damaged",
    ),
    "a JKS with another password": (
        {**P12, **key_store("s.jks", SERVER.jks("other-secret"))},
        "ssl.keystore.location: .*/s.jks: ssl.keystore.password is wrong, or",
    ),
    "a JKS with another password of the key": (
        {**P12, **key_store("s.jks", SERVER.jks(key_password="other-secret"))},
        "ssl.key.password: is wrong for the key in .*/s.jks",
    ),
    "a JKS without a key": (
        {**P12, **key_store("s.jks", java_truststore(SERVER))},
        "ssl.keystore.location: .*/s.jks: it has no key",
    ),
    "a JKS with a cut certificate": (
        truststore("t.jks", java_truststore(SERVER, cut=100), "JKS"),
        "ssl.truststore.location: .*/t.jks: a certificate cannot be read",
    ),
    "a JCEKS": (
        {**P12, **key_store("s.jceks", b"\xce\xce\xce\xce\0\0\0\2")},
        "/s.jceks has the format JCEKS.*-srckeystore [^ ]*/s.jceks -srcstoretype JCEKS -destkeystore [^ ]*/s.p12 ",
    ),
    "no truststore": (truststore("no"), "ssl.truststore.location: .*no such file"),
    "a truststore without certificates": (
        truststore("t.pem", "nothing"),
        "ssl.truststore.location: .*certificate is missing",
    ),
    "a truststore without its password": (
        truststore("t.p12", TRUSTED, "JKS"),
        "ssl.truststore.password is not set",
    ),
}


@pytest.mark.parametrize(("properties", "said"), BROKEN.values(), ids=BROKEN)
async def test_what_is_broken_stops_the_start_and_is_named(
    tmp_path: Path, properties: Properties, said: str
) -> None:
    texts = {"listeners": "SSL://127.0.0.1:0"}
    for name, value in properties.items():
        if isinstance(value, File):
            path = tmp_path / value.name
            if value.content is not None:
                path.write_bytes(value.content.encode() if isinstance(value.content, str) else value.content)
            value = str(path)
        texts[name] = value
    with pytest.raises(StartFailed, match=said) as refused:
        await start(settings(tmp_path / "data", texts))
    message = str(refused.value)
    assert message.startswith("the listener SSL: ")
    assert "\n" not in message
    assert "secret" not in message
