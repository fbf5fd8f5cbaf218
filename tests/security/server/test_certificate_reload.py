"""Certificates that are read again while the server runs: for new connections, and only where clients still know
the listener."""

import asyncio
import logging
import re
from pathlib import Path

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.broker.harness import Client, serving
from tests.security.server.certificates import Identity, listener, trusting
from tests.security.server.test_tls_handshakes import is_served

HOSTS = ("localhost", "127.0.0.1")
AUTHORITY = Identity.authority()
SERVER = AUTHORITY.sign("CN=localhost", HOSTS)


def serial(client: Client) -> str:
    """Which certificate the server has shown."""
    return str(client.writer.get_extra_info("peercert")["serialNumber"])


async def test_new_connections_see_the_new_certificate_and_others_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    store, tls = tmp_path / "server.pem", trusting(AUTHORITY)
    store.write_text(SERVER.pem)
    async with serving(tmp_path / "data", listener(store)) as server, Client(server, tls=tls) as before:
        store.write_text(AUTHORITY.sign("CN=localhost", (*HOSTS, "another")).pem)
        await server.listeners.reload()
        assert "subject of its certificate is CN=localhost" in caplog.text
        async with Client(server, tls=tls) as after:
            assert await is_served(before)
            assert await is_served(after)
            assert serial(before) != serial(after)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nothing", "the key is missing"),
        (AUTHORITY.sign("CN=other", HOSTS).pem, "ssl.allow.dn.changes"),
        (AUTHORITY.sign("CN=localhost", HOSTS[:1]).pem, "127.0.0.1.*ssl.allow.san.changes"),
    ],
    ids=["broken", "subject", "names"],
)
async def test_what_clients_would_not_know_is_refused_in_a_line_and_the_old_one_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, said: str
) -> None:
    store, tls = tmp_path / "server.pem", trusting(AUTHORITY)
    store.write_text(SERVER.pem)
    async with serving(tmp_path / "data", listener(store)) as server:
        store.write_text(text)
        await server.listeners.reload()
        (line,) = [each for each in caplog.records if each.levelno == logging.ERROR]
        assert "Listener SSL keeps its certificate" in line.getMessage()
        assert re.search(said, line.getMessage())
        async with Client(server, tls=tls) as client:
            assert await is_served(client)
            assert int(serial(client), 16) == SERVER.certificate.serial_number


KEYSTORE = "listener.name.ssl.ssl.keystore.location"


async def alter(
    client: Client, name: str, value: str | None, *, broker: str = "1", operation: int = 0, only: bool = False
) -> tuple[int, str]:
    """What becomes of setting a property of the broker: the error and its message."""
    config = AlterableConfig(name=name, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=4, resource_name=broker, configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=only)
    answer: IncrementalAlterConfigsResponse = await client.call(request, 1)
    return answer.responses[0].error_code, answer.responses[0].error_message or ""


async def test_setting_the_path_of_a_store_to_what_it_is_has_it_read_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    store, tls = tmp_path / "server.pem", trusting(AUTHORITY)
    store.write_text(SERVER.pem)
    async with serving(tmp_path / "data", listener(store)) as server, Client(server, tls=tls) as before:
        renewed = AUTHORITY.sign("CN=localhost", HOSTS)
        store.write_text(renewed.pem)
        for (error, message), said in (
            (await alter(before, "ssl.keystore.location", str(store)), "only per-listener"),
            (await alter(before, KEYSTORE, str(store), broker=""), "at default cluster level"),
            (await alter(before, KEYSTORE, "/another"), "to other values"),
            (await alter(before, "listener.name.ssl.ssl.client.auth", "none"), "dynamically: "),
        ):
            assert error == ErrorCode.INVALID_REQUEST
            assert said in message
        assert (await alter(before, KEYSTORE, str(store), operation=2))[0] == ErrorCode.INVALID_CONFIG
        assert await alter(before, KEYSTORE, None, operation=1) == (ErrorCode.NONE, "")
        assert await alter(before, KEYSTORE, str(store), only=True) == (ErrorCode.NONE, "")
        assert "reloaded its stores" not in caplog.text
        assert await alter(before, KEYSTORE, str(store)) == (ErrorCode.NONE, "")
        async with asyncio.timeout(60):
            while "subject of its certificate is CN=localhost" not in caplog.text:
                await is_served(before)
        async with Client(server, tls=tls) as after:
            assert int(serial(after), 16) == renewed.certificate.serial_number


async def test_a_store_that_cannot_be_read_again_is_told_of_in_the_log_as_in_kafka(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, tls = tmp_path / "server.pem", trusting(AUTHORITY)
    store.write_text(SERVER.pem)
    async with serving(tmp_path / "data", listener(store)) as server, Client(server, tls=tls) as before:
        store.write_text("nothing")
        assert await alter(before, KEYSTORE, str(store)) == (ErrorCode.NONE, "")
        async with asyncio.timeout(60):
            while "keeps its certificate" not in caplog.text:
                await is_served(before)
        async with Client(server, tls=tls) as after:
            assert serial(after) == serial(before)
