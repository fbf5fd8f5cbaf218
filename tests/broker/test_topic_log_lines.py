"""Requests for unknown topics are logged once a minute, with any topic names."""

import logging

import pytest

from coordinator.core.daemon_log import MAX_KEYS
from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.harness import Client, serving


def request(*names: str) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [text for record in caplog.records if "requested" in (text := record.getMessage())]


async def test_a_client_and_a_topic_have_one_line_with_what_keeps_it_from_being_created(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with serving() as server, Client(server, "dave") as dave, Client(server, "eve") as eve:
        for _ in range(20):
            await dave.call(request("ordres", "orders"), 9)
        (line,) = lines(caplog)
        for part in ("Client dave at 127.0.0.1", "topic ordres", "Metadata", "allow.auto.create.topics"):
            assert part in line
        assert "orders" not in line
        await dave.call(request("ordres", "odrers"), 9)
        await eve.call(request("ordres"), 9)
        assert ["odrers" in line for line in lines(caplog)] == [False, True, False]
        assert ["dave" in line for line in lines(caplog)] == [True, True, False]


async def test_a_replication_factor_above_the_number_of_brokers_is_a_line_with_the_remedy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    wanted = CreatableTopic(name="three", num_partitions=1, replication_factor=3, assignments=[], configs=[])
    async with serving() as server, Client(server) as client:
        for _ in range(3):
            answer = await client.call(CreateTopicsRequest(topics=[wanted], timeout_ms=1000), 5)
            assert answer.topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "three" in line
    assert "accept.any.replication.factor=true" in line


async def test_names_without_end_make_few_lines_that_are_short_and_cannot_be_forged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with serving() as server, Client(server, "eve\nINFO all is well") as eve:
        for number in range(10):
            names = [f"{number}-{other}\n{'x' * 200}" for other in range(MAX_KEYS)]
            await eve.call(request(*names), 9)
        logged = lines(caplog)
    assert 1 <= len(logged) <= 3
    for line in logged:
        assert line.isprintable()
        assert len(line) < 1_500
    assert "and 495 more" in logged[0]
