"""groupd as a process of its own, that a test may kill."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.crash import fork_server
from tests.crash.fork_server import ForkedProcess

READY: Final = re.compile(rb"groupd ready kafka=\S+:(\d+) http=\S+:(\d+) data=.+\n")
START_TIMEOUT_S: Final = 60
END_TIMEOUT_S: Final = 60


class Process:
    """One daemon, from its start to its end. Its log goes to a file that all daemons of a test share."""

    def __init__(self, process: asyncio.subprocess.Process | ForkedProcess, log: Path) -> None:
        self._process = process
        self._log = log
        self.port = 0
        self.http_port = 0

    @classmethod
    async def start(
        cls,
        data_dir: Path,
        log: Path,
        options: Sequence[str] = (),
        *,
        module: str = "coordinator",
        variables: Mapping[str, str] | None = None,
        is_forked: bool = False,
    ) -> "Process":
        """Start the daemon on free ports; it may not be ready on return.

        `module` is the module to run, `variables` are added to its environment. A fork of a process that has
        imported groupd takes a fraction of the CPU time.
        """
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
        environment |= variables or {}
        arguments = (
            *("serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data-dir", str(data_dir)),
            *options,
        )
        process: asyncio.subprocess.Process | ForkedProcess
        with log.open("ab") as stderr:
            if is_forked:
                process = await fork_server.start(module, arguments, environment, stderr)
            else:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", module, *arguments),
                    stdout=asyncio.subprocess.PIPE,
                    stderr=stderr,
                    env=environment,
                )
        return cls(process, log)

    async def ready(self) -> None:
        """Waits for its ready line."""
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), START_TIMEOUT_S)
        found = READY.fullmatch(line)
        assert found is not None, f"no ready line but {line!r}; its log:\n{self.log()}"
        self.port, self.http_port = int(found[1]), int(found[2])

    @property
    def process_id(self) -> int:
        """As the system numbers it."""
        return self._process.pid

    def log(self) -> str:
        """Return the end of the log of this process and its predecessors."""
        return self._log.read_text(errors="replace")[-5000:]

    def terminate(self) -> None:
        """Asks it to stop cleanly."""
        self._process.send_signal(signal.SIGTERM)

    async def kill(self) -> None:
        """Kill the process in the middle of its work. Do nothing if it has ended."""
        if self._process.returncode is None:
            self._process.kill()
        await self.ended()

    async def ended(self) -> int:
        """Waits for its end; the exit code."""
        assert self._process.stdout is not None
        await asyncio.wait_for(self._process.stdout.read(), END_TIMEOUT_S)
        return await asyncio.wait_for(self._process.wait(), END_TIMEOUT_S)
