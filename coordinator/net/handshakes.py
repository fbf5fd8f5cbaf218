"""TLS handshakes, of all listeners: at most so many at once, however many clients come at the same time.

A handshake costs more than a thousand requests. So that a storm of them keeps nobody waiting for long, only some
begin at a time and the others wait in line. Who has sent nothing is not in line; and who keeps its handshake
waiting soon gives its place to another, as it costs no time meanwhile. It costs memory: while `MOST_BEGUN` are not
over, another begins when one ends, or when the oldest has had `ENDS_AFTER_S`, which then ends.

A client whose handshake fails is told why, as TLS does: event loops close the socket with that unsaid, and a client
that hears nothing takes it for a lost connection and comes again and again.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

from coordinator import clock
from coordinator.net.handshake_failure import (
    PUSHED_OUT,
    SAYS_NO_TLS,
    HandshakeFailure,
    failure_of,
    too_slow,
)
from coordinator.net.memory_trim import MemoryTrim

AT_ONCE: Final = 32
MOST_BEGUN: Final = 500
"""Handshakes that have begun and are not over, of about 250 kB each."""
ENDS_AFTER_S: Final = 1.0
"""How long each of so many has at least."""
_LOOK_S: Final = 0.05
BEGIN_AT_ONCE: Final = 4
"""In one turn of the event loop: what a handshake costs, a signature above all, is due when it begins."""
KEEPS_PLACE_S: Final = 0.1
"""How long a handshake counts as one that is under way."""
LINGER_S: Final = 1.0
"""How long a client that was told why may take to go. What it has sent is read: a socket that is closed with bytes
unread takes back what it has said."""
GOODBYE_S: Final = 5.0
"""How long a client may take to read what is left for it, and to answer that the connection ends; event loops wait
for half a minute."""
_HANDSHAKE: Final = b"\x16"
"""What TLS begins with."""
_READ_BYTES: Final = 4096


class HandshakeFailed(Exception):
    """The connection does not come to be."""


class Handshakes:
    """See the top of this file."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._places = asyncio.Semaphore(AT_ONCE)
        self._begin = asyncio.Semaphore(BEGIN_AT_ONCE)
        self._begun: dict[asyncio.Timeout, int] = {}
        """When each began (monotonic, in milliseconds), from the oldest."""
        self._memory = MemoryTrim(loop)

    async def shake(
        self,
        accepted: socket.socket,
        context: ssl.SSLContext,
        timeout_s: float,
        entrance: Callable[[], asyncio.BaseProtocol],
        failed: Callable[[HandshakeFailure], None],
    ) -> None:
        """Leaves the socket to what `entrance` makes. Raises HandshakeFailed, after telling `failed` why unless the
        client left without a word, and OSError where the system refuses. Whatever comes, cancelling too, the
        socket is then closed."""
        ends_ms = clock.monotonic_ms() + timeout_s * 1000
        ours, is_failed = accepted, False
        place = _Place()
        accepted.setblocking(False)
        try:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._await_tls(accepted)
                    await place.take(self._places)
                    await self._await_room()
            except TimeoutError:
                raise _Failure(too_slow(timeout_s)) from None
            ours = accepted.dup()  # the other one is the event loop's from now on
            left_s = max(0.001, (ends_ms - clock.monotonic_ms()) / 1000)
            await self._shake(accepted, context, left_s, entrance, place)
        except _Failure as failure:
            is_failed = True
            place.give_back()
            if failure.why is not None:
                failed(too_slow(timeout_s) if clock.monotonic_ms() >= ends_ms else failure.why)
            await self._tell(ours, failure.unsaid)
            raise HandshakeFailed from failure
        finally:
            place.give_back()
            ours.close()
            if ours is not accepted and is_failed:
                self._memory.on_handshake_failed()

    async def _await_tls(self, accepted: socket.socket) -> None:
        """Waits for the first byte. Raises _Failure where it is none of TLS."""
        readable = asyncio.Event()
        self._loop.add_reader(accepted, readable.set)
        try:
            await readable.wait()
        finally:
            self._loop.remove_reader(accepted)
        try:
            first = accepted.recv(1, socket.MSG_PEEK)
        except ConnectionError:
            first = b""
        if first != _HANDSHAKE:
            raise _Failure(SAYS_NO_TLS if first else None)

    async def _await_room(self) -> None:
        """Wait until fewer than `MOST_BEGUN` handshakes are under way, or end the oldest one."""
        while len(self._begun) >= MOST_BEGUN:
            oldest, began_ms = next(iter(self._begun.items()))
            left_s = ENDS_AFTER_S - (clock.monotonic_ms() - began_ms) / 1000
            if left_s > 0:
                await asyncio.sleep(min(left_s, _LOOK_S))
            else:
                del self._begun[oldest]
                oldest.reschedule(0)  # at once

    async def _shake(
        self,
        accepted: socket.socket,
        context: ssl.SSLContext,
        timeout_s: float,
        entrance: Callable[[], asyncio.BaseProtocol],
        place: "_Place",
    ) -> None:
        """Raises _Failure."""
        await self._begin.acquire()
        self._loop.call_soon(self._begin.release)
        said = _Said()
        _SAID.set(said)  # for the callbacks of this task, of which the handshake is one
        timer = self._loop.call_later(KEEPS_PLACE_S, place.give_back)
        patience = asyncio.timeout(None)
        try:
            async with patience:
                self._begun[patience] = clock.monotonic_ms()
                await self._loop.connect_accepted_socket(
                    entrance,
                    accepted,
                    ssl=context,
                    ssl_handshake_timeout=timeout_s,
                    ssl_shutdown_timeout=GOODBYE_S,
                )
        except OSError as error:
            why = PUSHED_OUT if patience.expired() else failure_of(error)
            # Its traceback would keep the transport, with its buffers, until the next full collection of garbage.
            raise _Failure(why, said.unsaid) from error.with_traceback(None)
        finally:
            self._begun.pop(patience, None)
            timer.cancel()

    async def _tell(self, ours: socket.socket, unsaid: bytes) -> None:
        """Says what is left to say, and waits for the client to go."""
        with contextlib.suppress(OSError, TimeoutError):
            if unsaid:
                ours.send(unsaid)
            ours.shutdown(socket.SHUT_WR)
            async with asyncio.timeout(LINGER_S):
                while await self._loop.sock_recv(ours, _READ_BYTES):
                    pass


class _Failure(Exception):
    def __init__(self, why: HandshakeFailure | None, unsaid: bytes = b"") -> None:
        super().__init__(why)
        self.why = why
        self.unsaid = unsaid


class _Said:
    """What one handshake has still to say once it has failed."""

    def __init__(self) -> None:
        self.outgoing: ssl.MemoryBIO | None = None
        self.unsaid = b""

    def failed(self) -> None:
        """Takes it, before the event loop throws it away."""
        if self.outgoing is not None:
            self.unsaid = self.outgoing.read()


_SAID: Final[ContextVar[_Said | None]] = ContextVar("_SAID", default=None)


class _ListenerSide(ssl.SSLObject):
    said: _Said | None = None

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            if self.said is not None:
                self.said.failed()
            raise
        self.said = None


class ListenerContext(ssl.SSLContext):
    """A context whose handshakes say why they fail: event loops throw away what is not sent by then."""

    sslobject_class = _ListenerSide

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *how: Any, **more: Any
    ) -> ssl.SSLObject:
        """Begins a handshake, in the context of the task that has asked for it."""
        begun = super().wrap_bio(incoming, outgoing, *how, **more)
        said = _SAID.get()
        if said is not None and isinstance(begun, _ListenerSide):
            begun.said, said.outgoing = said, outgoing
        return begun


class _Place:
    __slots__ = ("_places",)

    def __init__(self) -> None:
        self._places: asyncio.Semaphore | None = None

    async def take(self, places: asyncio.Semaphore) -> None:
        """Waits for one."""
        await places.acquire()
        self._places = places

    def give_back(self) -> None:
        """Once; after that nothing happens."""
        if self._places is not None:
            self._places.release()
            self._places = None
