"""kill -9 at random instants, again and again, in one data directory: no acknowledged record is lost.

Three rounds in four end while clients are served, the others while the daemon starts or while it stops. Every
round ends with the next daemon being asked for all that the clients were promised. The operating system keeps
what a killed process wrote, so that every flush policy has to hold this.
"""

import asyncio
import contextlib
import os
from pathlib import Path
from random import Random

import pytest

from tests.broker.harness import Client
from tests.crash import consumer
from tests.crash.consumer import ConsumerMember
from tests.crash.load import Actor, actors
from tests.crash.process import Process

COMPACTED_S = 60
ROUNDS = int(os.environ.get("CRASH_ROUNDS", "6"))
SEED = int(os.environ.get("CRASH_SEED", "0")) or int.from_bytes(os.urandom(4), "big")
TOPIC = ("--topic", "orders:2", "--topic", "payments:1", "--profile", "test")
SMALL = (
    *("-o", "offsets.topic.num.partitions=3", "-o", "transaction.state.log.num.partitions=3"),
    *("-o", "transaction.state.log.segment.bytes=20000", "-o", "offsets.topic.segment.bytes=20000"),
    *("-o", "log.flush.interval.ms=20", "-o", "log.flush.offset.checkpoint.interval.ms=20"),
    *("-o", "log.cleaner.backoff.ms=20"),
)


class Answers:
    """Counts answers, and signals when there are enough."""

    def __init__(self, wanted: int) -> None:
        self._missing = wanted
        self.enough = asyncio.Event()

    def one(self) -> None:
        self._missing -= 1
        if self._missing <= 0:
            self.enough.set()


def state_files(directory: Path) -> list[str]:
    return [path.name for path in directory.glob("data/*/*.state")]


async def compacted(log: Path) -> None:
    """Waits until some log has been compacted, in whichever round; the last daemon has time for it."""
    async with asyncio.timeout(COMPACTED_S):
        while b"Cleaned log" not in whole_log(log):
            await a_moment()


async def a_moment() -> None:
    await asyncio.sleep(0.1)


def whole_log(path: Path) -> bytes:
    return path.read_bytes()


async def work(actor: Actor, port: int, answers: Answers) -> None:
    """Run one client until its daemon ends."""
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        async with Client(port=port) as client:
            await actor.run(client, answers.one)


async def verify(everybody: list[Actor], port: int) -> None:
    async with Client(port=port) as client:
        for actor in everybody:
            await actor.verify(client)


async def serve_and_kill(process: Process, everybody: list[Actor], random: Random) -> None:
    """Ends a daemon that is ready: while it serves, or, one time in five, while it stops."""
    answers = Answers(random.randrange(1, 400))
    tasks = [asyncio.create_task(work(actor, process.port, answers)) for actor in everybody]
    done, _ = await asyncio.wait(
        [asyncio.create_task(answers.enough.wait()), *tasks], return_when=asyncio.FIRST_COMPLETED
    )
    for task in done:
        task.result()
    if random.random() < 0.2:
        process.terminate()
        await asyncio.sleep(random.uniform(0, 0.05))
    await process.kill()
    await asyncio.gather(*tasks)


@pytest.mark.timeout(300 + 10 * ROUNDS)
@pytest.mark.parametrize("flush", ["always", "interval", "os"])
async def test_every_acknowledged_commit_outlives_kill_9(tmp_path: Path, flush: str) -> None:
    print(f"reproduce with CRASH_SEED={SEED} CRASH_ROUNDS={ROUNDS}")
    random = Random(f"{SEED} {flush}")
    everybody = [*actors(random), ConsumerMember("consumers", Random(random.random()))]
    options = [*TOPIC, *SMALL, *consumer.OPTIONS, "-o", f"log.flush={flush}"]
    log = tmp_path / "log"
    states: set[str] = set()

    async def start(number: int) -> Process:
        """Start the daemon of a round; in every other round it is one that writes states all the time."""
        module = "coordinator" if number % 2 else "tests.crash.eager"
        return await Process.start(tmp_path / "data", log, options, module=module)

    for number in range(ROUNDS):
        if random.random() < 0.15:
            process = await start(number)
            await asyncio.sleep(random.uniform(0, 0.4))
            await process.kill()
        process = await start(number)
        try:
            await process.ready()
            if number:
                await verify(everybody, process.port)
            await serve_and_kill(process, everybody, random)
        except BaseException:
            print(f"round {number}\n{process.log()}")
            raise
        finally:
            await process.kill()
        states |= set(state_files(tmp_path))
    process = await start(ROUNDS)
    await process.ready()
    await verify(everybody, process.port)
    # A segment that was full before the crash is compacted once it is synced, which new records bring about.
    tasks = [asyncio.create_task(work(actor, process.port, Answers(1))) for actor in everybody]
    await compacted(log)
    process.terminate()
    assert await process.ended() == 0
    await asyncio.gather(*tasks)
    assert "Traceback" not in process.log()
    assert len(states) > ROUNDS // 4, "states were to be written all along"
    assert all(actor.acknowledged for actor in everybody)
    assert sum(actor.acknowledged for actor in everybody) > 10 * ROUNDS
