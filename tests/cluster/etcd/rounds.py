"""Repeated runs of the faults in `test_faults.py` and `test_cuts.py`.

python -m tests.cluster.etcd.rounds [--rounds 50] [FAULT ...]

Exits with 1 if an acknowledged commit was lost, a response was stale, or the clients' view is not linearizable.
Prints the longest pause.
"""

import argparse
import asyncio
import random
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.cluster.etcd.conftest import SESSION_MS, Groupds, three_daemons
from tests.cluster.etcd.history import History
from tests.cluster.etcd.linearizable import OK, Operations, as_lines, verdicts
from tests.cluster.etcd.stock_history import StockHistory

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
    """Pause etcd's leader for longer than a session, and resume it as a deposed leader."""
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


async def cut(groupds: Groupds, history: History) -> None:
    """Any one of the cuts there are, of the owner or another daemon, for up to two sessions."""
    chance = random.Random(history.group)
    daemon = await history.owner() if chance.random() < 0.7 else chance.randrange(len(groupds.ports))
    behind = groupds.behind[daemon]
    links = chance.choice([behind, behind, [chance.choice(behind)], [groupds.front[daemon]]])
    how = chance.choice([{}, {"answers": False}, {"requests": False}, None])
    delay_s = chance.uniform(0.05, SESSION_MS / 1000)
    for link in links:
        if how is None:
            link.slow(delay_s)
        else:
            link.cut(**how)
    await asyncio.sleep(chance.uniform(0.2, 2) * SESSION_MS / 1000)
    for link in links:
        link.mend()
    await history.until_more()


FAULTS: dict[str, Fault] = {
    "kill": kill,
    "pause": pause,
    "leader": leader,
    "stall": stall,
    "quorum": quorum,
    "cut": cut,
}


async def rounds(groupds: Groupds, count: int, names: list[str]) -> int:
    """Run each fault `count` times; return the number of failures."""
    wrong = 0
    for name in names:
        pauses: list[float] = []
        commits = reads = seen = 0
        for number in range(count):
            operations = Operations()
            history = History(groupds.ports, f"{name}-{number}", operations)
            stock = StockHistory(groupds.bootstrap, history.group, 1, operations)
            history.start()
            stock.start()
            await history.until_more()
            history.longest_pause_s = 0
            await FAULTS[name](groupds, history)
            await history.until_more()
            await asyncio.to_thread(stock.stop)
            await history.stop()
            last = await history.last()
            judged = await asyncio.to_thread(verdicts, operations)
            commits, reads = commits + history.commits, reads + history.reads
            seen += len(operations)
            pauses.append(history.longest_pause_s)
            if history.stale or last < history.acknowledged or set(judged.values()) != {OK}:
                wrong += 1
                seen_file = Path(tempfile.gettempdir()) / f"{history.group}.jsonl"
                seen_file.write_text(as_lines(operations))
                print(
                    f"{name} {number}: stale {history.stale}, {last} of {history.acknowledged}, {judged}; "
                    f"all of it in {seen_file}"
                )
        pauses.sort()
        print(
            f"{name}: {count} rounds, {commits} commits, {reads} reads, {seen} operations in all, "
            f"{wrong} wrong so far; longest time without a commit: median {pauses[len(pauses) // 2]:.1f} s, "
            f"most {pauses[-1]:.1f} s",
            flush=True,
        )
    return wrong


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("faults", nargs="*", default=list(FAULTS))
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        three_daemons(Path(directory), are_linked=True) as groupds,
    ):
        return min(1, asyncio.run(rounds(groupds, given.rounds, given.faults or list(FAULTS))))


if __name__ == "__main__":
    sys.exit(main())
