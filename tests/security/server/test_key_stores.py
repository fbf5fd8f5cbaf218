"""Key stores and truststores: the supported forms, and the error for each broken store."""

import logging
import shlex
import ssl
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    pkcs12,
)

from coordinator.security.server.tls_listener import ListenerTls
from coordinator.security.server.tls_stores import JKS_MAGIC, KeyStoreError, read_key_store
from storage.files import OsFiles
from tests.broker.harness import settings
from tests.interop.build import CannotBuild, tool
from tests.interop.requirement import lacking
from tests.security.server.certificates import (
    PASSWORD,
    Identity,
    java_truststore,
    listener,
    trusting,
    with_key,
)

AUTHORITY = Identity.authority()
MIDDLE = AUTHORITY.sign("CN=middle", is_authority=True)
SERVER = MIDDLE.sign("CN=localhost", ("localhost",))
ALICE = MIDDLE.sign("CN=alice")
OTHER = AUTHORITY.sign("CN=other")
SSL = {"listeners": "SSL://127.0.0.1:0"}


def tls_of(tmp_path: Path, properties: dict[str, str]) -> ListenerTls:
    return ListenerTls(settings(tmp_path, SSL | properties).security["SSL"], OsFiles())


def shake(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """The server's side of a handshake in memory. Raises SSLError of either side."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    other = server.wrap_bio(to_server, to_client, server_side=True)
    left = [one, other]
    for _ in range(10):
        for each in list(left):
            try:
                each.do_handshake()
                left.remove(each)
            except ssl.SSLWantReadError:
                pass
    assert not left
    return other


def in_one_line(pem: str) -> str:
    return " ".join(pem.split("\n"))


def written(tmp_path: Path, name: str, data: str | bytes) -> str:
    path = tmp_path / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return str(path)


# What is read


def key_stores(tmp_path: Path) -> dict[str, dict[str, str]]:
    pem = {"ssl.keystore.type": "PEM"}
    inline = {"ssl.keystore.certificate.chain": SERVER.chain_pem, "ssl.keystore.key": SERVER.key_pem()}
    p12 = {
        "ssl.keystore.location": written(tmp_path, "server.p12", SERVER.pkcs12()),
        "ssl.keystore.password": PASSWORD,
    }
    return {
        "a file": pem | {"ssl.keystore.location": written(tmp_path, "server.pem", SERVER.pem)},
        "the key at the end": pem
        | {"ssl.keystore.location": written(tmp_path, "end.pem", SERVER.chain_pem + SERVER.key_pem())},
        "an encrypted key": pem
        | {
            "ssl.keystore.location": written(tmp_path, "key.pem", SERVER.key_pem("x y") + SERVER.chain_pem),
            "ssl.key.password": "x y",
        },
        "properties": pem | inline,
        "properties of one line": pem | {name: in_one_line(text) for name, text in inline.items()},
        "PKCS12": p12 | {"ssl.keystore.type": "PKCS12"},
        "PKCS12 that is called JKS": p12 | {"ssl.keystore.type": "JKS", "ssl.key.password": PASSWORD},
        "JKS": p12 | {"ssl.keystore.location": written(tmp_path, "server.jks", SERVER.jks())},
        "JKS with a password of the key": p12
        | {
            "ssl.keystore.location": written(tmp_path, "key.jks", SERVER.jks(key_password="key-secret")),
            "ssl.key.password": "key-secret",
        },
        "JKS that is called PKCS12": p12
        | {
            "ssl.keystore.location": written(tmp_path, "server.jks", SERVER.jks()),
            "ssl.keystore.type": "PKCS12",
        },
    }


@pytest.mark.parametrize(
    "form",
    [
        "a file",
        "the key at the end",
        "an encrypted key",
        "properties",
        "properties of one line",
        "PKCS12",
        "PKCS12 that is called JKS",
        "JKS",
        "JKS with a password of the key",
        "JKS that is called PKCS12",
    ],
)
def test_every_form_of_a_key_store_is_shown_with_its_chain(tmp_path: Path, form: str) -> None:
    tls = tls_of(tmp_path, key_stores(tmp_path)[form])
    # The client trusts the root above the issuer.
    assert shake(tls.context, trusting(AUTHORITY)).version() == "TLSv1.3"


def truststores(tmp_path: Path) -> dict[str, dict[str, str]]:
    both = AUTHORITY.certificate_pem + MIDDLE.certificate_pem
    store = pkcs12.serialize_java_truststore(
        [pkcs12.PKCS12Certificate(each.certificate, b"x") for each in (AUTHORITY, MIDDLE)],
        BestAvailableEncryption(PASSWORD.encode()),
    )
    p12 = {
        "ssl.truststore.location": written(tmp_path, "trust.p12", store),
        "ssl.truststore.password": PASSWORD,
    }
    return {
        "PEM": {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": written(tmp_path, "trust.pem", both),
        },
        "a property": {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": in_one_line(both)},
        "only the middle": {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": MIDDLE.certificate_pem,
        },
        "PKCS12": p12 | {"ssl.truststore.type": "PKCS12"},
        "PKCS12 that is called JKS": p12,
        "JKS": {
            "ssl.truststore.location": written(tmp_path, "trust.jks", java_truststore(AUTHORITY, MIDDLE)),
            "ssl.truststore.password": PASSWORD,
        },
        "JKS without a password": {
            "ssl.truststore.location": written(tmp_path, "trust.jks", java_truststore(AUTHORITY, MIDDLE)),
        },
        "JKS with a key": {
            "ssl.truststore.location": written(tmp_path, "key.jks", MIDDLE.jks()),
            "ssl.truststore.password": PASSWORD,
        },
    }


@pytest.mark.parametrize(
    "form",
    [
        "PEM",
        "a property",
        "only the middle",
        "PKCS12",
        "PKCS12 that is called JKS",
        "JKS",
        "JKS without a password",
        "JKS with a key",
    ],
)
def test_every_form_of_a_truststore_says_whom_to_trust(tmp_path: Path, form: str) -> None:
    properties = listener(Path(written(tmp_path, "server.pem", SERVER.pem)), client_auth="required")
    tls = tls_of(tmp_path, properties | truststores(tmp_path)[form])
    assert shake(tls.context, ALICE.client(AUTHORITY)).getpeercert(binary_form=True)
    with pytest.raises(ssl.SSLError):
        shake(tls.context, Identity.authority("CN=foreign").sign("CN=x").client(AUTHORITY))


QUICK_START = ("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC")
"""Java options that halve the CPU time of a program as short as keytool."""


def keytool(*arguments: str) -> None:
    try:
        command = tool("keytool")
    except CannotBuild as error:
        lacking(str(error))
    subprocess.run([command, *QUICK_START, *arguments], check=True, capture_output=True, timeout=60)


def made_by_keytool(path: Path, algorithm: str, *how: str, name: str = "server") -> dict[str, str]:
    """Add a key to a key store with keytool; `how` are further options of keytool."""
    if path.exists():
        _add_key(path, algorithm, how, name)
    else:
        path.write_bytes(_store_with_one_key(algorithm, how, name))
    return {"ssl.keystore.location": str(path), "ssl.keystore.password": PASSWORD}


def _add_key(path: Path, algorithm: str, how: Sequence[str], name: str) -> None:
    passwords = ("-storepass", PASSWORD, "-keypass", PASSWORD)
    who = ("-dname", f"CN={name}", "-alias", name, "-keystore", str(path))
    keytool(*how, "-genkeypair", "-keyalg", algorithm, *passwords, *who)


@cache
def _store_with_one_key(algorithm: str, how: tuple[str, ...], name: str) -> bytes:
    """Return a new store; tests of the same algorithm share it, because keytool takes half a second."""
    with TemporaryDirectory() as directory:
        path = Path(directory, "store")
        _add_key(path, algorithm, how, name)
        return path.read_bytes()


def believing() -> ssl.SSLContext:
    """Return the TLS context of a client that accepts any certificate."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    return client


def test_stores_that_keytool_has_made_are_read(tmp_path: Path) -> None:
    trust, certificate = tmp_path / "trust.jks", written(tmp_path, "a.pem", AUTHORITY.certificate_pem)
    into = ("-keystore", str(trust), "-storepass", PASSWORD)
    keytool("-importcert", "-noprompt", "-file", certificate, "-alias", "authority", *into)
    properties = made_by_keytool(tmp_path / "server.jks", "EC") | {
        "ssl.truststore.location": str(trust),
        "ssl.truststore.password": PASSWORD,
        "ssl.client.auth": "required",
    }
    client = believing()
    with_key(client, AUTHORITY.sign("CN=alice"))
    assert shake(tls_of(tmp_path, properties).context, client).version() == "TLSv1.3"


def test_a_jks_that_keytool_has_made_is_read(tmp_path: Path) -> None:
    store = made_by_keytool(tmp_path / "old.jks", "EC", "-storetype", "JKS")
    assert (tmp_path / "old.jks").read_bytes().startswith(JKS_MAGIC)
    assert shake(tls_of(tmp_path, store).context, believing()).cipher()


def test_without_the_library_a_jks_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jks", None)
    properties = key_stores(tmp_path)["JKS"]
    with pytest.raises(KeyStoreError, match=r"pip install 'groupd\[jks\]'"):
        tls_of(tmp_path, properties)


def test_what_is_said_of_a_jceks_works(tmp_path: Path) -> None:
    store = made_by_keytool(tmp_path / "old.jceks", "EC", "-storetype", "JCEKS")
    with pytest.raises(KeyStoreError) as refused:
        tls_of(tmp_path, store)
    _, said = str(refused.value).split(": keytool ")
    keytool(*shlex.split(said), "-srcstorepass", PASSWORD, "-deststorepass", PASSWORD)
    tls_of(tmp_path, store | {"ssl.keystore.location": str(tmp_path / "old.p12")})


NEW, OLD = (), ("-J-Dkeystore.pkcs12.legacy",)
"""What keytool encrypts with: AES; 3DES and RC2, as before Java 17."""


@pytest.mark.parametrize(
    ("algorithm", "how"), [("RSA", OLD), ("EC", NEW), ("Ed25519", OLD)], ids=["old RSA", "EC", "old Ed25519"]
)
def test_every_kind_of_key_that_keytool_makes_is_shown(
    tmp_path: Path, algorithm: str, how: tuple[str, ...]
) -> None:
    store, client = made_by_keytool(tmp_path / "s.p12", algorithm, *how), believing()
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        client.minimum_version, client.maximum_version = version, version
        assert shake(tls_of(tmp_path, store).context, client).cipher()


def test_a_key_for_rsassa_pss_alone_is_named(tmp_path: Path) -> None:
    store = made_by_keytool(tmp_path / "s.p12", "RSASSA-PSS")
    with pytest.raises(KeyStoreError, match=r"ssl.keystore.location: .*RSASSA-PSS"):
        tls_of(tmp_path, store)


def test_of_several_keys_the_first_is_shown(tmp_path: Path) -> None:
    made_by_keytool(tmp_path / "s.p12", "EC", name="zebra")
    store = made_by_keytool(tmp_path / "s.p12", "EC", name="apple")
    tls = settings(tmp_path, SSL | store).security["SSL"].tls
    assert tls is not None
    shown = read_key_store(tls, OsFiles()).chain
    assert [each.subject.rfc4514_string() for each in shown] == ["CN=zebra"]


# --- further TLS properties


def test_what_has_expired_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    old = AUTHORITY.sign("CN=old", days=-1)
    tls_of(tmp_path, listener(Path(written(tmp_path, "old.pem", old.pem))))
    (line,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert "CN=old expired at" in line
    assert "ssl.keystore.location" in line


def weak() -> Identity:
    """An identity with a key that OpenSSL rejects by default."""
    return AUTHORITY.sign("CN=weak", ("localhost",), key=rsa.generate_private_key(65537, 1024))


@pytest.mark.parametrize("suites", [{}, {"cipher_suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"}])
def test_weak_certificates_are_a_warning_as_kafka_serves_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, suites: dict[str, str]
) -> None:
    path = Path(written(tmp_path, "weak.pem", weak().pem))
    trusted = Path(written(tmp_path, "trusted.pem", AUTHORITY.certificate_pem))
    server = tls_of(tmp_path, listener(path, trusted, **suites)).context
    (line,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert "CN=weak has a key of 1024 bits" in line
    client = trusting(AUTHORITY)
    client.set_ciphers("DEFAULT:@SECLEVEL=0")
    with_key(client, weak())
    shaken = shake(server, client)
    assert shaken.getpeercert()
    if suites:
        assert shaken.cipher() == ("ECDHE-RSA-AES128-GCM-SHA256", "TLSv1.2", 128)


def test_weak_certificates_of_clients_are_refused_where_the_stores_have_none(tmp_path: Path) -> None:
    path = Path(written(tmp_path, "server.pem", SERVER.pem))
    trusted = Path(written(tmp_path, "trusted.pem", AUTHORITY.certificate_pem))
    server = tls_of(tmp_path, listener(path, trusted)).context
    client = trusting(AUTHORITY)
    client.set_ciphers("DEFAULT:@SECLEVEL=0")
    with_key(client, weak())
    with pytest.raises(ssl.SSLError, match="key too weak"):
        shake(server, client)


def test_suites_of_tls_1_3_that_cannot_be_left_out_are_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = Path(written(tmp_path, "server.pem", SERVER.pem))
    tls = tls_of(tmp_path, listener(path, cipher_suites="TLS_AES_256_GCM_SHA384"))
    (line,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert "TLS_CHACHA20_POLY1305_SHA256" in line
    client = trusting(AUTHORITY)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        shake(tls.context, client)


def test_nothing_of_a_key_is_left_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is it in one that can be read while it is there."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(directory))
    seen: list[tuple[int, bytes]] = []
    load = ssl.SSLContext.load_cert_chain

    def watched(self: ssl.SSLContext, path: str, **how: object) -> None:
        seen.append((Path(path).stat().st_mode & 0o777, Path(path).read_bytes()))
        load(self, path, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", watched)
    tls_of(tmp_path, listener(Path(written(tmp_path, "server.pem", SERVER.pem))))
    ((mode, data),) = seen
    assert mode == 0o600
    assert b"BEGIN ENCRYPTED PRIVATE KEY" in data
    assert b"BEGIN PRIVATE KEY" not in data
    assert not list(directory.iterdir())
    assert SERVER.certificate.public_bytes(Encoding.PEM) in data
