"""What stands before a connection of a listener with SASL: frames go to an `Exchange` until the client is let in.

A client that is not let in costs little: what is kept of its frames is bounded, for each and for all together; it
has a time to come through; and one that is refused is told after a delay, during which nothing is read.

In an iteration of the event loop the door judges one frame of each client.

Source: Kafka's `SaslServerAuthenticator` and `Selector`.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Final, cast

from coordinator import clock
from coordinator.net.run_queue import RunQueue
from coordinator.server.authentication.exchange import Answered, LetIn, Outcome, TurnedAway, Waiting
from protocol.malformed import Malformed

if TYPE_CHECKING:
    from coordinator.server.authentication.connection import SaslConnection
    from coordinator.server.authentication.sasl import Sasl

_LOG: Final = logging.getLogger("SocketServer")

SIZE_BYTES: Final = 4
MOST_FRAMES: Final = 100
"""Of a client that is not let in yet: it needs half a dozen."""
INVALID_SIZE: Final = "Failing SASL authentication due to invalid receive size"
LAST_WORDS_S: Final = 0.05
"""Between the answer to a client that is refused and the end of its connection: one that finds both at once may
not look at the answer (kafka-python does not)."""
_LINGER_S: Final = 5.0


class SaslDoor(asyncio.Protocol):
    """Of one connection, which is not open before the client is let in."""

    def __init__(self, sasl: "Sasl", connection: "SaslConnection") -> None:
        """In: how clients of this listener authenticate; the time of this one began when it was accepted."""
        self._sasl = sasl
        self._connection = connection
        self._exchange = sasl.exchange(connection)
        self._transport: asyncio.Transport | None = None
        self._kept = bytearray()
        self._kept_bytes = 0
        self._frames = 0
        self._is_over = False
        self._is_in_line = False
        self._wait: asyncio.Task[Outcome] | None = None
        """For what becomes of the client; meanwhile its frames are kept."""
        waited_s = (clock.monotonic_ns() - connection.last_received_ns) / 1e9
        self._timer = sasl.loop.call_later(max(0.0, sasl.timeout_s - waited_s), self._too_late)
        connection.door = self

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is ready to be used."""
        # uvloop's transports are no subclasses of asyncio's, only alike.
        self._transport = cast("asyncio.Transport", transport)
        if self._is_over:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone before it was let in."""
        self._end()
        self._transport = None
        self._connection.door = None
        self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        """A client that does not read what it is answered does not want to be let in."""
        self.abort()

    def data_received(self, data: bytes) -> None:
        """Bytes from the client, any number of them."""
        if self._is_over:
            return
        self._kept += data
        if self._wait is not None and len(self._kept) > self._sasl.max_receive_bytes:
            assert self._transport is not None
            self._transport.pause_reading()
        if self._run_queue.is_iteration_over:
            self._wait_in_line()
        else:
            self._work()

    @property
    def _run_queue(self) -> RunQueue:
        return self._connection.endpoint.run_queue

    def _wait_in_line(self) -> None:
        if not self._is_in_line:
            self._is_in_line = True
            self._run_queue.add(self)

    def go_on(self) -> None:
        """This client is the first in line."""
        self._is_in_line = False
        self._work()

    def _work(self, wait: asyncio.Task[Outcome] | None = None) -> None:
        """Judges the next frame, unless the client waits in line. In: a wait that is over."""
        started_ns = clock.monotonic_ns()
        try:
            if wait is not None:
                self._carry_out(wait.result())
            frame = None if self._is_in_line else self._next_frame()
            if frame is not None:
                self._frames += 1
                if self._frames > MOST_FRAMES:
                    raise Malformed(
                        f"more than {MOST_FRAMES} frames came before the client was authenticated"
                    )
                self._carry_out(self._exchange.receive(frame))
                if self._has_frame:
                    self._wait_in_line()
                self._run_queue.spent(clock.monotonic_ns() - started_ns)
            self._count_kept()
        except Malformed as problem:
            self._sasl.refused(self._connection, str(problem))
            self.abort()
        except Exception as problem:  # noqa: BLE001 - whatever a stranger causes costs this connection only
            self._sasl.failed(self._connection, problem)
            self.abort()

    # Frames

    @property
    def _has_frame(self) -> bool:
        """Whether another frame can be judged."""
        kept = self._kept
        if self._is_over or self._wait is not None or len(kept) < SIZE_BYTES:
            return False
        size = int.from_bytes(kept[:SIZE_BYTES], "big", signed=True)
        return len(kept) >= SIZE_BYTES + size

    def _next_frame(self) -> bytes | None:
        """The next one, without its size, if it is whole."""
        kept = self._kept
        if self._is_over or self._wait is not None or len(kept) < SIZE_BYTES:
            return None
        size = int.from_bytes(kept[:SIZE_BYTES], "big", signed=True)
        if not 0 <= size <= self._sasl.max_receive_bytes:
            self._turn_away(TurnedAway(b"", f"{INVALID_SIZE} ({size} bytes)"))
            return None
        end = SIZE_BYTES + size
        if len(kept) < end:
            return None
        frame = bytes(kept[SIZE_BYTES:end])
        del kept[:end]
        return frame

    def _carry_out(self, outcome: Outcome) -> None:
        match outcome:
            case Answered(frame):
                self._write(frame)
            case LetIn():
                self._let_in(outcome)
            case TurnedAway():
                self._turn_away(outcome)
            case Waiting(wait):
                self._wait = self._sasl.loop.create_task(wait())
                self._wait.add_done_callback(self._has_waited)

    def _has_waited(self, wait: asyncio.Task[Outcome]) -> None:
        self._wait = None
        if not self._is_over and not wait.cancelled() and self._transport is not None:
            self._transport.resume_reading()
            self._work(wait)

    def _let_in(self, outcome: LetIn) -> None:
        early, transport = bytes(self._kept), self._transport
        assert transport is not None
        self._end()
        connection = self._connection
        connection.door = None
        self._sasl.succeeded(connection, outcome.identity.mechanism)
        connection.let_in(outcome)
        self._transport = None
        transport.write(outcome.frame)
        transport.set_protocol(connection)
        connection.connection_made(transport)
        if early:
            connection.data_received(early)

    def _turn_away(self, outcome: TurnedAway) -> None:
        self._end()
        self._sasl.turned_away(self._connection, self._exchange.mechanism, outcome.reason)
        if self._transport is not None:
            self._transport.pause_reading()
        self._timer = self._sasl.loop.call_later(self._sasl.delay_s, self._tell, outcome.frame)

    def _tell(self, frame: bytes) -> None:
        """The client has waited for as long as it has to."""
        transport = self._transport
        if transport is None:
            return
        self._write(frame)
        self._timer = self._sasl.loop.call_later(LAST_WORDS_S if frame else 0, self._close)

    def _close(self) -> None:
        transport = self._transport
        if transport is not None:
            transport.close()
            self._timer = self._sasl.loop.call_later(_LINGER_S, transport.abort)

    def _write(self, frame: bytes) -> None:
        if frame and self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame)

    def _count_kept(self) -> None:
        """What all clients together have sent that is no whole frame yet is bounded as well."""
        if self._is_over:
            return
        self._sasl.kept_bytes += len(self._kept) - self._kept_bytes
        self._kept_bytes = len(self._kept)
        if self._kept_bytes and self._sasl.kept_bytes > self._sasl.most_kept_bytes:
            raise Malformed(
                "clients that are not authenticated have sent too much that is not a whole request"
            )

    # Ending

    def _too_late(self) -> None:
        transport = self._transport
        self._end()
        if transport is None:
            return
        reason = f"it was not authenticated within {self._sasl.timeout_s:g} s (authentication.timeout.ms)"
        self._sasl.turned_away(self._connection, self._exchange.mechanism, reason)
        transport.abort()

    def _end(self) -> None:
        """Nothing is read any more, and the time of the client is over."""
        self._is_over = True
        if self._is_in_line:
            self._is_in_line = False
            self._run_queue.remove(self)
        self._timer.cancel()
        self._sasl.kept_bytes -= self._kept_bytes
        self._kept_bytes = 0
        self._kept = bytearray()
        if self._wait is not None:
            self._wait.cancel()

    def abort(self) -> None:
        """Closes at once."""
        self._end()
        if self._transport is not None:
            self._transport.abort()
