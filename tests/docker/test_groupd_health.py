"""The health check of the image: a short bash script that tests whether a broker responds."""

import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.test_serve import FREE, Daemon, get
from tests.free_ports import free_ports
from tests.interop.requirement import lacking

SCRIPT = Path(__file__).parents[2] / "docker" / "groupd-health"
TIMEOUT_S = 60


def health(*addresses: str, **environment: str) -> int:
    """The exit code of the check, with nothing in its environment but this."""
    bash = shutil.which("bash")
    if bash is None:
        lacking("bash is not installed")
    done = subprocess.run(
        [str(bash), str(SCRIPT), *addresses],
        env=environment,
        timeout=TIMEOUT_S,
        capture_output=True,
        check=False,
    )
    assert done.stderr == b""
    return done.returncode


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """Listen on a port that sends these bytes to each client; with no bytes it never responds."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(TIMEOUT_S)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    data = tmp_path_factory.mktemp("data")
    daemon = Daemon(*FREE, "--data-dir", str(data), "-o", "offsets.topic.num.partitions=1")
    yield daemon
    assert daemon.stop()[0] == 0


@pytest.fixture(scope="module")
def port(daemon: Daemon) -> int:
    return daemon.port


def closed_port() -> int:
    """Return a port without a listener, which the system gives to no other process."""
    return free_ports(1)[0]


def test_a_daemon_that_answers_is_healthy(port: int) -> None:
    assert health(f"127.0.0.1:{port}") == 0


def test_one_of_several_addresses_is_enough(port: int) -> None:
    assert health(f"127.0.0.1:{closed_port()}", f"127.0.0.1:{port}") == 0


def test_a_port_where_nobody_listens_is_not_healthy() -> None:
    assert health(f"127.0.0.1:{closed_port()}") == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\0\0\0\x0apong\0\0\0\0\0\0",
        b"\0\0\0\x0aping\0\x23\0\0\0\0",
        b"\0\0\0\x0aping\x01\0\0\0\0\0",
        b"\0\0\0\x0aping",
    ],
    ids=["nothing", "HTTP", "another id", "UNSUPPORTED_VERSION", "another error", "half an answer"],
)
def test_what_is_no_answer_of_a_broker_is_not_healthy(answer: bytes) -> None:
    with answering(answer) as port:
        assert health(f"127.0.0.1:{port}") == 1


@pytest.mark.parametrize(
    "size", [b"\0\0\0\x0a", b"\0\0\1\0", b"\0\1\0\0", b"\1\0\0\0", b"\1\1\1\1", b"\0\0\0g"]
)
def test_the_size_of_the_answer_does_not_matter(size: bytes) -> None:
    with answering(size + b"ping\0\0\0\0\0\0") as port:
        assert health(f"127.0.0.1:{port}") == 0


@pytest.mark.parametrize(
    "environment",
    [
        {"KAFKA_LISTENERS": "PLAINTEXT://:PORT"},
        {"KAFKA_LISTENERS": "CONTROLLER://:CLOSED,PLAINTEXT://0.0.0.0:PORT"},
        {"KAFKA_LISTENERS": "A://127.0.0.1:PORT", "KAFKA_ADVERTISED_LISTENERS": "A://example.org:1"},
        {"KAFKA_ADVERTISED_LISTENERS": "A://broker.invalid:CLOSED,B://broker.invalid:PORT"},
        {"KAFKA_CFG_LISTENERS": "PLAINTEXT://[::]:PORT"},
        {"KAFKA_CFG_ADVERTISED_LISTENERS": "PLAINTEXT://:PORT"},
        {"GROUPD_DEFAULT_LISTENERS": "PLAINTEXT://0.0.0.0:PORT"},
        {"GROUPD_DEFAULT_LISTENERS": "A://0.0.0.0:CLOSED", "KAFKA_LISTENERS": "A://:PORT"},
        {"KAFKA_LISTENERS": "A://127.0.0.1:CLOSED, B://127.0.0.1:PORT"},
    ],
)
def test_it_asks_where_the_environment_makes_the_daemon_listen(
    port: int, environment: dict[str, str]
) -> None:
    ports = {"PORT": str(port), "CLOSED": str(closed_port())}
    for word, number in ports.items():
        environment = {name: text.replace(f":{word}", f":{number}") for name, text in environment.items()}
    assert health(**environment) == 0


def test_where_every_listener_has_tls_the_http_port_is_asked(daemon: Daemon) -> None:
    listeners = {
        "KAFKA_LISTENERS": f"IN://0.0.0.0:{closed_port()},SASL_SSL://:{closed_port()}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "IN:SSL, SASL_SSL:SASL_SSL",
    }
    assert get(daemon.http_port, "/health")[0] == 200  # what serves the port is loaded now
    assert health(**listeners, KAFKA_HTTP_LISTENER=f"0.0.0.0:{daemon.http_port}") == 0
    assert health(**listeners, GROUPD_DEFAULT_HTTP_LISTENER=f"127.0.0.1:{daemon.http_port}") == 0
    for wrong in (closed_port(), daemon.port):
        assert health(**listeners, KAFKA_HTTP_LISTENER=f"127.0.0.1:{wrong}") == 1
    assert health(**listeners, KAFKA_HTTP_LISTENER="off") == 1
    https = {"KAFKA_HTTP_TLS_CERTIFICATE": "server.pem"}
    assert health(**listeners, **https, KAFKA_HTTP_LISTENER=f"0.0.0.0:{daemon.http_port}") == 0
    assert health(**listeners, **https, KAFKA_HTTP_LISTENER=f"0.0.0.0:{closed_port()}") == 1


@pytest.mark.parametrize("prefix", ["KAFKA_", "KAFKA_CFG_"])
@pytest.mark.parametrize("names", ["CONTROLLER", "QUORUM , CONTROLLER", None])
def test_controller_listeners_are_not_asked(daemon: Daemon, prefix: str, names: str | None) -> None:
    environment = {
        f"{prefix}LISTENERS": f"SSL://:{closed_port()},CONTROLLER://:{closed_port()}",
        f"{prefix}LISTENER_SECURITY_PROTOCOL_MAP": "SSL:SSL,CONTROLLER:PLAINTEXT",
        "KAFKA_HTTP_LISTENER": f"127.0.0.1:{daemon.http_port}",
    }
    if names is not None:
        environment[f"{prefix}CONTROLLER_LISTENER_NAMES"] = names
    assert get(daemon.http_port, "/health")[0] == 200  # the first request loads what serves the port
    assert health(**environment) == 0


def test_a_listener_without_tls_is_asked_before_the_http_port(daemon: Daemon) -> None:
    listeners = f"SSL://:{closed_port()},SASL_PLAINTEXT://:{closed_port()}"
    assert health(KAFKA_LISTENERS=listeners, KAFKA_HTTP_LISTENER=f"127.0.0.1:{daemon.http_port}") == 1
    listeners = f"SSL://:{closed_port()},SASL_PLAINTEXT://:{daemon.port}"
    assert health(KAFKA_LISTENERS=listeners, KAFKA_HTTP_LISTENER="off") == 0


def test_without_any_address_nothing_is_healthy() -> None:
    assert health(KAFKA_HTTP_LISTENER=f"127.0.0.1:{closed_port()}") == 1
