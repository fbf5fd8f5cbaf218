"""The faults of `test_faults.py`, again and again: python -m tests.cluster.etcd.rounds --rounds 50

Ends with 1 as soon as something acknowledged is lost, or something stale was answered; says what was longest.
"""

import argparse
import asyncio
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.cluster.etcd.conftest import CLUSTER_ID, SESSION_MS, Groupds
from tests.cluster.etcd.history import History
from tests.cluster.etcd.nodes import EtcdNodes

Fault = Callable[[Groupds, History], Awaitable[None]]


async def kill(groupds: Groupds, history: History) -> None:
    """The owner, which is started again."""
    owner = await history.owner()
    groupds.kill(owner)
    await history.until_more()
    groupds.start(owner)


async def pause(groupds: Groupds, history: History) -> None:
    """The owner, past its session."""
    owner = await history.owner()
    groupds.signal(owner, signal.SIGSTOP)
    await asyncio.sleep(2 * SESSION_MS / 1000)
    groupds.signal(owner, signal.SIGCONT)
    await history.until_more()


async def leader(groupds: Groupds, history: History) -> None:
    """Of etcd: killed."""
    number = groupds.etcd.leader()
    groupds.etcd.kill(number)
    await history.until_more()
    groupds.etcd.start(number)
    groupds.etcd.until_healthy()


async def stall(groupds: Groupds, history: History) -> None:
    """Etcd's leader stands still for longer than a session, and goes on as one that leads no more."""
    number = groupds.etcd.leader()
    groupds.etcd.pause(number)
    try:
        await asyncio.sleep(2 * SESSION_MS / 1000)
        await history.until_more(within_s=60)
    finally:
        groupds.etcd.resume(number)
    groupds.etcd.until_healthy()


async def quorum(groupds: Groupds, history: History) -> None:
    """Of etcd: lost for longer than a session."""
    for number in (0, 1):
        groupds.etcd.kill(number)
    await asyncio.sleep(1.5 * SESSION_MS / 1000)
    for number in (0, 1):
        groupds.etcd.start(number)
    await history.until_more()
    groupds.etcd.until_healthy()


FAULTS: dict[str, Fault] = {"kill": kill, "pause": pause, "leader": leader, "stall": stall, "quorum": quorum}


async def rounds(groupds: Groupds, count: int, names: list[str]) -> int:
    """So many of each. Out: how many went wrong."""
    wrong = 0
    for name in names:
        pauses: list[float] = []
        commits = reads = 0
        for number in range(count):
            history = History(groupds.ports, f"{name}-{number}")
            history.start()
            await history.until_more()
            history.longest_pause_s = 0
            await FAULTS[name](groupds, history)
            await history.until_more()
            await history.stop()
            last = await history.last()
            commits, reads = commits + history.commits, reads + history.reads
            pauses.append(history.longest_pause_s)
            if history.stale or last < history.acknowledged:
                wrong += 1
                print(f"{name} {number}: stale {history.stale}, {last} of {history.acknowledged}")
        pauses.sort()
        print(
            f"{name}: {count} rounds, {commits} commits, {reads} reads, {wrong} wrong; longest time without a "
            f"commit: median {pauses[len(pauses) // 2]:.1f} s, most {pauses[-1]:.1f} s",
            flush=True,
        )
    return wrong


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("faults", nargs="*", default=list(FAULTS))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as environment:
        environment.setenv("CLUSTER_ID", CLUSTER_ID)
        etcd = EtcdNodes(Path(directory), 3)
        try:
            groupds = Groupds(Path(directory), etcd, 3)
            try:
                return min(1, asyncio.run(rounds(groupds, given.rounds, given.faults or list(FAULTS))))
            finally:
                groupds.close()
        finally:
            etcd.close()


if __name__ == "__main__":
    sys.exit(main())
