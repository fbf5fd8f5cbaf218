import asyncio

from coordinator.network.endpoint import WriteBatcher


async def test_a_connection_that_fails_keeps_no_other_from_its_answers() -> None:
    write_batcher, sent = WriteBatcher(asyncio.get_running_loop()), asyncio.Event()

    def fail() -> None:
        raise RuntimeError("a defect")

    write_batcher.schedule_flush(fail)
    write_batcher.schedule_flush(sent.set)
    async with asyncio.timeout(60):
        await sent.wait()
