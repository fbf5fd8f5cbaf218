"""groupd in this process, without sockets, threads and clocks.

The server is the real one, with its control plane, and its files are in a temporary directory. The caller
controls everything around it: the event loop runs one iteration at a time, transports are buffers, the work of
threads runs on the loop, and time passes only when the caller says so. Listeners and periodic work are not started.
The same requests therefore execute the same code in every process.
"""

import asyncio
import heapq
import logging
import tempfile
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from contextvars import Context
from functools import partial
from itertools import count
from pathlib import Path
from types import CodeType
from typing import Any, Final, TypeVar, cast
from unittest.mock import patch

from benchmarks.connection import Connection
from coordinator.broker.composition_root import open_server
from coordinator.broker.server import Server
from coordinator.broker.server_settings import ServerSettings
from coordinator.config.listeners import parse_listeners
from coordinator.config.properties import parse_config
from coordinator.control.lazy_control import LazyControlPlane
from coordinator.core import clock
from coordinator.core.daemon_log import start_log
from coordinator.network.client_connection import Connection as ServerConnection
from coordinator.network.endpoint import Endpoint
from coordinator.network.request_routes import Routes
from coordinator.runtime.flusher import Flusher
from coordinator.runtime.worker_threads import WorkerThreads
from protocol.apis import APIS
from storage.syncer import JobRunner, Syncer, SyncJob

T = TypeVar("T")

START_NS: Final = 1_000_000_000_000
"""The monotonic clock when a server is started, in nanoseconds."""
EPOCH_NS: Final = 1_700_000_000_000_000_000
"""Unix time at monotonic time 0, in nanoseconds."""
MS: Final = 1_000_000
_LISTENER: Final = "PLAINTEXT://127.0.0.1:9092"
_NATIVE_FILES: Final = frozenset({asyncio.events.__file__})
_NATIVE_FOLDER: Final = str(Path(__file__).parent)


def is_native(code: CodeType) -> bool:
    """Whether a function stands for code that is not Python in a daemon: the event loop and its handles (uvloop),
    clocks, transports. In `ExecutionCounter` its calls are C calls."""
    return code.co_filename in _NATIVE_FILES or code.co_filename.startswith(_NATIVE_FOLDER)


class ManualClock:
    """Stands in for the module `time` in `coordinator.core.clock`. Time stands still until `now_ns` is changed."""

    CLOCK_BOOTTIME: Final = time.CLOCK_BOOTTIME

    def __init__(self) -> None:
        self.now_ns = START_NS

    def monotonic_ns(self) -> int:
        return self.now_ns

    def time_ns(self) -> int:
        return EPOCH_NS + self.now_ns

    def thread_time_ns(self) -> int:
        return self.now_ns

    def clock_gettime_ns(self, _: int) -> int:
        return self.now_ns


class ManualLoop:
    """An event loop under the control of the caller, which runs its iterations and lets its time pass.

    It has the methods of `asyncio.AbstractEventLoop` that groupd calls without sockets.
    """

    def __init__(self, manual_clock: ManualClock) -> None:
        self._clock = manual_clock
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._next_number = count().__next__
        self._failures: list[BaseException] = []
        self._readers: dict[object, Callable[[], object]] = {}
        self.asyncio_loop = cast("asyncio.AbstractEventLoop", self)
        """This loop, as asyncio's functions and groupd take it."""

    # The interface of asyncio

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self.asyncio_loop, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self.asyncio_loop, context)
        heapq.heappush(self._timers, (when, self._next_number(), handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """A cancelled timer stays in the heap until its time has come."""

    def time(self) -> float:
        return self._clock.now_ns / 1e9

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self.asyncio_loop)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self.asyncio_loop, **options)

    def run_in_executor(self, _: Executor | None, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """Run the function at once."""
        return asyncio.wrap_future(InlineExecutor().submit(func, *args), loop=self.asyncio_loop)

    def add_reader(self, readable: object, callback: Callable[[], object]) -> None:
        """Keeps the callback for `call_reader`."""
        self._readers[readable] = callback

    def remove_reader(self, readable: object) -> bool:
        return self._readers.pop(readable, None) is not None

    async def connect_accepted_socket(
        self, protocol_factory: Callable[[], asyncio.Protocol], sock: "AcceptedSocket", **_: object
    ) -> tuple["BufferTransport", asyncio.Protocol]:
        """Let a protocol of the server read what `sock` is given."""
        sock.protocol = protocol_factory()
        sock.protocol.connection_made(sock.transport)
        return sock.transport, sock.protocol

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return asyncio._get_running_loop() is self.asyncio_loop

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keeps an exception for `run_until_idle`."""
        self._failures.append(context.get("exception") or RuntimeError(context["message"]))

    # Its control

    def run(self, call: Callable[[], T]) -> T:
        """Call a function as if it ran in an iteration of this loop. Return its result."""
        asyncio._set_running_loop(self.asyncio_loop)
        try:
            return call()
        finally:
            asyncio._set_running_loop(None)

    def call_reader(self, readable: object) -> None:
        """Call the callback of a socket, as an event loop does when there is something to read or accept."""
        self.call_soon(self._readers[readable])

    def run_until_idle(self) -> None:
        """Run iterations until no callback is left that is due. Raises the first exception of a callback."""
        while self._ready:
            self.run(self._run_iteration)
        if self._failures:
            raise self._failures[0]

    def _run_iteration(self) -> None:
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            if not handle.cancelled():
                handle._run()

    def advance(self, duration_ms: int) -> None:
        """Let time pass. Run every timer at its time, and then until the loop is idle."""
        end_ns = self._clock.now_ns + duration_ms * MS
        while self._timers and self._timers[0][0] * 1e9 <= end_ns:
            when, _, handle = heapq.heappop(self._timers)
            if not handle.cancelled():
                self._clock.now_ns = max(self._clock.now_ns, round(when * 1e9))
                self._ready.append(handle)
                self.run_until_idle()
        self._clock.now_ns = end_ns
        self.run_until_idle()


class InlineExecutor(Executor):
    """Runs work when it is submitted, in the calling thread."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - the future carries it to the caller
            future.set_exception(error)
        return future


class _LoopWorker:
    """A `Worker` of the syncer without a thread: each job runs in the next iteration of the loop."""

    def __init__(self, loop: ManualLoop, run: JobRunner) -> None:
        self._loop = loop
        self._run = run

    def enqueue(self, job: SyncJob) -> None:
        self._loop.call_soon(self._run_job, job)

    def _run_job(self, job: SyncJob) -> None:
        self._run([job])
        job.finish_part()

    def close(self) -> None:
        self._loop.run_until_idle()


class _LoopThreads:
    """`WorkerThreads` without threads."""

    def __init__(self, loop: ManualLoop) -> None:
        self.flusher = Flusher(loop.asyncio_loop, Syncer(lambda _, run: _LoopWorker(loop, run)))
        self.opener = self.batch_executor = InlineExecutor()

    def close(self) -> None:
        self.flusher.close()


class _LogSink:
    """The log's stream. It keeps errors: a measurement with one is void."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def write(self, text: str) -> None:
        if "] ERROR [" in text:
            self.errors.append(text)

    def flush(self) -> None:
        """Nothing is buffered."""


class BufferTransport(asyncio.Transport):
    """The server's end of a connection. What the server writes stays in a buffer until it is taken."""

    def __init__(self) -> None:
        super().__init__()
        self._received = bytearray()
        self._is_closing = False

    def take_received(self) -> bytes:
        """Return the bytes that the server wrote since the last call."""
        received, self._received = bytes(self._received), bytearray()
        return received

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 9092) if name == "sockname" else default

    def write(self, data: Any) -> None:
        self._received += data

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        """The caller delivers everything whole."""

    def resume_reading(self) -> None:
        """Reading never stops."""

    def close(self) -> None:
        self._is_closing = True

    def abort(self) -> None:
        self._is_closing = True


class AcceptedSocket:
    """The server's end of a connection between the time when a listener accepts it and when a protocol reads it."""

    protocol: asyncio.Protocol

    def __init__(self) -> None:
        self.transport = BufferTransport()

    def close(self) -> None:
        """The server refuses the connection."""
        self.transport.close()


class InProcessClient(Connection):
    """A client's connection to an `InProcessServer`. Its coroutines never wait: see `complete`."""

    def __init__(self, server: "InProcessServer", number: int) -> None:
        super().__init__()
        self._server = server
        self.accepted = ServerConnection(server.endpoint, ("127.0.0.1", 40_000 + number))
        refusal = server.server.connections.admit(self.accepted)
        assert refusal is None, refusal
        self.buffer = BufferTransport()
        self.transport = self.buffer
        self.accepted.connection_made(self.buffer)

    async def exchange(self, frame: bytes) -> bytes:
        """Send a frame and return the frame that answers it, sizes included."""
        return self._server.exchange([(self, frame)])[0]


class InProcessServer:
    """A running server. Make one with `start_server`."""

    def __init__(
        self,
        server: Server,
        control: LazyControlPlane | None,
        loop: ManualLoop,
        manual_clock: ManualClock,
        endpoint: Endpoint,
    ) -> None:
        self.server = server
        self.control = control
        """None where the server was started without a control plane."""
        self.endpoint = endpoint
        self.loop = loop
        self._clock = manual_clock

    def exchange(self, requests: Sequence[tuple[InProcessClient, bytes]], passing_ms: int = 0) -> list[bytes]:
        """Deliver requests in one iteration of the event loop, run it until it is idle, and return the responses.

        Args:
            requests: at most one request of each client, with its size.
            passing_ms: milliseconds that pass afterwards.

        Raises:
            RuntimeError: a response is missing.
        """
        self.deliver(requests)
        if passing_ms:
            self.loop.advance(passing_ms)
        answers = [client.buffer.take_received() for client, _ in requests]
        for answer in answers:
            if len(answer) < 4 or len(answer) != 4 + int.from_bytes(answer[:4], "big"):
                raise RuntimeError(f"a request has no answer, or several: {answer.hex()}")
        return answers

    def deliver(self, requests: Sequence[tuple[InProcessClient, bytes]]) -> None:
        """Deliver requests as `exchange` does, and leave the answers, if there are any, in the clients' buffers."""

        def deliver_all() -> None:
            for client, frame in requests:
                client.accepted.data_received(frame)

        self._clock.now_ns += MS
        self.loop.call_soon(deliver_all)
        self.loop.run_until_idle()

    def switch_off_repeat_cache(self) -> None:
        """Decode and handle every request, also one that a connection sends again
        (`coordinator/network/repeated_requests.py`)."""
        handlers = {key: self.endpoint.routes.get_handler(key) for key in APIS}
        self.endpoint.routes = Routes(handlers, {}, lambda _: b"")


def complete(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nothing but an `InProcessClient`. Return its result."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return cast("T", stop.value)
    raise RuntimeError("the coroutine waits for something else")


@contextmanager
def start_server(
    properties: Mapping[str, str], topics: Sequence[tuple[str, int]], *, has_control_plane: bool = True
) -> Iterator[InProcessServer]:
    """Start a server and load its groups; abandon it at the end.

    Args:
        properties: properties of the broker.
        topics: topics with their numbers of partitions.
        has_control_plane: whether the control plane observes the groups, as in a daemon.

    Raises:
        RuntimeError: the server has logged an error.
    """
    config = parse_config({"listeners": _LISTENER, **properties})
    (listener,), _ = parse_listeners(config)
    manual_clock, sink = ManualClock(), _LogSink()
    start_log()
    (handler,) = logging.getLogger().handlers
    assert isinstance(handler, logging.StreamHandler)
    handler.setStream(sink)
    with (
        tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory,
        patch.multiple(
            clock,
            time=manual_clock,
            monotonic_ns=manual_clock.monotonic_ns,
            thread_time_ns=manual_clock.thread_time_ns,
        ),
    ):
        settings = ServerSettings(config, [listener], directory, list(topics), dict(properties))
        loop = ManualLoop(manual_clock)
        threads = cast("WorkerThreads", _LoopThreads(loop))
        server = loop.run(lambda: open_server(settings, threads=threads))
        control = loop.run(lambda: LazyControlPlane(server)) if has_control_plane else None
        try:
            endpoint = _begin_serving(server, loop)
            loop.run_until_idle()
            assert server.ready.is_set(), "the groups are not loaded"
            yield InProcessServer(server, control, loop, manual_clock, endpoint)
        finally:
            if control is not None:
                loop.run(control.close)
            loop.run(server.abandon)
    if sink.errors:
        raise RuntimeError(f"the server logged errors: {sink.errors[0]}")


def _begin_serving(server: Server, loop: ManualLoop) -> Endpoint:
    """Load the groups as `Server.listen` does, without its listeners and periodic work. Return an endpoint."""
    (listener,) = server.settings.listeners
    endpoint = Endpoint(
        listener,
        server.connections,
        server.write_batcher,
        server.run_queue,
        server.arrival,
        server.settings.config.node_id,
        server.routes,
    )
    endpoint.set_port(listener.address.port)
    for partition in server.runtime.partitions:
        loop.run(partial(server.runtime.lifecycle.open_partition, partition, epoch=0))
    return endpoint
