"""What is brought to other brokers is answered, each by itself, whenever it was put."""

import asyncio

from coordinator.cluster.daemon.inter_broker_sender import InterBrokerRequest, InterBrokerSender, PeerSecurity
from protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.broker.harness import serving

OPEN = PeerSecurity(lambda: None, None)
"""PLAINTEXT."""


async def test_one_that_is_put_while_another_is_answered_is_answered_too() -> None:
    async with serving() as server:
        loop = asyncio.get_running_loop()
        answered: list[tuple[str, int]] = []
        is_over = asyncio.Event()

        def tell(item: str, answer: int) -> None:
            answered.append((item, answer))
            if item == "first":
                # The first caller resumes at the moment in which the sender has emptied its queue.
                loop.call_soon(sender.enqueue, 1, "second")
            else:
                is_over.set()

        kind: InterBrokerRequest[str, int] = InterBrokerRequest(
            "test",
            3,
            lambda items: FindCoordinatorRequest(key=items[0]),
            lambda items, response: [response.port for _ in items],
            lambda _: -1,
            tell,
        )
        port = server.endpoints[0].port
        sender = InterBrokerSender(kind, lambda _: ("127.0.0.1", port), OPEN)
        sender.enqueue(1, "first")
        await asyncio.wait_for(is_over.wait(), 60)
        sender.close()
        assert answered == [("first", port), ("second", port)]


async def test_what_nobody_takes_is_said_to_be_unanswered() -> None:
    told: asyncio.Queue[tuple[str, int]] = asyncio.Queue()
    kind: InterBrokerRequest[str, int] = InterBrokerRequest(
        "test",
        3,
        lambda items: FindCoordinatorRequest(key=items[0]),
        lambda *_: [0],
        lambda _: -1,
        lambda *each: told.put_nowait(each),
    )
    places = {1: None, 2: ("127.0.0.1", 1)}
    sender = InterBrokerSender(kind, lambda node_id: places[node_id], OPEN)
    sender.enqueue(1, "to one that does not live")
    sender.enqueue(2, "to one that does not listen")
    found = {await asyncio.wait_for(told.get(), 60) for _ in places}
    sender.close()
    assert found == {("to one that does not live", -1), ("to one that does not listen", -1)}
