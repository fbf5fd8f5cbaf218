"""kill -9 while topics change and the disk fills up, again and again, in one data directory.

The disk of each round has room for a little more, or for nothing; a start needs no space. The daemon of the next
round must have each topic as it was acknowledged, nothing of a change that was refused, and one of both where the
answer was still missing.
"""

import asyncio
import contextlib
import os
from pathlib import Path
from random import Random

import pytest

from tests.broker.harness import Client
from tests.crash.process import Process
from tests.crash.small_disk import VARIABLE
from tests.crash.topic_load import TopicKeeper

ROUNDS = int(os.environ.get("CRASH_ROUNDS", "4"))
SEED = int(os.environ.get("CRASH_SEED", "0")) or int.from_bytes(os.urandom(4), "big")
AMPLE = 1 << 30
OPTIONS = (
    *("-o", "offsets.topic.num.partitions=1", "-o", "log.flush.interval.ms=20"),
    *("-o", "log.flush.offset.checkpoint.interval.ms=20"),
)


async def work(keeper: TopicKeeper, process: Process, random: Random) -> None:
    """Lets a client change topics until it has some answers, and kills the daemon."""
    answers = random.randrange(10, 60)
    enough = asyncio.Event()
    left = iter(range(answers))

    def answered() -> None:
        if next(left, None) is None:
            enough.set()

    async def serve() -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            async with Client(port=process.port) as client:
                await keeper.run(client, answered)

    task = asyncio.create_task(serve())
    await asyncio.wait(
        [task, waiting := asyncio.create_task(enough.wait())], return_when=asyncio.FIRST_COMPLETED
    )
    waiting.cancel()
    await asyncio.sleep(random.uniform(0, 0.01))  # the kill comes somewhere in the next change
    await process.kill()
    await task


def partitions(data: Path) -> set[str]:
    return {path.name for path in data.glob("topic-*")}


@pytest.mark.timeout(300 + 20 * ROUNDS)
async def test_topics_are_as_acknowledged_after_kill_9_on_a_full_disk(tmp_path: Path) -> None:
    print(f"reproduce with CRASH_SEED={SEED} CRASH_ROUNDS={ROUNDS}")
    random = Random(SEED)
    keeper = TopicKeeper(Random(random.random()))
    data, log = tmp_path / "data", tmp_path / "log"

    async def started(free_bytes: int) -> Process:
        options = [*OPTIONS, "-o", f"log.flush={random.choice(['always', 'interval', 'os'])}"]
        variables = {VARIABLE: str(free_bytes)}
        process = await Process.start(
            data, log, options, module="tests.crash.small_disk", variables=variables
        )
        await process.ready()
        return process

    for number in range(ROUNDS + 1):
        if number in (0, ROUNDS):
            free_bytes = AMPLE
        else:
            free_bytes = 0 if number == 1 else random.choice([0, 2000, 10_000, 40_000, 100_000])
        process = await started(free_bytes)
        try:
            async with Client(port=process.port) as client:
                await keeper.verify(client)
            expected = {name: register.value for name, register in keeper.registers.items()}
            wanted = {
                f"{name}-{each}"
                for name, state in expected.items()
                if state
                for each in range(state.partitions)
            }
            assert partitions(data) == wanted
            await work(keeper, process, random)
        except BaseException:
            print(f"round {number}, {free_bytes} bytes free\n{process.log()}")
            raise
        finally:
            await process.kill()
    print(f"{ROUNDS} rounds: {keeper.acknowledged} changes acknowledged, {keeper.refused} refused")
    assert "Traceback" not in log.read_text(errors="replace")
    assert keeper.acknowledged > ROUNDS
    assert keeper.refused
