"""TLS handshakes of all listeners: limits their number, explains failures, and returns memory to the
operating system after many of them.

A handshake costs more than a thousand requests, so only a few run at a time and the others wait in line. A
client that has sent nothing is not in line yet. A client that delays its handshake soon gives up its place,
since it uses no CPU meanwhile, but keeps its memory. At `MAX_STARTED` unfinished handshakes the next one
starts when another ends, or when the oldest has lasted `MIN_DURATION_S` and is aborted for it.
A failed handshake sends a TLS alert. Event loops close the socket without it, and a client without an alert
assumes a lost connection and reconnects again and again. A failure has a text for the log and a kind for
metrics.
A handshake takes a few hundred kilobytes. After thousands of them glibc's malloc keeps the freed memory,
since used pieces lie in between. `malloc_trim` returns the free pages. It is called in a thread, once for
many failed handshakes, and only where the C library has it.
Source: OpenSSL's `sslerr.h` and `x509_vfy.h`; RFC 8446, section 6; malloc_trim(3).
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

from coordinator.core import clock

HANDSHAKE_FAILURE_KINDS: Final = (
    *("plaintext", "left", "no-certificate", "certificate", "principal", "version", "cipher", "not-trusted"),
    *("timeout", "other"),
)


class HandshakeFailure(NamedTuple):
    """The kind of a failure, which is one of the constants above and a metric label, and its text for the log."""

    kind: str
    reason: str


NOT_TLS: Final = HandshakeFailure(
    "plaintext", "it does not use TLS: perhaps a client with security.protocol=PLAINTEXT"
)
EVICTED: Final = HandshakeFailure("timeout", "too many later handshakes began before it was complete")
DISCONNECTED: Final = HandshakeFailure("left", "it disconnected before the handshake was complete")
_NO_CERTIFICATE: Final = HandshakeFailure(
    "no-certificate", "it sent no certificate, but ssl.client.auth=required"
)
_NO_VERSION: Final = HandshakeFailure(
    "version", "it supports no enabled version of TLS (ssl.enabled.protocols)"
)
_NO_CIPHER: Final = HandshakeFailure(
    "cipher", "it has no cipher suite in common with this listener (ssl.cipher.suites)"
)
_NOT_TRUSTED: Final = HandshakeFailure(
    "not-trusted", "it does not trust the certificate of this listener (ssl.keystore)"
)
_BY_REASON: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": _NO_CERTIFICATE,
    "UNSUPPORTED_PROTOCOL": _NO_VERSION,
    "VERSION_TOO_LOW": _NO_VERSION,
    "TLSV1_ALERT_PROTOCOL_VERSION": _NO_VERSION,
    "INAPPROPRIATE_FALLBACK": _NO_VERSION,
    "NO_SHARED_CIPHER": _NO_CIPHER,
    "SSLV3_ALERT_HANDSHAKE_FAILURE": _NO_CIPHER,
    "TLSV1_ALERT_UNKNOWN_CA": _NOT_TRUSTED,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _NOT_TRUSTED,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": _NOT_TRUSTED,
    "SSLV3_ALERT_BAD_CERTIFICATE": _NOT_TRUSTED,
    "HTTP_REQUEST": NOT_TLS,
    "WRONG_VERSION_NUMBER": NOT_TLS,
    "UNEXPECTED_EOF_WHILE_READING": DISCONNECTED,
}


def classify_failure(error: OSError) -> HandshakeFailure:
    """Return the kind and the text of a handshake failure from its error."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return HandshakeFailure(
            "certificate", f"its certificate is not trusted by ssl.truststore: {error.verify_message}"
        )
    if isinstance(error, ssl.SSLError):
        reason = error.reason or "UNKNOWN"
        found = _BY_REASON.get(reason)
        return found or HandshakeFailure("other", reason.replace("_", " ").lower())
    return DISCONNECTED


def create_timeout_failure(timeout_s: float) -> HandshakeFailure:
    """Return the failure of a handshake that exceeded its time in seconds."""
    return HandshakeFailure("timeout", f"it took longer than {timeout_s:g} s (authentication.timeout.ms)")


MAX_CONCURRENT: Final = 32
MAX_STARTED: Final = 500
"""The maximum number of unfinished handshakes. Each takes about 250 kB."""
MIN_DURATION_S: Final = 1.0
"""The time that each handshake has at least, even when `MAX_STARTED` are unfinished, in seconds."""
_POLL_INTERVAL_S: Final = 0.05
MAX_STARTS_PER_ITERATION: Final = 4
"""The maximum number of handshakes that begin in one iteration of the event loop, because the beginning is the
expensive part (the signature)."""
PERMIT_DURATION_S: Final = 0.1
"""The time for which a handshake counts as running, seconds."""
LINGER_S: Final = 1.0
"""The time for which a refused client may keep the socket open, seconds. groupd reads its bytes meanwhile: a
socket that closes with unread bytes would discard the alert."""
SHUTDOWN_TIMEOUT_S: Final = 5.0
"""The time in which a client must read the last bytes and confirm the end of TLS, seconds. The default of
event loops is 30 s."""
_HANDSHAKE: Final = b"\x16"
"""The first byte of a TLS handshake."""
_READ_BYTES: Final = 4096


class HandshakeFailedError(Exception):
    """A connection could not complete its TLS handshake."""


class TlsHandshakes:
    """The TLS handshakes of a server. All methods belong to the event loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._permits = asyncio.Semaphore(MAX_CONCURRENT)
        self._starts = asyncio.Semaphore(MAX_STARTS_PER_ITERATION)
        self._started: dict[asyncio.Timeout, int] = {}
        """The start time of each unfinished handshake in monotonic milliseconds, the oldest first."""
        self._memory = MemoryTrim(loop)

    async def perform_handshake(
        self,
        accepted: socket.socket,
        context: ssl.SSLContext,
        timeout_s: float,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        on_failed: Callable[[HandshakeFailure], None],
    ) -> None:
        """Perform the handshake of an accepted socket, and connect it to the protocol of `protocol_factory`.

        The socket is closed after any error, also after a cancellation. `timeout_s` is in seconds. Raises
        HandshakeFailedError after calling `on_failed` with the reason, which is not called if the client closed
        the connection without sending anything. Raises OSError if the system refuses a call.
        """
        ends_ms = clock.monotonic_ms() + timeout_s * 1000
        ours, is_failed = accepted, False
        permit = _HandshakePermit()
        accepted.setblocking(False)
        try:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._wait_for_tls(accepted)
                    await permit.acquire(self._permits)
                    await self._wait_for_capacity()
            except TimeoutError:
                raise _HandshakeError(create_timeout_failure(timeout_s)) from None
            ours = accepted.dup()  # the event loop owns the other one from now on
            left_s = max(0.001, (ends_ms - clock.monotonic_ms()) / 1000)
            await self._run_handshake(accepted, context, left_s, protocol_factory, permit)
        except _HandshakeError as failure:
            is_failed = True
            permit.release()
            if failure.failure is not None:
                on_failed(
                    create_timeout_failure(timeout_s) if clock.monotonic_ms() >= ends_ms else failure.failure
                )
            await self._send_alert(ours, failure.alert)
            raise HandshakeFailedError from failure
        finally:
            permit.release()
            ours.close()
            if ours is not accepted and is_failed:
                self._memory.on_handshake_failed()

    async def _wait_for_tls(self, accepted: socket.socket) -> None:
        """Wait for the first byte. Raises _HandshakeError if it does not begin TLS."""
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
            raise _HandshakeError(NOT_TLS if first else None)

    async def _wait_for_capacity(self) -> None:
        """Wait until fewer than `MAX_STARTED` handshakes are under way, or end the oldest one."""
        while len(self._started) >= MAX_STARTED:
            oldest, began_ms = next(iter(self._started.items()))
            left_s = MIN_DURATION_S - (clock.monotonic_ms() - began_ms) / 1000
            if left_s > 0:
                await asyncio.sleep(min(left_s, _POLL_INTERVAL_S))
            else:
                del self._started[oldest]
                oldest.reschedule(0)  # expires it at once

    async def _run_handshake(
        self,
        accepted: socket.socket,
        context: ssl.SSLContext,
        timeout_s: float,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        permit: "_HandshakePermit",
    ) -> None:
        """Run the TLS handshake on the event loop. Raises _HandshakeError."""
        await self._starts.acquire()
        self._loop.call_soon(self._starts.release)
        unsent = _UnsentAlert()
        _UNSENT_ALERT.set(unsent)  # for the callbacks of this task, which include the handshake
        timer = self._loop.call_later(PERMIT_DURATION_S, permit.release)
        limit = asyncio.timeout(None)
        try:
            async with limit:
                self._started[limit] = clock.monotonic_ms()
                await self._loop.connect_accepted_socket(
                    protocol_factory,
                    accepted,
                    ssl=context,
                    ssl_handshake_timeout=timeout_s,
                    ssl_shutdown_timeout=SHUTDOWN_TIMEOUT_S,
                )
        except OSError as error:
            failure = EVICTED if limit.expired() else classify_failure(error)
            # The traceback would keep the transport with its buffers until the next full garbage collection.
            raise _HandshakeError(failure, unsent.alert) from error.with_traceback(None)
        finally:
            self._started.pop(limit, None)
            timer.cancel()

    async def _send_alert(self, ours: socket.socket, alert: bytes) -> None:
        """Send the alert and wait until the client closes the connection."""
        with contextlib.suppress(OSError, TimeoutError):
            if alert:
                ours.send(alert)
            ours.shutdown(socket.SHUT_WR)
            async with asyncio.timeout(LINGER_S):
                while await self._loop.sock_recv(ours, _READ_BYTES):
                    pass


class _HandshakeError(Exception):
    def __init__(self, failure: HandshakeFailure | None, alert: bytes = b"") -> None:
        super().__init__(failure)
        self.failure = failure
        self.alert = alert


class _UnsentAlert:
    """The unsent alert of a failed handshake."""

    def __init__(self) -> None:
        self.outgoing: ssl.MemoryBIO | None = None
        self.alert = b""

    def capture_alert(self) -> None:
        """Save the alert before the event loop discards it."""
        if self.outgoing is not None:
            self.alert = self.outgoing.read()


_UNSENT_ALERT: Final[ContextVar[_UnsentAlert | None]] = ContextVar("_UNSENT_ALERT", default=None)


class _ServerSideObject(ssl.SSLObject):
    unsent_alert: _UnsentAlert | None = None

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            if self.unsent_alert is not None:
                self.unsent_alert.capture_alert()
            raise
        self.unsent_alert = None


class AlertingServerContext(ssl.SSLContext):
    """A TLS context that sends the alert of a failed handshake. Event loops discard unsent bytes at a failure."""

    sslobject_class = _ServerSideObject

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *arguments: Any, **options: Any
    ) -> ssl.SSLObject:
        """Create the TLS object of a handshake and attach it to the context of the calling task."""
        handshake = super().wrap_bio(incoming, outgoing, *arguments, **options)
        unsent = _UNSENT_ALERT.get()
        if unsent is not None and isinstance(handshake, _ServerSideObject):
            handshake.unsent_alert, unsent.outgoing = unsent, outgoing
        return handshake


class _HandshakePermit:
    __slots__ = ("_permits",)

    def __init__(self) -> None:
        self._permits: asyncio.Semaphore | None = None

    async def acquire(self, permits: asyncio.Semaphore) -> None:
        """Wait for a permit."""
        await permits.acquire()
        self._permits = permits

    def release(self) -> None:
        """Release the permit. Further calls do nothing."""
        if self._permits is not None:
            self._permits.release()
            self._permits = None


HANDSHAKES_PER_TRIM: Final = 100
"""The number of failed handshakes for one call. Fewer leave too little free memory behind."""
TRIM_DELAY_S: Final = 2.0
"""The delay in seconds after the last handshake and between two calls. Closed connections linger for a second."""


class MemoryTrim:
    """Counts failed handshakes, and returns free memory to the system. All methods belong to the event loop's
    thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._handshakes = 0
        self._is_due = False

    def on_handshake_failed(self) -> None:
        """Count a failed handshake, after its connection was closed."""
        self._handshakes += 1
        if self._handshakes >= HANDSHAKES_PER_TRIM and not self._is_due:
            self._is_due = True
            self._loop.call_later(TRIM_DELAY_S, self._trim)

    def _trim(self) -> None:
        self._is_due = False
        self._handshakes = 0
        trim = find_malloc_trim()
        if trim is not None:
            self._loop.run_in_executor(None, trim, 0)


def find_malloc_trim() -> Callable[[int], object] | None:
    """Return glibc's `malloc_trim`; None for another C library."""
    # Only a daemon with many failed handshakes needs ctypes.
    import ctypes

    found: Callable[[int], object] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return found
