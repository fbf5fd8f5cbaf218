"""Forwarded ports between the networks of containers."""

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from tests.docker.containers.image import require_containers
from tests.docker.containers.network import LOCALHOST, NetworkNamespace, PortForwarder

TIMEOUT_S = 60
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@pytest.fixture
def echo(forwarder: PortForwarder) -> Iterator[tuple[str, int]]:
    """The forwarded address of an echo server, which runs in another network namespace."""
    require_containers()
    network = NetworkNamespace()
    with network.entered():
        server = socket.create_server((LOCALHOST, 7))
    threading.Thread(target=_serve, args=[server], daemon=True).start()
    forwarded = forwarder.forward(None, (LOCALHOST, 0), network, (LOCALHOST, 7))
    yield LOCALHOST, forwarded.port
    forwarded.close()
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


def test_connections_after_a_reset_one_are_forwarded(echo: tuple[str, int]) -> None:
    """A reset connection leaves nothing behind that a later socket with its number could suffer from."""
    for _ in range(50):
        with socket.create_connection(echo, TIMEOUT_S) as connection:
            connection.sendall(b"data")
            assert connection.recv(4) == b"data"
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
