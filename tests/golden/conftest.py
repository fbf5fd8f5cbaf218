"""The Spark session of the pipeline's tests, and classes with other names."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from coordinator.control.recording.recorded_classes import RECORDED_CLASSES
from coordinator.core import wire_name
from tests.pipeline.conftest import spark

__all__ = ["rename_classes", "spark"]


@pytest.fixture
def rename_classes() -> Iterator[Callable[[], None]]:
    """Return a function that renames and moves all classes with wire names until the test ends."""
    with ExitStack() as restored:

        def rename() -> None:
            for number, cls in enumerate({*wire_name._WIRE_NAMES, *RECORDED_CLASSES.values()}):
                restored.callback(_set_names, cls, cls.__name__, cls.__qualname__, cls.__module__)
                _set_names(cls, f"Renamed{number}", f"Renamed{number}", "tests.golden")

        yield rename


def _set_names(cls: type[Any], name: str, qualified_name: str, module: str) -> None:
    # pytest's monkeypatch would delete these attributes in the end, which Python refuses.
    cls.__name__, cls.__qualname__, cls.__module__ = name, qualified_name, module
