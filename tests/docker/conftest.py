"""Fixtures of tests with containers."""

from collections.abc import Iterator

import pytest

from tests.docker.containers.image import Image, build_image, require_containers
from tests.docker.containers.network import PortForwarder


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The image, laid out from docker/Dockerfile."""
    require_containers()
    return build_image(tmp_path_factory.mktemp("image"))


@pytest.fixture(scope="session")
def forwarder() -> Iterator[PortForwarder]:
    """Forwards ports between the networks of containers."""
    with PortForwarder() as forwarder:
        yield forwarder
