"""Distributed Kafka Connect on a cluster of three daemons, some of which die; its topics have three replicas."""

from pathlib import Path

import pytest

from tests.ecosystem.conftest import Start
from tests.ecosystem.copies import Copies
from tests.ecosystem.worker import GROUP, assignments
from tests.interop.broker import eventually
from tests.interop.cluster import Cluster

# See test_connect.py.
pytestmark = [pytest.mark.interop, pytest.mark.timeout(400), pytest.mark.violates("flapping")]


@pytest.fixture
def broker(java_cluster: Cluster) -> Cluster:
    """The cluster, in the place of one broker."""
    return java_cluster


def test_every_line_is_copied_though_daemons_and_a_worker_die(
    broker: Cluster, start: Start, tmp_path: Path
) -> None:
    """The daemon that coordinates the workers is killed: they stay members. Then the one that leads their
    configurations: they take a new one meanwhile. A worker's tasks still move to the other one."""
    copies = Copies(broker, start, tmp_path)
    for topic in ("connect-config", "connect-offset", "connect-status"):
        assert broker.replicas(topic) == {3}
    tasks, members = copies.homes().keys(), assignments(broker).keys()
    coordinator = broker.number_of(broker.coordinator(GROUP))
    with broker.without(coordinator):
        broker.next_coordinator(GROUP, coordinator)
        copies.copy("every line without the coordinator")
        # Connect lets its tasks go after heartbeat.interval.ms without a coordinator, and takes them up again.
        eventually("the same members", lambda: assignments(broker).keys() == members, copies.report)
        eventually("the same tasks", lambda: copies.homes().keys() == tasks, copies.report)
    with broker.without(broker.leader("connect-config")):
        copies.workers[0].create("source", copies.connectors["source"] | {"batch.size": "100"})
        copies.copy("every line without the leader of the configurations")
        eventually("the tasks anew", lambda: copies.homes().keys() == tasks, copies.report)
    copies.lose_a_worker()
    copies.check()
