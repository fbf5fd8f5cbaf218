"""kafka-log-dirs: the partitions and sizes on the disk."""

import json

import pytest

from tests.tools.desk import FOREVER, Desk

pytestmark = pytest.mark.interop


def test_the_sizes_of_a_topic_are_described(desk: Desk, topic: str) -> None:
    """Its partitions and nothing else, each with its bytes."""
    desk.create_topic(topic, 2, FOREVER)
    desk.produce(topic, {1: [1, 2, 3]})
    done = desk.run("kafka-log-dirs", "--describe", "--topic-list", topic)
    assert done.status == 0, done
    (broker,) = json.loads(done.out.splitlines()[-1])["brokers"]
    (directory,) = broker["logDirs"]
    assert directory["error"] is None
    sizes = {each["partition"]: each["size"] for each in directory["partitions"]}
    assert sizes.keys() == {f"{topic}-0", f"{topic}-1"}
    assert sizes[f"{topic}-0"] == 0
    assert sizes[f"{topic}-1"] > 0
