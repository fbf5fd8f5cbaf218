"""Forwarded ports between the networks of containers."""

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from tests.docker.containers.image import require_containers
from tests.docker.containers.network import LOCALHOST, NetworkNamespace, PortForwarder

ECHO_ADDRESS = (LOCALHOST, 7)
TIMEOUT_S = 60
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@pytest.fixture
def network() -> Iterator[NetworkNamespace]:
    """Return a network namespace with an echo server."""
    require_containers()
    network = NetworkNamespace()
    with network.entered():
        server = socket.create_server(ECHO_ADDRESS)
    threading.Thread(target=_serve, args=[server], daemon=True).start()
    yield network
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    network.close()


def _serve(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=_echo, args=[connection], daemon=True).start()


def _echo(connection: socket.socket) -> None:
    with connection:
        try:
            while data := connection.recv(1024):
                connection.sendall(data)
        except ConnectionResetError:
            return


def test_connections_after_a_reset_one_are_forwarded(
    network: NetworkNamespace, forwarder: PortForwarder
) -> None:
    """A reset connection leaves no watched file descriptor behind that a later socket could get."""
    port = forwarder.forward(None, (LOCALHOST, 0), network, ECHO_ADDRESS)
    for _ in range(50):
        with socket.create_connection((LOCALHOST, port.port), TIMEOUT_S) as connection:
            connection.sendall(b"data")
            assert connection.recv(4) == b"data"
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    port.close()


def test_a_closed_port_refuses_connections_at_once(
    network: NetworkNamespace, forwarder: PortForwarder
) -> None:
    for _ in range(50):
        port = forwarder.forward(None, (LOCALHOST, 0), network, ECHO_ADDRESS)
        port.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((LOCALHOST, port.port), TIMEOUT_S)
