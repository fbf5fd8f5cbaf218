"""Each public set-up with groupd's image in place of Kafka's gives the result that environments.toml states.

A set-up that needs more than the image name works with its recipe.
"""

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


ENVIRONMENTS = load_environments()


@pytest.mark.parametrize(
    ("environment", "run"),
    [(each, each) for each in ENVIRONMENTS.values()],
    ids=list(ENVIRONMENTS),
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


@pytest.mark.parametrize(
    "run",
    [each.apply_recipe() for each in ENVIRONMENTS.values() if each.recipe],
    ids=[name for name, each in ENVIRONMENTS.items() if each.recipe],
    indirect=True,
)
def test_the_image_replaces_kafka_with_the_recipe(run: EnvironmentRun) -> None:
    assert run.measure() == []
