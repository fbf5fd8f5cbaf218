"""Transactions in the responses of the HTTP port."""

from pathlib import Path

from aiohttp.test_utils import TestClient, TestServer

from coordinator.broker.server import Server
from coordinator.broker.server_view import ServerView
from coordinator.http.http_service import create_application
from coordinator.http.metric_collectors import ServerMetricsCollector
from coordinator.runtime.partition_lifecycle import PartitionState
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from tests.broker.harness import Client, begin_producer, read_metrics, serving


async def test_producers_are_counted_and_a_partition_of_theirs_that_cannot_be_read_is_named(
    tmp_path: Path,
) -> None:
    few = {"transaction.state.log.num.partitions": "1"}
    async with serving(tmp_path, few) as server, Client(server) as client:
        before = metrics(server)
        assert before["groupd_transaction_partitions", PartitionState.OWNED.value] == 0
        producer = await begin_producer(client, "copier")
        after = metrics(server)
        assert after["groupd_transaction_partitions", PartitionState.OWNED.value] == 1
        assert after["groupd_transactional_ids", "Empty"] == 1
        assert after["groupd_transaction_events_total", "Initialized"] == 1
        assert after["groupd_open_transactions", ""] == 0
        added = await client.call(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="copier",
                v3_and_below_producer_id=producer.producer_id,
                v3_and_below_producer_epoch=producer.producer_epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=[0])],
            ),
            3,
        )
        assert added.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0
        assert metrics(server)["groupd_transactional_ids", "Ongoing"] == 1
        assert metrics(server)["groupd_open_transactions", ""] == 1
    (log,) = (tmp_path / "__transaction_state-0").glob("*.log")
    log.write_bytes(b"\xff" * 100 + log.read_bytes()[100:])
    async with serving(tmp_path, few) as server:
        async with TestClient(TestServer(create_application(ServerView(server)))) as http:
            text = await (await http.get("/ready")).text()
            assert "__transaction_state-0 could not be read: its transactional producers" in text
            assert "(1 partitions could not be read)" in await (await http.get("/")).text()
        assert metrics(server)["groupd_transaction_partitions", PartitionState.FAILED.value] == 1


def metrics(server: Server) -> dict[tuple[str, str], float]:
    """Values, by the name of the sample and that of its label."""
    return {
        (sample.name, "".join(sample.labels.values())): sample.value
        for family in ServerMetricsCollector(read_metrics(server)).collect()
        for sample in family.samples
    }
