"""Stock clients against a daemon with an SSL listener: with a certificate, without one, with a foreign one."""

import json
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer

from tests.interop.build import CHECKOUT
from tests.interop.daemon import Daemon
from tests.security.server.certificates import Identity, trusting
from tests.shared_fixtures import shared

AUTHORITY = Identity.authority()
SERVER = AUTHORITY.sign("CN=localhost", ("localhost", "127.0.0.1"))
ALICE = AUTHORITY.sign("CN=alice")
STRANGER = Identity.authority("CN=another").sign("CN=mallory")
TIMEOUT_S = 60


class Files:
    """Key and trust files for clients and the daemon."""

    def __init__(self, directory: Path) -> None:
        self.authority = self._write(directory / "authority.pem", AUTHORITY.certificate_pem)
        self.server = self._write(directory / "server.pem", SERVER.pem)
        self.alice = self._write(directory / "alice.pem", ALICE.chain_pem)
        self.alice_key = self._write(directory / "alice.key", ALICE.key_pem())

    @staticmethod
    def _write(path: Path, text: str) -> str:
        path.write_text(text)
        return str(path)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls"))


@shared(Daemon.is_alive, scope="module")
def daemon(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A server that requests certificates."""
    properties = {
        "listener.security.protocol.map": "PLAINTEXT:SSL",
        "listener.name.plaintext.ssl.keystore.type": "PEM",
        "listener.name.plaintext.ssl.keystore.location": files.server,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": files.authority,
        "ssl.client.auth": "required",
        "authentication.timeout.ms": "2000",
    }
    options = [word for name, value in properties.items() for word in ("-o", f"{name}={value}")]
    daemon = Daemon(str(tmp_path_factory.mktemp("data")), "--topic", "orders:1", *options)
    yield daemon
    daemon.stop()


def test_librdkafka(daemon: Daemon, files: Files) -> None:
    how = {
        "bootstrap.servers": daemon.bootstrap,
        "security.protocol": "ssl",
        "ssl.ca.location": files.authority,
        "ssl.certificate.location": files.alice,
        "ssl.key.location": files.alice_key,
    }
    producer = Producer(how)
    producer.produce("orders", b"from librdkafka")
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer(how | {"group.id": "librdkafka", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe(["orders"])
        record = consumer.poll(TIMEOUT_S)
        assert record is not None
        assert record.error() is None
        consumer.commit(record, asynchronous=False)
    finally:
        consumer.close()


def test_librdkafka_without_a_certificate_is_told_so(daemon: Daemon, files: Files) -> None:
    errors: list[KafkaError] = []
    how = {
        "bootstrap.servers": daemon.bootstrap,
        "security.protocol": "ssl",
        "ssl.ca.location": files.authority,
        "error_cb": errors.append,
    }
    producer = Producer(how)
    for _ in range(TIMEOUT_S * 10):
        producer.poll(0.1)
        if any("certificate required" in error.str() for error in errors):
            break
    else:
        pytest.fail(f"no word of a certificate in {errors}")
    assert told(daemon, "ssl.client.auth=required")


def test_kafka_python(daemon: Daemon, files: Files) -> None:
    how = {
        "bootstrap_servers": daemon.bootstrap,
        "security_protocol": "SSL",
        "ssl_cafile": files.authority,
        "ssl_certfile": files.alice,
        "ssl_keyfile": files.alice_key,
    }
    command = [sys.executable, "-m", "tests.security.server.kafka_python_client", json.dumps(how)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=2 * TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    assert done.stdout


async def test_aiokafka(daemon: Daemon) -> None:
    how = {
        "bootstrap_servers": daemon.bootstrap,
        "security_protocol": "SSL",
        "ssl_context": ALICE.client(AUTHORITY),
    }
    async with AIOKafkaProducer(**how) as producer:
        await producer.send_and_wait("orders", b"from aiokafka")
    consumer = AIOKafkaConsumer("orders", group_id="aiokafka", auto_offset_reset="earliest", **how)
    async with consumer:
        assert (await consumer.getone()).value
        await consumer.commit()


def told(daemon: Daemon, said: str) -> bool:
    """Return whether the daemon logged a line, and check that it logged nothing unexpected."""
    has_told = daemon.has_told(said)
    assert not any("Unexpected" in line or "Traceback" in line for line in daemon.stderr), daemon.report()
    return has_told


@pytest.mark.parametrize(
    ("client", "said"),
    [(STRANGER.client(AUTHORITY), "unable to get local issuer"), (None, "does not use TLS")],
    ids=["foreign", "plain"],
)
def test_the_loop_of_the_daemon_says_who_was_sent_away(
    daemon: Daemon, client: ssl.SSLContext | None, said: str
) -> None:
    host, port = daemon.bootstrap.split(":")
    with socket.create_connection((host, int(port)), TIMEOUT_S) as plain:
        if client is None:
            plain.sendall(b"\0\0\0\x10")
            assert not plain.recv(100)
        else:
            with pytest.raises(OSError), client.wrap_socket(plain, server_hostname="localhost") as tls:  # noqa: PT011, PT012
                if not tls.recv(1):
                    raise ConnectionResetError
    assert told(daemon, said)


def test_the_loop_of_the_daemon_cuts_off_who_does_not_go_on(daemon: Daemon) -> None:
    host, port = daemon.bootstrap.split(":")
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting(AUTHORITY).wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    for said in (b"", outgoing.read()):
        with socket.create_connection((host, int(port)), TIMEOUT_S) as plain:
            plain.sendall(said)
            try:
                while plain.recv(4096):
                    pass
            except ConnectionResetError:
                pass
    assert told(daemon, "longer than 2 s")
    assert daemon.is_alive()
