"""The same attacks wherever there is a listener: without security, through TLS, before SASL, and after it."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Final

import pytest

from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.hostile.fuzz.mutator import Mutator
from tests.hostile.siege.attacker import Attacker, frame
from tests.hostile.siege.place import PASSWORD, PLACES, USER, Place
from tests.hostile.siege.siege import besieged

VERSIONS: Final = frame(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
HANDSHAKE: Final = frame(SaslHandshakeRequest(mechanism="PLAIN"), 1)
TOKEN: Final = frame(SaslAuthenticateRequest(auth_bytes=f"\0{USER}\0{PASSWORD}".encode()), 2)
LIST: Final = frame(ListGroupsRequest(), 4)
WRONG_SIZES: Final = (
    b"\xff\xff\xff\xff\0\3",
    b"\x80\0\0\0\0\3",
    b"\x7f\xff\xff\xff\0\3",
    b"\x02\0\0\0\0\3",
    b"\0\0\0\0\0\0",
)
PIPELINED: Final = 4_000
SLOW: Final = 20
MUTATED: Final = 30


async def wrong_sizes(attacker: Attacker, place: Place) -> None:
    """Frames that are too long, or shorter than nothing."""
    for data in WRONG_SIZES:
        hostile = await attacker.connect()
        await hostile.send(data)
        assert await hostile.answer() is None


async def cuts(attacker: Attacker, place: Place) -> None:
    """Clients that vanish at any byte, half of them with a RST."""
    whole = LIST if place.is_let_in else VERSIONS + HANDSHAKE + TOKEN
    for end in range(0, len(whole), 5):
        hostile = await attacker.connect()
        await hostile.send(whole[:end])
        await (hostile.reset() if end % 2 else hostile.close())


async def mutations(attacker: Attacker, place: Place) -> None:
    """Frames with changed bytes; before SASL also those by which a client logs in."""
    frames = [VERSIONS, HANDSHAKE, TOKEN, LIST]
    mutator = Mutator(Random(7))
    for number in range(MUTATED):
        hostile = await attacker.connect()
        if not place.is_let_in and number % 2:
            hostile.throw(HANDSHAKE)
        hostile.throw(mutator.mutate(frames[number % len(frames)], frames))
        hostile.throw(mutator.mutate(frames[number % 3], frames))
        await hostile.close() if number % 3 else await hostile.reset()


async def pipelines(attacker: Attacker, place: Place) -> None:
    """Many requests at once, of a client that does not read their answers."""
    for data in (VERSIONS, LIST):
        (await attacker.connect()).throw(data * PIPELINED)


async def bytes_one_by_one(attacker: Attacker, place: Place) -> None:
    """Many clients that send byte after byte: through TLS, each is a record."""
    crowd = [await attacker.connect() for _ in range(SLOW)]
    for byte in VERSIONS:
        for hostile in crowd:
            hostile.throw(bytes([byte]))
        await asyncio.sleep(0)
    for hostile in crowd:
        assert await hostile.answer() is not None


ATTACKS: Final[list[Callable[[Attacker, Place], Awaitable[None]]]] = [
    wrong_sizes,
    cuts,
    mutations,
    pipelines,
    bytes_one_by_one,
]


@pytest.mark.parametrize("name", PLACES)
async def test_whatever_is_sent_costs_one_connection(tmp_path: Path, name: str) -> None:
    place = PLACES[name]
    async with besieged(tmp_path, place=place) as siege:
        await siege.begin()
        for attack in ATTACKS:
            await attack(siege.attacker, place)
        late = await siege.attacker.connect()
        if not place.is_let_in:
            assert await late.log_in()
        await late.send(LIST)
        assert await late.answer() is not None
        toll = await siege.toll()
        assert toll.is_bearable(), toll
    log = siege.log.read_text()
    assert "Traceback" not in log
    assert "ERROR" not in log
    assert log.count("(the limit is") + log.count("invalid receive size") > 1
