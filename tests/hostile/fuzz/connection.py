"""Targets that are a whole daemon: frames into a connection, which may fail without any other effect.

The targets cover a connection without security, one before SASL, one that waits for a token, and an
authenticated one. Decrypted bytes of TLS do not differ from others.

The daemon keeps its state between inputs, so inputs meet groups and topics of earlier ones. Its files are in
memory. It has no socket: the output of a connection is discarded.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from coordinator.broker.server import Server
from coordinator.broker.server_settings import ServerSettings
from coordinator.network.client_connection import Connection
from coordinator.network.request_routes import AuthenticationCounts
from coordinator.security.core.sasl_mechanisms import ScramMechanism
from coordinator.security.core.security_state import SecurityState
from coordinator.security.server.secured_listener import SecuredListener
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.harness import settings, start
from tests.frames.recording import read
from tests.hostile.fuzz.target import Target
from tests.hostile.siege.attacker import frame
from tests.security.server.sasl_server import PASSWORD, PROPERTIES, credential, plain_token
from tests.storage.faulty_files import FaultyFiles

_TURNS = 3
"""Of the loop, after each input: enough for the disk, which is memory, and for the answers that waited for it."""


class Nowhere(asyncio.Transport):
    """The other end of a connection without a socket."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.1.2.3", 4567), "sockname": ("127.0.0.1", 9092)})
        self.written_bytes = 0
        self.protocol: asyncio.Protocol | None = None
        """Whom it speaks to."""
        self._is_closing = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self.protocol = protocol

    def write(self, data: Any) -> None:
        assert not self._is_closing, "written to after it was closed"
        self.written_bytes += len(data)

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True

    abort = close

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """Do nothing, because there is no peer."""

    def resume_reading(self) -> None:
        """Do nothing, because there is no peer."""


class _Failures(logging.Handler):
    """Keeps the log records with an exception, which no peer should be able to cause."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(f"{record.getMessage()}: {record.exc_info[1]!r}")


PLAIN: Final = "connection"
_BEFORE_SASL: Final = "connection before SASL"
_AT_TOKEN: Final = "connection at a token of SASL"
_AT_SCRAM: Final = "connection at a token of SCRAM"
_AFTER_SASL: Final = "connection after SASL"
_HANDSHAKE: Final = frame(SaslHandshakeRequest(mechanism="PLAIN"), 1)
_TOKEN: Final = frame(SaslAuthenticateRequest(auth_bytes=plain_token()), 2)
_SCRAM: Final = frame(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
_SCRAM_FIRST: Final = frame(SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=abc"), 2)
_FIRST: Final = {
    PLAIN: b"",
    _BEFORE_SASL: b"",
    _AT_TOKEN: _HANDSHAKE,
    _AT_SCRAM: _SCRAM + _SCRAM_FIRST,
    _AFTER_SASL: _HANDSHAKE + _TOKEN,
}
"""By place, what a client says before the frame."""
PLACES: Final = tuple(_FIRST)
_TOKENS: Final = (
    frame(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)[4:],
    *(each[4:] for each in (_HANDSHAKE, _SCRAM, _TOKEN, _SCRAM_FIRST)),
    frame(SaslHandshakeRequest(mechanism="PLAIN"), 0)[4:],
    frame(SaslAuthenticateRequest(auth_bytes=b"c=biws,r=abcnonce,p=" + b"A" * 43 + b"="), 2)[4:],
)


class House:
    """A daemon, and connections to it."""

    def __init__(self, place: str = PLAIN) -> None:
        self._first = _FIRST[place]
        self._loop = asyncio.new_event_loop()
        self._failures = _Failures()
        logging.getLogger().addHandler(self._failures)
        properties = {"auto.create.topics.enable": "false", "max.incremental.fetch.session.cache.slots": "10"}
        if place != PLAIN:
            properties |= PROPERTIES | {
                "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
                "connections.max.reauth.ms": "60000",
            }
        self._loop.set_exception_handler(
            lambda _, context: self._failures.found.append(f"{context.get('exception')!r}")
        )
        how = settings("/data", properties, topics=[("orders", 2)], files=FaultyFiles())
        self._server: Server = self._loop.run_until_complete(start(how))
        self._security = None
        if place != PLAIN:
            self._security = self._loop.run_until_complete(self._secured(how))

    def close(self) -> None:
        """Stops the daemon, which has to be able to."""
        self._loop.run_until_complete(self._server.close())
        self._loop.close()
        logging.getLogger().removeHandler(self._failures)

    def feed(self, data: bytes) -> None:
        """A connection that sends one frame, in two pieces, and goes."""
        self._failures.found.clear()
        connection = self._loop.run_until_complete(self._sent(len(data).to_bytes(4, "big") + data))
        assert not self._failures.found, self._failures.found
        assert connection not in self._server.connections.open
        # What has begun to change something goes on, and keeps the memory of its request until then.
        while len(self._server.request_tasks):
            self._loop.run_until_complete(self._turns())
        assert self._server.connections.memory.reserved_bytes == 0

    async def _sent(self, data: bytes) -> Connection:
        connection, transport = self._connect()
        for part in (self._first, data[: len(data) // 2], data[len(data) // 2 :]):
            if part and not transport.is_closing():
                _protocol(transport).data_received(part)
        await self._turns()
        _protocol(transport).connection_lost(None)
        return connection

    def _connect(self) -> tuple[Connection, Nowhere]:
        make = Connection if self._security is None else self._security.create_connection
        connection = make(self._server.endpoints[0], ("10.1.2.3", 4567))
        assert self._server.connections.admit(connection) is None
        transport = Nowhere()
        transport.set_protocol(
            connection if self._security is None else self._security.create_protocol(connection)
        )
        _protocol(transport).connection_made(transport)
        return connection, transport

    async def _secured(self, how: ServerSettings) -> SecuredListener:
        (listener,) = how.security.values()
        store = self._server.security.store
        alice = ("alice", ScramMechanism.SCRAM_SHA_256)
        await store.change_state(SecurityState(scram={alice: credential(alice[1], PASSWORD)}))
        return SecuredListener(listener, how.files, self._server.security, AuthenticationCounts())

    async def _turns(self) -> None:
        for _ in range(_TURNS):
            await asyncio.sleep(0)


def _protocol(transport: Nowhere) -> asyncio.Protocol:
    assert transport.protocol is not None
    return transport.protocol


@contextmanager
def connection_target(place: str = PLAIN) -> Iterator[Target]:
    """Yield the target of one of `PLACES`. Its daemon runs as long as the context."""
    seeds = list({(one.api.key, one.version): one.request for one in read()}.values())
    if place != PLAIN:
        # All of them are for the place without security; here they are what a client may say at the wrong time.
        seeds = [*seeds[::20], *_TOKENS]
    house = House(place)
    try:
        # The cost of an input depends on the earlier ones, so the bounds only catch runaway growth.
        yield Target(
            place,
            tuple(seeds),
            house.feed,
            (),
            steps_a_byte=20_000,
            bytes_a_byte=40_000,  # what writes an answer of some API is made when it is first needed
        )
    finally:
        house.close()
