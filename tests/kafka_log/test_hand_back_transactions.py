"""The same for transactions: the other one ends a transaction that is open or lacks markers."""

from pathlib import Path

import pytest

from tests.broker.harness import Client, settings, start
from tests.broker.transactor import Transactor
from tests.cli.log_directory import log
from tests.interop.daemon import Daemon
from tests.kafka_log.broker import running
from tests.kafka_log.fixture import unpack

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

DROPPED = "Couldn't find leader endpoint"
"""A broker alone on its node may say so at a start, before it has found itself, and writes no marker then."""


def port_of(bootstrap: str) -> int:
    return int(bootstrap.rpartition(":")[2])


async def test_transactions_go_on_in_a_broker_and_back_in_groupd(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    unpack("clean", str(data))
    open_, prepared = Transactor("open", level=2), Transactor("prepared", level=0)

    server = await start(settings(data))
    async with Client(server) as client:
        for each in (open_, prepared):
            await each.begin(client)
            await each.transact(client)
        await prepared.look(client)
        assert server.transactions.coordinator is not None
        server.transactions.coordinator.marker_writer.write_marker = lambda *_: None  # type: ignore[method-assign]
        await prepared.write(client)
        await prepared.end(client)
        await open_.write(client)
    server.abandon()  # as a process that is killed, before any marker is written
    assert log("recover", data).exit_code == 0

    with running(tmp_path) as broker:
        async with Client(port=port_of(broker.bootstrap)) as client:
            await open_.end(client)  # with the producer id and the epoch that it has
            if DROPPED not in (tmp_path / "broker.log").read_text():
                for each in (open_, prepared):
                    each.promises.check(await each.look(client))
            await prepared.begin(client)
            for each in (open_, prepared):
                await each.transact(client)
            await open_.write(client)
            await prepared.write(client)
            await prepared.end(client)
        broker.kill()  # perhaps with markers, perhaps without

    daemon = Daemon(str(data))
    try:
        async with Client(port=port_of(daemon.bootstrap)) as client:
            await open_.end(client)
            for each in (open_, prepared):
                each.promises.check(await each.look(client))
                await each.transact(client)
                each.promises.check(await each.look(client))
    finally:
        daemon.stop()
