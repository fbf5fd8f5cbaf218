"""Machines of two kinds over a disk that may fail."""

from collections.abc import AsyncIterator

import pytest

from tests.runtime.bench import Bench
from tests.storage.faulty_files import FaultyFiles


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


@pytest.fixture
async def bench(files: FaultyFiles) -> AsyncIterator[Bench]:
    bench = Bench(files)
    await bench.take_all()
    yield bench
    files.faults.clear()
    await bench.close()
