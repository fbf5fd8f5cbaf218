"""Each public set-up with groupd's image in place of Kafka's gives the result that environments.toml states."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker.containers.image import Image
from tests.docker.containers.network import PortForwarder
from tests.docker.environments.environment_run import EnvironmentRun
from tests.docker.environments.public_environments import PublicEnvironment, load_environments


@pytest.fixture
def run(
    request: pytest.FixtureRequest, image: Image, forwarder: PortForwarder, tmp_path: Path
) -> Iterator[EnvironmentRun]:
    """A set-up. Its containers end with the test."""
    environment_run = EnvironmentRun(request.param, image, forwarder, tmp_path)
    yield environment_run
    environment_run.close()


@pytest.mark.parametrize(
    ("environment", "run"),
    [(each, each) for each in load_environments().values()],
    ids=list(load_environments()),
    indirect=["run"],
)
def test_the_image_replaces_kafka(environment: PublicEnvironment, run: EnvironmentRun) -> None:
    failures = run.measure()
    causes = {cause for cause in environment.causes for failure in failures if cause.symptom.search(failure)}
    unexplained = [
        failure
        for failure in failures
        if not any(cause.symptom.search(failure) for cause in environment.causes)
    ]
    assert unexplained == []
    assert causes == set(environment.causes)
