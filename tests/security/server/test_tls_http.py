"""The HTTP port with a certificate, and the signal that has certificates read again."""

import os
import signal
import ssl
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from coordinator.core.message_text import StartFailed
from coordinator.security.server.tls_context import create_http_context
from storage.files import OsFiles
from tests.interop.daemon import Daemon
from tests.security.server.certificates import Identity, trusting

AUTHORITY = Identity.authority()
SERVER = AUTHORITY.sign("CN=localhost", ("localhost", "127.0.0.1"))
TIMEOUT_S = 60


class HttpsDaemon(Daemon):
    """A daemon with an HTTPS port."""

    def is_alive(self) -> bool:
        """Whether it answers so, and not otherwise."""
        with urllib.request.urlopen(
            f"https://{self.http}/health", timeout=TIMEOUT_S, context=trusting(AUTHORITY)
        ) as answer:
            return bool(answer.status == 200)

    def hang_up(self) -> None:
        """SIGHUP."""
        os.kill(self._process.pid, signal.SIGHUP)


def test_the_http_port_speaks_tls_and_a_listener_reads_its_certificate_again(tmp_path: Path) -> None:
    pem = tmp_path / "server.pem"
    pem.write_text(SERVER.pem)
    properties = {
        "http.tls.certificate": str(pem),
        "http.tls.key": str(pem),
        "listener.security.protocol.map": "PLAINTEXT:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(pem),
    }
    options = [word for name, value in properties.items() for word in ("-o", f"{name}={value}")]
    daemon = HttpsDaemon(str(tmp_path / "data"), *options)
    try:
        assert daemon.is_alive()
        assert any(f"HTTP is at https://{daemon.http}/" in line for line in daemon.stderr)
        with pytest.raises((urllib.error.URLError, OSError)):
            urllib.request.urlopen(f"http://{daemon.http}/health", timeout=TIMEOUT_S)
        daemon.hang_up()
        for _ in range(100):
            if any("reloaded its stores" in line for line in daemon.stderr):
                break
            assert daemon.is_alive()
        else:
            pytest.fail(daemon.report())
    finally:
        daemon.stop()


def test_what_is_broken_is_named(tmp_path: Path) -> None:
    good, other = tmp_path / "server.pem", tmp_path / "other.pem"
    good.write_text(SERVER.pem)
    other.write_text(AUTHORITY.sign("CN=other").key_pem())
    assert isinstance(create_http_context(str(good), str(good), OsFiles()), ssl.SSLContext)
    with pytest.raises(StartFailed, match=r"http\.tls.key: .*no such file"):
        create_http_context(str(good), str(tmp_path / "no"), OsFiles())
    with pytest.raises(StartFailed, match=r"http\.tls.certificate: .*does not belong to the key"):
        create_http_context(str(good), str(other), OsFiles())
