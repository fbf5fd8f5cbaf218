"""Topics that variables of other Kafka images ask for are there when the server is."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from coordinator.broker.server import Server
from coordinator.config.initial_topics import InitialTopic
from tests.broker.harness import settings, start


async def started(
    data_dir: Path | None,
    *wanted: InitialTopic,
    properties: Mapping[str, str] | None = None,
    brokers: int = 1,
) -> Server:
    how = settings(data_dir, properties)
    how.initial_topics, how.brokers = wanted, brokers
    return await start(how)


def topic(
    name: str, partitions: int = 1, replicas: int = 1, configs: Mapping[str, str] | None = None
) -> InitialTopic:
    return InitialTopic("KAFKA_CREATE_TOPICS", name, partitions, replicas, configs or {})


def partitions(server: Server) -> dict[str, int]:
    return {each.name: len(each.partitions) for each in server.data_plane.catalogue if not each.is_internal}


def warnings(caplog: pytest.LogCaptureFixture) -> Sequence[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


async def test_topics_have_partitions_and_configs(caplog: pytest.LogCaptureFixture) -> None:
    configs = {"cleanup.policy": "compact", "retention.ms": "60000"}
    server = await started(None, topic("a", 3), topic("b", -1, -1, configs))
    assert partitions(server) == {"a": 3, "b": 1}
    b = server.data_plane.catalogue.find_topic("b")
    assert b is not None
    assert b.overrides == configs
    assert warnings(caplog) == []
    await server.close()


async def test_a_topic_that_cannot_be_created_is_a_warning_and_the_start_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    wanted = topic("bad/name"), topic("bad", 1, 1, {"cleanup.policy": "nonsense"}), topic("three", 1, 3)
    server = await started(None, *wanted, topic("good"))
    assert partitions(server) == {"good": 1}
    await server.close()
    found = warnings(caplog)
    assert len(found) == len(wanted)
    for warning, each in zip(found, wanted, strict=True):
        assert warning.startswith("KAFKA_CREATE_TOPICS: ")
        assert each.name in warning
    assert "accept.any.replication.factor" in found[-1]


async def test_a_topic_that_exists_stays_as_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = await started(tmp_path, topic("same", 2), topic("other", 2))
    await server.close()
    server = await started(tmp_path, topic("same", 2), topic("other", 3))
    assert partitions(server) == {"same": 2, "other": 2}
    await server.close()
    (warning,) = warnings(caplog)
    assert "other" in warning


@pytest.mark.parametrize("brokers", [1, 3])
async def test_any_replication_factor_is_accepted_where_a_property_says_so(
    caplog: pytest.LogCaptureFixture, brokers: int
) -> None:
    accepting = {"accept.any.replication.factor": "true"}
    server = await started(None, topic("three", 2, 3), properties=accepting, brokers=brokers)
    assert partitions(server) == {"three": 2}
    await server.close()
    (warning,) = warnings(caplog)
    assert "three" in warning
    assert "accept.any.replication.factor" in warning
