import asyncio

from coordinator.net.outbox import Outbox


async def test_a_connection_that_fails_keeps_no_other_from_its_answers() -> None:
    outbox, sent = Outbox(asyncio.get_running_loop()), asyncio.Event()

    def fail() -> None:
        raise RuntimeError("a defect")

    outbox.add(fail)
    outbox.add(sent.set)
    async with asyncio.timeout(60):
        await sent.wait()
