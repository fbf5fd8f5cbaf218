"""The start of a daemon with control: it is ready for the first request, or the start fails."""

import asyncio
import json
import os
import signal
import socket
from pathlib import Path

import pytest

from coordinator.daemon import EXIT_START_FAILED, EXIT_SUCCESS, run_daemon
from tests.broker.harness import Client, join_alone, settings
from tests.crash.process import Process


@pytest.mark.parametrize("content", [None, b"two words"])
def test_a_token_that_cannot_be_read_stops_the_start(
    content: bytes | None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    properties = {"http.listener": "127.0.0.1:0", "control.token.file": str(path)}
    assert run_daemon(settings(tmp_path / "data", properties), []) == EXIT_START_FAILED
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"groupd: control.token.file: {path}")
    assert "two words" not in line


async def test_a_port_that_others_reach_needs_a_token_to_start(tmp_path: Path) -> None:
    log = tmp_path / "log"
    options = ("--http", "0.0.0.0:0", "-o", "control.enable=true")
    refused = await Process.start(tmp_path / "data", log, options, is_forked=True)
    assert await refused.ended() == EXIT_START_FAILED
    assert "control.token" in refused.log()
    variables = {"KAFKA_CONTROL_TOKEN": "s3cret-t0ken"}
    daemon = await Process.start(tmp_path / "data", log, options, variables=variables, is_forked=True)
    await daemon.ready()
    reader, writer = await asyncio.open_connection("127.0.0.1", daemon.http_port)
    writer.write(b"DELETE /v1/groups/g HTTP/1.0\r\n\r\n")
    assert b" 401 " in await asyncio.wait_for(reader.readline(), 60)
    writer.close()
    daemon.terminate()
    assert await daemon.ended() == EXIT_SUCCESS
    assert "s3cret" not in log.read_text()


@pytest.mark.parametrize(
    ("option", "line"),
    [
        ("", "The control API is off"),
        ("control.token=s3cret-t0ken", "The control API needs control.token for reading"),
        ("control.enable=true", "control.enable=true: the control API shows every group"),
    ],
)
async def test_one_line_says_who_may_use_the_control_api_beside_an_authorizer(
    option: str, line: str, tmp_path: Path
) -> None:
    authorizer = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    options = ("-o", authorizer, *(("-o", option) if option else ()))
    daemon = await Process.start(tmp_path / "data", tmp_path / "log", options, is_forked=True)
    await daemon.ready()
    daemon.terminate()
    assert await daemon.ended() == EXIT_SUCCESS
    assert [line in each for each in daemon.log().splitlines() if "ontrol" in each] == [True]


async def test_what_happens_is_kept_once(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.jsonl"
    options = ("-o", f"ledger.file={ledger}")
    daemon = await Process.start(tmp_path / "data", tmp_path / "log", options, is_forked=True)
    await daemon.ready()
    async with Client(port=daemon.port) as client:
        await join_alone(client, "billing")
    daemon.terminate()
    assert await daemon.ended() == EXIT_SUCCESS
    (entry,) = map(json.loads, ledger.read_text().splitlines())
    assert (entry["group_id"], entry["generation_id"]) == ("billing", 1)


def is_loaded(process_id: int) -> bool:
    """Return whether a process has loaded the HTTP modules."""
    return "aiohttp" in Path(f"/proc/{process_id}/maps").read_text()


@pytest.mark.parametrize("options", [(), ("-o", "control.enable=true")], ids=["auto", "true"])
async def test_what_serves_the_port_is_loaded_when_somebody_said_that_it_is_needed(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    daemon = await Process.start(tmp_path / "data", tmp_path / "log", options)
    await daemon.ready()
    try:
        if options:
            async with asyncio.timeout(60):
                while not is_loaded(daemon.process_id):  # noqa: ASYNC110 - another process loads it
                    await asyncio.sleep(0.05)
        else:
            # A start that would load it does so before it answers.
            for _ in range(10):
                socket.create_connection(("127.0.0.1", daemon.port)).close()
                await asyncio.sleep(0.05)
            assert not is_loaded(daemon.process_id)
    finally:
        os.kill(daemon.process_id, signal.SIGTERM)
        assert await daemon.ended() == EXIT_SUCCESS
