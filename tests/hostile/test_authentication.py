"""Unauthenticated clients: limits of their number, their delays and their attempts, and their effect on other
clients.

STRANGERS=10000 in the environment uses so many clients, if the system has enough file descriptors.
"""

import asyncio
import logging
import os
import re
import ssl
import time
import urllib.request
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

import pytest

from coordinator.core.daemon_log import ADDRESS_PERIOD_MS, LINES_PER_PERIOD
from coordinator.security.server import sasl_listener
from protocol.error_codes import ErrorCode
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.harness import Client
from tests.hostile.siege.attacker import Hostile, frame
from tests.hostile.siege.place import (
    BEFORE_SASL,
    BEFORE_SASL_THROUGH_TLS,
    THROUGH_TLS,
    Place,
)
from tests.hostile.siege.siege import Siege, besieged
from tests.security.server.sasl_server import choose, log_in, metric, plain_token, serving_sasl, show

STRANGERS: Final = int(os.environ.get("STRANGERS", "0"))
TIMEOUT_MS: Final = 3000
PATIENT_MS: Final = 240_000
"""On a busy machine a handshake behind a storm of others takes long."""
GUESSES: Final = 200
GUESSERS: Final = 20
STORM: Final = 2000
TOKENS: Final = 100
TOKEN_BYTES: Final = 500_000
LATEST_MS: Final = 250
LIST: Final = frame(ListGroupsRequest(), 4)


async def figures(siege: Siege) -> dict[str, float]:
    """Of /metrics, with labels."""

    def read() -> str:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{siege.daemon.http_port}/metrics", timeout=60
        ) as answer:
            text: str = answer.read().decode()
            return text

    text = await asyncio.to_thread(read)
    return {name: float(value) for name, value in re.findall(r"^(groupd_\S+) (\S+)$", text, re.MULTILINE)}


async def failed(siege: Siege, name: str) -> float:
    """How many did, of all kinds."""
    return sum(value for key, value in (await figures(siege)).items() if key.startswith(name))


def first_words(place: Place) -> bytes:
    """The first message of a TLS handshake, as far as it concerns this place."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = place.client_context()
    assert context is not None
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


async def connect(siege: Siege, count: int, said: bytes) -> list[Hostile]:
    """So many connections without a handshake."""
    crowd = []
    for _ in range(count):
        hostile = await siege.attacker.connect_plain()
        hostile.throw(said)
        crowd.append(hostile)
    return crowd


async def gone(crowd: list[Hostile]) -> None:
    """Waits until all have been sent away."""
    await asyncio.gather(*(hostile.end() for hostile in crowd))


async def test_unauthenticated_connections_are_closed_and_harmless(tmp_path: Path) -> None:
    options = ["-o", f"authentication.timeout.ms={TIMEOUT_MS}"]
    async with besieged(tmp_path, options, place=BEFORE_SASL) as siege:
        await siege.begin()
        half = (16_384).to_bytes(4, "big") + bytes(1000)
        crowd = await connect(siege, (STRANGERS or 1000) // 2, b"")
        crowd += await connect(siege, (STRANGERS or 1000) // 2, half)
        await gone(crowd)
        assert await failed(siege, "groupd_failed_authentications_total") == len(crowd)
        await is_served(siege)
        toll = await siege.toll()
        assert toll.is_bearable(), toll
    assert siege.log.read_text().count("Failed authentication") < 100


async def is_served(siege: Siege) -> None:
    """Whoever knows the password is let in all the same."""
    late = await siege.attacker.connect()
    assert await late.log_in()
    await late.send(LIST)
    assert await late.answer() is not None


async def test_half_handshakes_are_closed_and_harmless(tmp_path: Path) -> None:
    options = ["-o", f"authentication.timeout.ms={TIMEOUT_MS}"]
    async with besieged(tmp_path, options, place=THROUGH_TLS) as siege:
        await siege.begin()
        crowd = await connect(siege, STRANGERS or 500, first_words(THROUGH_TLS))
        await gone(crowd)
        assert await failed(siege, 'groupd_failed_handshakes_total{reason="timeout"}') == len(crowd)
        late = await siege.attacker.connect()
        await late.send(LIST)
        assert await late.answer() is not None
        toll = await siege.toll()
        if STRANGERS:  # of what thousands have taken at once, the allocator keeps more
            toll = replace(toll, kept_bytes=0)
        assert toll.is_bearable(), toll
    assert siege.log.read_text().count("Failed authentication") < 100


@pytest.mark.parametrize("said", ["broken", "half"])
async def test_the_memory_of_a_storm_of_handshakes_is_given_back(tmp_path: Path, said: str) -> None:
    hello = first_words(THROUGH_TLS)
    words = hello if said == "half" else hello[:60] + bytes(len(hello) - 60)
    options = ["-o", f"authentication.timeout.ms={PATIENT_MS}"]
    async with besieged(tmp_path, options, place=THROUGH_TLS) as siege:
        await siege.begin()
        crowd = await connect(siege, STORM, words)
        late = await siege.attacker.connect()
        await late.send(LIST)
        assert await late.answer() is not None
        if said == "broken":
            await gone(crowd)
        toll = await siege.toll()
        assert toll.is_bearable(LATEST_MS), toll


async def test_silent_connections_after_a_handshake_are_harmless(tmp_path: Path) -> None:
    options = ["-o", f"authentication.timeout.ms={TIMEOUT_MS}"]
    async with besieged(tmp_path, options, place=BEFORE_SASL_THROUGH_TLS) as siege:
        await siege.begin()
        crowd = [await siege.attacker.connect() for _ in range((STRANGERS or 400) // 4)]
        await gone(crowd)
        await is_served(siege)
        toll = await siege.toll()
        assert toll.is_bearable(), toll


@pytest.mark.parametrize("place", [BEFORE_SASL, BEFORE_SASL_THROUGH_TLS], ids=["plain", "through TLS"])
async def test_a_flood_of_wrong_passwords_does_not_fill_the_log(tmp_path: Path, place: Place) -> None:
    async def guess() -> None:
        for number in range(GUESSES // GUESSERS):
            hostile = await siege.attacker.connect()
            assert not await hostile.log_in(f"guess-{number}")
            await hostile.close()

    options = ["-o", "connection.failed.authentication.delay.ms=0"]
    async with besieged(tmp_path, options, place=place) as siege:
        await siege.begin()
        began_s = time.monotonic()
        await asyncio.gather(*(guess() for _ in range(GUESSERS)))
        # On a busy machine both a line and the job that is late end a period.
        periods = 2 * (int((time.monotonic() - began_s) * 1000 / ADDRESS_PERIOD_MS) + 1) + 1
        assert await failed(siege, "groupd_failed_authentications_total") == GUESSES
        await is_served(siege)
        toll = await siege.toll()
        assert toll.is_bearable(), toll
    log = siege.log.read_text()
    assert 0 < log.count("the password is wrong") <= min(GUESSES - 1, periods * LINES_PER_PERIOD)
    assert "guess-" not in log


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "PLAIN"])
async def test_large_tokens_are_harmless(tmp_path: Path, mechanism: str) -> None:
    name = b"=2C" * (TOKEN_BYTES // 3)
    token = b"\0" + name + b"\0" if mechanism == "PLAIN" else b"n,,n=" + name + b",r="
    tried = frame(SaslHandshakeRequest(mechanism=mechanism), 1) + frame(
        SaslAuthenticateRequest(auth_bytes=token), 2
    )
    options = ["-o", "connection.failed.authentication.delay.ms=0"]
    async with besieged(tmp_path, options, place=BEFORE_SASL) as siege:
        await siege.begin()
        crowd = await connect(siege, TOKENS, tried)
        await gone(crowd)
        assert await failed(siege, "groupd_failed_authentications_total") == TOKENS
        await is_served(siege)
        toll = await siege.toll()
        assert toll.is_bearable(LATEST_MS), toll


async def test_memory_of_unauthenticated_clients_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sasl_listener, "MAX_BUFFERED_BYTES", 350_000)
    async with serving_sasl(tmp_path) as server, AsyncExitStack() as stack:
        strangers = []
        for _ in range(8):
            stranger = await stack.enter_async_context(Client(server))
            stranger.writer.write((500_000).to_bytes(4, "big") + bytes(100_000))
            strangers.append(stranger)
        ends = [asyncio.ensure_future(stranger.closed()) for stranger in strangers]
        for end in islice(asyncio.as_completed(ends, timeout=60), 5):
            assert await end
        async with Client(server) as client:
            assert (await log_in(client)).error_code == ErrorCode.NONE
        for end in ends:
            end.cancel()


async def test_a_flood_of_wrong_passwords_is_summed_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "SocketServer")
    async with serving_sasl(tmp_path, {"connection.failed.authentication.delay.ms": "0"}) as server:
        for _ in range(3 * LINES_PER_PERIOD):
            async with Client(server) as client:
                await choose(client, "PLAIN")
                answer = await show(client, plain_token(password="guess"))
                assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert (
            metric(server, "groupd_failed_authentications_total", mechanism="PLAIN") == 3 * LINES_PER_PERIOD
        )
    told = [record for record in caplog.records if "Failed authentication" in record.getMessage()]
    assert 0 < len(told) <= 2 * LINES_PER_PERIOD  # a period may have ended
