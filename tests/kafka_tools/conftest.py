"""One groupd for all tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.kafka_tools.player import StoryBrokers
from tests.shared_fixtures import shared


@shared(StoryBrokers.is_alive)
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoryBrokers]:
    """A daemon that has a broker for each story and each test."""
    brokers = StoryBrokers(str(tmp_path_factory.mktemp("groupd")))
    yield brokers
    brokers.stop()


@pytest.fixture
def bootstrap(brokers: StoryBrokers) -> str:
    """The address of an empty broker."""
    return brokers.bootstrap("")
