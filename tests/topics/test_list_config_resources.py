"""ListConfigResources: the resources with configs."""

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tests.topics.broker import Broker

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
ORDERS, THIS_BROKER = (TOPIC, "orders"), (BROKER, "1")


def listed(broker: Broker, *kinds: int, version: int = 1) -> set[tuple[int, str]]:
    """Types and names, none of them twice."""
    request = ListConfigResourcesRequest(resource_types=list(kinds))
    response = broker.ask(request, ListConfigResourcesResponse, version)
    assert response.error_code == ErrorCode.NONE
    found = [(one.resource_type, one.resource_name) for one in response.config_resources]
    assert len(set(found)) == len(found)
    return set(found)


@pytest.fixture
def orders(broker: Broker) -> Broker:
    broker.create("orders")
    return broker


def test_everything_that_has_configs_is_listed(orders: Broker) -> None:
    assert listed(orders) == {ORDERS, THIS_BROKER, (BROKER_LOGGER, "1")}


def test_only_the_types_that_are_asked_for_are_listed(orders: Broker) -> None:
    assert listed(orders, TOPIC) == {ORDERS}
    assert listed(orders, BROKER, TOPIC, BROKER) == {ORDERS, THIS_BROKER}
    assert not listed(orders, GROUP, CLIENT_METRICS)


def test_the_first_version_lists_client_metrics_and_there_are_none(orders: Broker) -> None:
    assert not listed(orders, version=0)


def test_a_type_that_kafka_does_not_know_is_refused(orders: Broker) -> None:
    request = ListConfigResourcesRequest(resource_types=[TOPIC, 99])
    response = orders.ask(request, ListConfigResourcesResponse)
    assert (response.error_code, response.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])
