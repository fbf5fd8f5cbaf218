"""TLS connections end for every reaction of the client."""

import asyncio
import contextlib
import shutil
import socket
import ssl
from pathlib import Path

import pytest

from coordinator.network import tls_handshakes
from tests.broker.harness import TIMEOUT_S
from tests.interop.requirement import lacking
from tests.security.server.certificates import listener, trusting
from tests.security.server.test_tls_handshakes import AUTHORITY, listening, stores, until

__all__ = ["stores"]


def shaken(port: int, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLSocket:
    """Connect a client that does not answer a close_notify by itself."""
    context = trusting(AUTHORITY)
    context.minimum_version = context.maximum_version = version
    return context.wrap_socket(
        socket.create_connection(("127.0.0.1", port), TIMEOUT_S), server_hostname="localhost"
    )


async def test_a_client_that_does_not_answer_the_end_is_cut_off(
    tmp_path: Path, stores: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_handshakes, "SHUTDOWN_TIMEOUT_S", 0.2)
    async with listening(tmp_path, listener(stores[0])) as server:
        with await asyncio.to_thread(shaken, server.endpoints[0].port) as silent:
            await until(lambda: bool(server.connections.open))
            silent.sendall(b"\x7f\xff\xff\xff\0\3")  # for which it is sent away
            await until(lambda: not server.connections.open)


@pytest.mark.parametrize("goes_on", [False, True], ids=["closes", "keeps its socket"])
async def test_a_client_that_ends_tls_is_gone(
    tmp_path: Path, stores: tuple[Path, Path], goes_on: bool
) -> None:
    async with listening(tmp_path, listener(stores[0])) as server:
        with await asyncio.to_thread(shaken, server.endpoints[0].port) as client:
            await until(lambda: bool(server.connections.open))
            client.setblocking(False)
            with contextlib.suppress(ssl.SSLWantReadError):
                client.unwrap()  # one close_notify, and no look at the other
            if not goes_on:
                client.close()
            await until(lambda: not server.connections.open)


async def test_a_client_that_asks_to_renegotiate_is_served_no_handshake(
    tmp_path: Path, stores: tuple[Path, Path]
) -> None:
    """One may order as many as it likes, and each costs as much as a thousand requests."""
    program = shutil.which("openssl") or ""
    if not program:
        lacking("openssl is not installed")
    async with listening(tmp_path, listener(stores[0])) as server:
        at = f"127.0.0.1:{server.endpoints[0].port}"
        client = await asyncio.create_subprocess_exec(
            *(program, "s_client", "-connect", at, "-tls1_2", "-servername", "localhost"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            assert client.stdin is not None
            await until(lambda: bool(server.connections.open))
            client.stdin.write(b"R\n")
            output, _ = await asyncio.wait_for(client.communicate(), TIMEOUT_S)
        finally:
            if client.returncode is None:
                client.kill()
                await client.wait()
        assert b"RENEGOTIATING" in output
        assert b"no renegotiation" in output
        await until(lambda: not server.connections.open)
