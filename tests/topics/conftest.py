from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.topics.broker import Broker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A data plane over an empty directory, stopped cleanly at the end."""
    running = Broker(str(tmp_path / "data"))
    yield running
    running.stop()
