"""The lower bound: a uvloop server that only echoes its input."""

import asyncio
import signal
from typing import cast

import uvloop


class Echo(asyncio.Protocol):
    """Echoes every read with one write."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = cast("asyncio.Transport", transport).write

    def data_received(self, data: bytes) -> None:
        self._write(data)


async def main() -> None:
    """Serve until SIGTERM."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    server = await loop.create_server(Echo, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    print(f"{host}:{port}", flush=True)
    await stopped.wait()


if __name__ == "__main__":
    uvloop.run(main())
