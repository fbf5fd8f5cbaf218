"""What people ask of transactions, through the server."""

import random

import pytest

from coordinator.broker.server import Server
from protocol.error_codes import ErrorCode
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from tests.broker.harness import Client, serving


async def begin(client: Client, *transactional_ids: str) -> None:
    await client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=list(transactional_ids)), 4)
    for transactional_id in transactional_ids:
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1000)
        assert (await client.call(request, 4)).error_code == ErrorCode.NONE


async def matching(client: Client, pattern: str) -> tuple[int, list[str]]:
    request = ListTransactionsRequest(
        state_filters=[], producer_id_filters=[], transactional_id_pattern=pattern
    )
    answer = await client.call(request, 2)
    return answer.error_code, sorted(state.transactional_id for state in answer.transaction_states)


async def test_a_pattern_is_of_whole_ids() -> None:
    async with serving() as server, Client(server) as client:
        await begin(client, "orders-1", "orders-17", "payments-1")
        found = await matching(client, r"(orders|refunds)-\d{1,10}")
        assert found == (ErrorCode.NONE, ["orders-1", "orders-17"])
        assert await matching(client, "orders") == (ErrorCode.NONE, [])
        assert await matching(client, "") == (ErrorCode.NONE, ["orders-1", "orders-17", "payments-1"])
        for name in (
            r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
            r"\w{1,60}-\d+",
            "|".join(map(str, range(99))),
        ):
            assert (await matching(client, name))[0] == ErrorCode.NONE, name


async def test_a_pattern_that_would_keep_everybody_waiting_is_refused() -> None:
    hostile = "".join(random.Random(1).choice("ab") for _ in range(32_000))
    async with serving() as server, Client(server) as client:
        await begin(client, hostile)
        for pattern in ("(", ".*a.{900}", "(" + "|".join(f".*a.{{{n}}}" for n in range(100, 900)) + ")c"):
            assert await matching(client, pattern) == (ErrorCode.INVALID_REGULAR_EXPRESSION, []), pattern[:20]


async def test_an_id_that_is_named_twice_is_described_twice() -> None:
    async with serving() as server, Client(server) as client:
        await begin(client, "known")
        request = DescribeTransactionsRequest(transactional_ids=["known", "unknown", "", "known"])
        states = (await client.call(request, 0)).transaction_states
        assert [(state.transactional_id, state.error_code) for state in states] == [
            ("known", ErrorCode.NONE),
            ("unknown", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
            ("", ErrorCode.INVALID_REQUEST),
            ("known", ErrorCode.NONE),
        ]


async def test_a_client_that_insists_on_what_has_no_room_fills_no_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(
        "coordinator.broker.lazy_transaction_coordinator.why_too_small",
        lambda *_: "no room for 50 partitions",
    )
    async with serving() as server, Client(server) as client:
        for _ in range(20):
            answer = await client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["t"]), 4)
            (found,) = answer.coordinators
            assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert "no room" in found.error_message
    assert sum("no room" in line for line in caplog.messages) == 1


async def test_a_server_that_closes_makes_no_topic() -> None:
    server: Server
    async with serving() as server:
        pass
    assert server.transactions.start() is not None
    assert not server.transactions.is_started
