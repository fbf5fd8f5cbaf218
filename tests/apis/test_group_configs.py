"""Configs of single groups: altered, described, listed, obeyed, and there after a restart."""

from pathlib import Path
from typing import Any

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.alter_configs import AlterableConfig as ReplacedConfig
from protocol.messages.alter_configs import AlterConfigsRequest
from protocol.messages.alter_configs import AlterConfigsResource as ReplacedConfigs
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.apis.test_consumer_groups import joining
from tests.broker.harness import Client
from tests.broker.harness import serving_kafka_defaults as serving

GROUP = 32
SET, DELETE, APPEND = 0, 1, 2
INTERVAL = "consumer.heartbeat.interval.ms"
SESSION = "consumer.session.timeout.ms"


async def alter(
    client: Client, name: str, value: str | None, operation: int = SET, group: str = "billing", **more: Any
) -> tuple[int, str | None]:
    config = AlterableConfig(name=name, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=GROUP, resource_name=group, configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=more.get("dry", False))
    (answer,) = (await client.call(request, 1)).responses
    return answer.error_code, answer.error_message


async def described(client: Client, group: str = "billing") -> dict[str, tuple[str, int, list[int]]]:
    """Value, source, and sources of synonyms, by name."""
    resource = DescribeConfigsResource(resource_type=GROUP, resource_name=group, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    (answer,) = (await client.call(request, 4)).results
    assert answer.error_code == ErrorCode.NONE
    return {
        config.name: (config.value, config.config_source, [each.source for each in config.synonyms])
        for config in answer.configs
    }


async def listed(client: Client) -> list[str]:
    answer = await client.call(ListConfigResourcesRequest(resource_types=[GROUP]), 1)
    return [resource.resource_name for resource in answer.config_resources]


async def test_what_is_altered_is_obeyed_at_once_and_after_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path, topics=[("orders", 1)]) as server, Client(server) as client:
        assert (await client.call(joining(), 1)).heartbeat_interval_ms == 5000
        assert await alter(client, INTERVAL, "7000") == (ErrorCode.NONE, None)
        assert (await client.call(joining(), 1)).heartbeat_interval_ms == 7000
        assert (await client.call(joining("other"), 1)).heartbeat_interval_ms == 5000
    async with serving(tmp_path) as server, Client(server) as client:
        assert (await client.call(joining(), 1)).heartbeat_interval_ms == 7000
        assert (await described(client))[INTERVAL] == ("7000", 8, [8, 5])
        assert await listed(client) == ["billing"]
        assert await alter(client, INTERVAL, None, DELETE) == (ErrorCode.NONE, None)
        assert (await client.call(joining(), 1)).heartbeat_interval_ms == 5000
        assert await listed(client) == []


async def test_a_group_that_nobody_knows_is_described() -> None:
    texts = {"group.consumer.session.timeout.ms": "50000"}
    async with serving(None, texts) as server, Client(server) as client:
        found = await described(client, "nobody")
        assert {name: config for name, config in found.items() if name.startswith("consumer.")} == {
            INTERVAL: ("5000", 5, [5]),
            SESSION: ("50000", 4, [4, 5]),
            "consumer.assignment.interval.ms": ("1000", 5, [5]),
        }
        assert len(found) == 21
        assert found["streams.assignor.name"] == ("sticky", 5, [5])


async def test_what_share_and_streams_groups_have_is_kept_as_it_is_meant(tmp_path: Path) -> None:
    given = {
        "share.auto.offset.reset": (" earliest ", "earliest"),
        "streams.rack.aware.assignment.tags": ("zone , rack", "zone,rack"),
        "streams.num.warmup.replicas": ("3", "3"),
    }
    async with serving(tmp_path) as server, Client(server) as client:
        for name, (text, _) in given.items():
            assert await alter(client, name, text) == (ErrorCode.NONE, None)
    async with serving(tmp_path) as server, Client(server) as client:
        found = await described(client)
        assert {name: found[name] for name in given} == {
            name: (meant, 8, [8, 5]) for name, (_, meant) in given.items()
        }
        assert await alter(client, "streams.num.warmup.replicas", None, DELETE) == (ErrorCode.NONE, None)
        assert "streams.num.warmup.replicas" not in await described(client)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("x.y", "1", "Unknown group config name: x.y"),
        (SESSION, "abc", f"Invalid value abc for configuration {SESSION}: Not a number of type INT"),
        (SESSION, "", f"Invalid value  for configuration {SESSION}: Not a number of type INT"),
        (INTERVAL, "0", f"Invalid value 0 for configuration {INTERVAL}: Value must be at least 1"),
        (SESSION, "44999", f"{SESSION} must be in the range 45000 to 60000 inclusive."),
        (
            "share.session.timeout.ms",
            "44999",
            "share.session.timeout.ms must be in the range 45000 to 60000 inclusive.",
        ),
        ("streams.num.standby.replicas", "3", "streams.num.standby.replicas must be less than or equal to 2"),
    ],
)
async def test_what_a_group_cannot_have_is_refused(name: str, value: str, message: str) -> None:
    async with serving() as server, Client(server) as client:
        assert await alter(client, name, value) == (ErrorCode.INVALID_CONFIG, message)
        assert await listed(client) == []


async def test_a_session_is_longer_than_an_interval() -> None:
    texts = {
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.max.heartbeat.interval.ms": "60000",
    }
    async with serving(None, texts) as server, Client(server) as client:
        message = f"{SESSION} must be greater than {INTERVAL}"
        assert await alter(client, SESSION, "5000") == (ErrorCode.INVALID_CONFIG, message)
        assert await alter(client, SESSION, "5001") == (ErrorCode.NONE, None)
        assert await alter(client, INTERVAL, "6000") == (ErrorCode.INVALID_CONFIG, message)


async def test_forms_that_are_refused() -> None:
    async with serving() as server, Client(server) as client:
        assert await alter(client, INTERVAL, "7000", group="") == (
            ErrorCode.INVALID_REQUEST,
            "Default group resources are not allowed.",
        )
        assert (await alter(client, INTERVAL, "7000", APPEND))[0] == ErrorCode.INVALID_CONFIG
        assert await alter(client, INTERVAL, "7000", dry=True) == (ErrorCode.NONE, None)
        assert await listed(client) == []


async def test_the_older_call_replaces_all() -> None:
    async with serving() as server, Client(server) as client:
        await alter(client, INTERVAL, "7000")
        replaced = ReplacedConfigs(
            resource_type=GROUP,
            resource_name="billing",
            configs=[ReplacedConfig(name=SESSION, value="46000")],
        )
        await client.call(AlterConfigsRequest(resources=[replaced], validate_only=False), 2)
        found = await described(client)
        assert (found[INTERVAL][0], found[SESSION][0]) == ("5000", "46000")
