"""A server in a thread of this process, for tests with blocking clients."""

import asyncio
import signal
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import MappingProxyType

from coordinator.broker.server_settings import ServerSettings
from tests.broker.harness import settings, start

TIMEOUT_S = 60


class ServerThread:
    """Serves a data directory, with `Daemon`'s methods and a tenth of its CPU time.

    Where the process itself, its command line or its output is the subject, use `tests.interop.daemon.Daemon`.
    """

    def __init__(
        self,
        data_directory: str,
        properties: Mapping[str, str] = MappingProxyType({}),
        topics: Sequence[tuple[str, int]] = (),
    ) -> None:
        """Start the server with properties besides the test profile's, create topics, and wait until it
        is ready.
        """
        self.data_directory = data_directory
        self._properties = {"offsets.topic.num.partitions": "50", **properties}
        self._topics = topics
        self.bootstrap = "127.0.0.1:0"
        self._start()

    def _start(self) -> None:
        properties = {**self._properties, "listeners": f"PLAINTEXT://{self.bootstrap}"}
        how = settings(self.data_directory, properties, topics=self._topics)
        self._executor = ThreadPoolExecutor(1, "test server")
        started: Future[int] = Future()
        self._ended = self._executor.submit(asyncio.run, self._serve(how, started))
        port = started.result(TIMEOUT_S)
        self.bootstrap = f"127.0.0.1:{port}"

    async def _serve(self, how: ServerSettings, started: "Future[int]") -> None:
        """Serves until `_end`."""
        self._loop = asyncio.get_running_loop()
        self._signal: asyncio.Future[signal.Signals] = self._loop.create_future()
        try:
            server = await start(how)
        except BaseException as error:
            started.set_exception(error)
            raise
        started.set_result(server.endpoints[0].port)
        if await self._signal == signal.SIGKILL:
            server.abandon()
        else:
            await server.close()

    def _end(self, how: signal.Signals) -> None:
        self._loop.call_soon_threadsafe(self._signal.set_result, how)
        self._ended.result(TIMEOUT_S)
        self._executor.shutdown()

    def stop(self) -> None:
        """Ends it cleanly."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it without another write, as SIGKILL ends a process."""
        self._end(signal.SIGKILL)

    def restart(self, how: signal.Signals) -> None:
        """Stops or kills it, and starts it again with the same port and data directory."""
        self._end(how)
        self._start()
