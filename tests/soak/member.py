"""`python -m tests.soak.member CLIENT BOOTSTRAP GROUP PATTERN NAME [INSTANCE]`: one member of a group.

It consumes and commits its position about twice a second until the end of its standard input; then it leaves. On
standard output it prints one line per event, with the time in nanoseconds of the clock shared by all processes:

    asked TIME TOKEN [[topic, partition, offset], …]     a commit is about to be sent
    kept TIME TOKEN                                      it was acknowledged
    failed TIME TOKEN REASON                             it was rejected, or its outcome is unknown
"""

import asyncio
import json
import logging
import sys
import threading
import time
from typing import Final

from tests.soak.clients import make
from tests.soak.clients.client import Client, Partition, Refused, Settings

_COMMIT_EVERY_S: Final = 0.5


def _say(what: str, token: str, rest: str = "") -> None:
    print(what, time.monotonic_ns(), token, rest, flush=True)


class _Member:
    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._name = name
        self._consumed: dict[Partition, int] = {}
        self._commits = 0

    async def live(self, is_over: threading.Event) -> None:
        """Consumes and commits until it is over, then leaves."""
        committed_s = 0.0
        while not is_over.is_set():
            self._consumed.update(await self._client.poll())
            if self._consumed and time.monotonic() - committed_s > _COMMIT_EVERY_S:
                await self._commit()
                committed_s = time.monotonic()
        await self._client.close()

    async def _commit(self) -> None:
        offsets, self._consumed = self._consumed, {}
        self._commits += 1
        token = f"{self._name}.{self._commits}"
        _say("asked", token, json.dumps([(*place, offset) for place, offset in offsets.items()]))
        try:
            await self._client.commit(offsets, token)
        except Refused as refused:
            _say("failed", token, " ".join(str(refused).split()))
        else:
            _say("kept", token)


async def _main() -> None:
    kind, bootstrap, group, pattern, name, *instance = sys.argv[1:]
    is_over = threading.Event()

    def watch() -> None:
        sys.stdin.read()
        is_over.set()

    threading.Thread(target=watch, daemon=True).start()
    settings = Settings(bootstrap, group, pattern, instance[0] if instance else None)
    await _Member(make(kind, settings), name).live(is_over)


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    asyncio.run(_main())
