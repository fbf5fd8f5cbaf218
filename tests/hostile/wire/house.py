"""The daemon of a play, and the state that it must have after the play."""

import asyncio
from pathlib import Path
from typing import Final

from tests.crash.process import Process
from tests.hostile.wire.play import Play, Played
from tests.soak.probe import metrics

_OPTIONS: Final = (
    *("--profile", "test", "--topic", "orders:3", "--topic", "payments:2"),
    *("-o", "offsets.topic.num.partitions=3"),
)
_GONE_WITHIN_S: Final = 10


async def playing(directory: Path, seed: int, players: int, bursts: int) -> Played:
    """A play from the rise of the daemon to its clean end."""
    log = directory / "log"
    daemon = await Process.start(directory / "data", log, _OPTIONS)
    try:
        await daemon.ready()
        played = await Play(seed, daemon.port).run(players, bursts)
        await _nothing_is_left(daemon)
        daemon.terminate()
        assert await daemon.ended() == 0, daemon.log()
    finally:
        await daemon.kill()
    problems = [line for line in log.read_text().splitlines() if "ERROR" in line or "Traceback" in line]
    unexpected = [line for line in problems if "could not complete rebalance because no members" not in line]
    assert not unexpected, unexpected
    return played


async def _nothing_is_left(daemon: Process) -> None:
    """Wait until the daemon has no connections, waiters and unsent bytes."""
    names = ("connections", "unanswered_requests", "waiters", "answer_bytes", "request_bytes")
    left: dict[str, float] = {}
    try:
        async with asyncio.timeout(_GONE_WITHIN_S):
            while True:
                found = await metrics(daemon.http_port)
                left = {name: value for name in names if (value := found[f"groupd_{name}"])}
                if not left:
                    return
    except TimeoutError:
        raise AssertionError(f"still there: {left}") from None
