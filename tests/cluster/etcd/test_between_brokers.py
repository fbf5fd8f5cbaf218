"""Transactions of a stock client over three daemons that reach each other by TLS and with passwords."""

import asyncio
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.daemon.secured import certified
from tests.cluster.etcd.conftest import Groupds, three_daemons
from tests.cluster.etcd.test_transactions import PARTITIONS, PATIENT_S, TOPIC, Transactor

pytestmark = pytest.mark.timeout(600)
BETWEEN = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:SASL_SSL",
    "inter.broker.listener.name": "BROKERS",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.brokers.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="broker" password="broker-secret" user_broker="broker-secret";'
    ),
}


def logins(cluster: Groupds, number: int) -> float:
    """How many logins of other brokers a daemon has taken."""
    with urllib.request.urlopen(f"http://{cluster.http(number)}/metrics", timeout=PATIENT_S) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    return sum(
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == "groupd_successful_authentications_total" and sample.labels["listener"] == "BROKERS"
    )


async def test_what_a_stock_client_commits_is_everywhere(tmp_path: Path) -> None:
    with three_daemons(tmp_path, properties=BETWEEN | certified(tmp_path / "stores")) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        await asyncio.to_thread(admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result, PATIENT_S)
        transactor = await asyncio.to_thread(Transactor, cluster.bootstrap, "secured")
        for _ in range(3):
            await asyncio.to_thread(transactor.transact)
        assert transactor.committed == {1, 2, 3}
        await asyncio.to_thread(transactor.check)
        # Each leads a partition, and the coordinator reaches the other two.
        assert sum(logins(cluster, number) > 0 for number in range(3)) >= 2
