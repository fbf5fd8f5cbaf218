"""A link between two processes that a test can cut, one direction at a time, or slow down.

A cut link stays open, as behind a firewall that drops packets: each side waits. Its data arrives when the link is
restored.
"""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any, Final

_AT_ONCE_BYTES: Final = 1 << 16


class Link:
    """Forwards a local port to another one, in both directions, in its own thread."""

    def __init__(self, port: int) -> None:
        """Create a link to the local port `port`."""
        self._to = port
        self._delay_s = 0.0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._passes = {True: asyncio.Event(), False: asyncio.Event()}
        self._server = self._do(self._listen())
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.mend()

    def cut(self, *, requests: bool = True, answers: bool = True) -> None:
        """From now on nothing passes in these directions."""
        for direction, is_cut in ((True, requests), (False, answers)):
            if is_cut:
                self._loop.call_soon_threadsafe(self._passes[direction].clear)

    def slow(self, delay_s: float) -> None:
        """From now on delay all bytes by this time, in each direction."""
        self._delay_s = delay_s

    def mend(self) -> None:
        """Restore both directions; waiting data passes first."""
        self._delay_s = 0.0
        for passes in self._passes.values():
            self._loop.call_soon_threadsafe(passes.set)

    def close(self) -> None:
        """Closes all connections."""
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, what: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(60)

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def _end(self) -> None:
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError), contextlib.closing(writer):
            there, back = await asyncio.open_connection("127.0.0.1", self._to)
            with contextlib.closing(back):
                ways = (self._pass_on(reader, back, True), self._pass_on(there, writer, False))
                tasks = [asyncio.ensure_future(way) for way in ways]
                try:
                    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for task in tasks:
                        task.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_request: bool
    ) -> None:
        while data := await reader.read(_AT_ONCE_BYTES):
            if self._delay_s:
                await asyncio.sleep(self._delay_s)
            await self._passes[is_request].wait()
            writer.write(data)
            await writer.drain()
