"""A Kafka Streams application counts words on a cluster of three daemons, one of which dies: its own topics have
three replicas."""

from pathlib import Path

import pytest

from tests.ecosystem.conftest import Start
from tests.ecosystem.word_count import Counts, WordCount
from tests.interop.broker import eventually
from tests.interop.cluster import Cluster

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]


@pytest.fixture
def broker(java_cluster: Cluster) -> Cluster:
    """The cluster, in the place of one broker."""
    return java_cluster


def test_exactly_once_no_count_comes_twice(broker: Cluster, start: Start, tmp_path: Path) -> None:
    """With exactly_once_v2 the daemon that coordinates the application is killed amid its work, which goes on while
    it is gone; then an instance."""
    application = WordCount(broker, start, tmp_path, "word-count", "exactly_once_v2")
    counts = Counts(broker, application.output)
    try:
        expected = application.write_lines(1)
        eventually("the first counts", lambda: bool(counts.read()))
        expected += application.write_lines(2)
        for topic in (application.repartition, application.changelog):
            assert broker.replicas(topic) == {3}
        coordinator = broker.number_of(broker.coordinator(application.name))
        with broker.without(coordinator):
            expected += application.write_lines(3)
            counts.wait("the counts without the coordinator", expected, application.report)
        expected += application.write_lines(4)
        application.instances[0].kill()
        expected += application.write_lines(5)
        counts.wait("the counts without an instance", expected, application.report)
        assert not counts.fallen, counts.fallen
    finally:
        counts.close()
