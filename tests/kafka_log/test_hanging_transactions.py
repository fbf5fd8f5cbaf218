"""A transaction that hangs in the directory of a real broker, which would never have ended it, ends in groupd."""

from pathlib import Path

import pytest

from coordinator.core import clock
from protocol.error_codes import ErrorCode
from tests.broker.harness import Client
from tests.broker.transactor import Transactor, committed_values, produce_request, until_answered
from tests.interop.daemon import Daemon
from tests.kafka_log.broker import running
from tests.kafka_log.fixture import unpack
from tests.kafka_log.test_hand_back_transactions import port_of
from tests.topics.transacting import transactional

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

UNVERIFIED = {"transaction.partition.verification.enable": "false"}
PRODUCER_ID, EPOCH, HANGING = 4711, 3, "hangs"
ASKS_NOBODY = 10
"""A version of Produce at which nothing is added to a transaction."""


async def hang(client: Client) -> None:
    """Write a transactional record to orders-0 that its coordinator does not know."""

    async def ask() -> ErrorCode:
        records = transactional(PRODUCER_ID, EPOCH, 0, value=HANGING.encode(), time_ms=clock.now().wall_ms)
        answer = await client.call(produce_request("nobody's", "orders", 0, records), ASKS_NOBODY)
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)

    await until_answered(ask)


async def test_what_no_coordinator_of_a_broker_knew_is_aborted(tmp_path: Path) -> None:
    """What its coordinator knows stays open, and its producer ends it."""
    transactor = Transactor()
    data = tmp_path / "data"
    data.mkdir()
    unpack("clean", str(data))
    with running(tmp_path, UNVERIFIED) as broker:
        async with Client(port=port_of(broker.bootstrap)) as client:
            await transactor.begin(client)
            await transactor.transact(client)
            await hang(client)
            await transactor.write(client)
        broker.stop()

    daemon = Daemon(str(data))
    try:
        async with Client(port=port_of(daemon.bootstrap)) as client:
            with pytest.raises(AssertionError, match="UNSTABLE_OFFSET_COMMIT"):
                await committed_values(client, "payments", 0, wait_s=0.5)
            await transactor.end(client)
            transactor.promises.check(await transactor.look(client))
            assert HANGING not in await committed_values(client, "orders", 0)
    finally:
        daemon.stop()
    (line,) = [line for line in daemon.stderr if "no coordinator knows" in line]
    assert f"producer {PRODUCER_ID} (epoch {EPOCH})" in line
    assert "orders-0" in line
