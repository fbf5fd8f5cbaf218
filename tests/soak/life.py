"""One member from start to end, as a process; it reports to the promises."""

import asyncio
import json
import os
import signal
import sys
import time
from typing import IO, Final

from tests.soak.promises import Promises

GOODBYE_S: Final = 40
"""How long a client may take to leave: it may be waiting for a rebalance."""


class Life:
    """A member that was started. `name` is its own, never used again."""

    def __init__(
        self, process: asyncio.subprocess.Process, name: str, group: str, promises: Promises
    ) -> None:
        self.name = name
        self._process = process
        self._group = group
        self._promises = promises
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def begin(
        cls,
        kind: str,
        bootstrap: str,
        group: str,
        pattern: str,
        name: str,
        instance_id: str | None,
        promises: Promises,
        log: IO[bytes],
    ) -> "Life":
        """Starts a member; see `tests.soak.member`."""
        words = [kind, bootstrap, group, pattern, name, *([] if instance_id is None else [instance_id])]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tests.soak.member", *words),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            limit=1024 * 1024,
        )
        return cls(process, name, group, promises)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            if not line.endswith(b"\n"):
                break  # killed while it said something
            what, at, token, *rest = line.decode().split(maxsplit=3)
            if what == "asked":
                offsets = {(self._group, topic, part): offset for topic, part, offset in json.loads(rest[0])}
                self._promises.asked(int(at), token, offsets)
            elif what == "kept":
                self._promises.was_kept(int(at), token)
            else:
                assert what == "failed", line
                self._promises.has_failed(int(at), token)

    @property
    def has_ended(self) -> bool:
        """Whether it ended by itself, which it should not."""
        return self._process.returncode is not None

    async def leave(self) -> None:
        """The clean way. Raises AssertionError where the client fails at it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            code = await asyncio.wait_for(self._process.wait(), GOODBYE_S)
        finally:
            await self._end()
        assert code == 0, f"{self.name} ended with {code}"

    async def kill(self) -> None:
        """Send SIGKILL in the middle of its work; do nothing if it has ended."""
        await self._end()

    async def sleep(self, seconds: float) -> None:
        """It does nothing for a while, and its heart does not beat; it does not know."""
        os.kill(self._process.pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            os.kill(self._process.pid, signal.SIGCONT)

    async def _end(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await self._reading
        self._promises.has_died(time.monotonic_ns(), self.name)
