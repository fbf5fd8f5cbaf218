"""The catalogue of public set-ups loads and keeps the quotas of README.md."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.docker.containers.image import REPOSITORY
from tests.docker.environments.public_environments import (
    FAMILIES,
    FILE,
    InvalidEnvironments,
    PublicEnvironment,
    load_environments,
)

MINIMUM = 30
MAXIMUM_OF_A_REPOSITORY = 2
SIDE_SERVICES = frozenset({"schema-registry", "kafka-connect", "console"})
BY_IMAGE = {
    ("apache", None): 3,
    ("cp-kafka", "zookeeper"): 3,
    ("cp-kafka", "kraft"): 3,
    ("cp-server", None): 2,
    ("bitnami", None): 4,
    ("wurstmeister", None): 4,
    ("debezium", None): 3,
    ("strimzi", None): 3,
    ("other", None): 1,
}
BY_PROPERTY: dict[str, tuple[int, Callable[[PublicEnvironment], bool]]] = {
    "TLS": (4, lambda each: bool(each.protocols & {"SSL", "SASL_SSL"})),
    "SASL": (4, lambda each: bool(each.protocols & {"SASL_PLAINTEXT", "SASL_SSL"})),
    "several listeners": (8, lambda each: any(len(broker.client_protocols) > 1 for broker in each.brokers)),
    "init commands": (4, lambda each: any(run.kind in ("init-container", "one-off") for run in each.runs)),
    "GitHub Actions": (3, lambda each: each.kind == "github-actions"),
    "Testcontainers": (2, lambda each: each.testcontainers is not None),
    "health check": (10, lambda each: any(broker.healthcheck for broker in each.brokers)),
    "several brokers": (3, lambda each: each.has_several_brokers),
    "named volume": (
        2,
        lambda each: any(
            volume.kind == "named" and volume.holds_data
            for broker in each.brokers
            for volume in broker.volumes
        ),
    ),
    "FROM a Kafka image": (2, lambda each: any(broker.dockerfile for broker in each.brokers)),
    "side service": (4, lambda each: any(client.role in SIDE_SERVICES for client in each.clients)),
}


@pytest.fixture(scope="module")
def environments() -> Iterable[PublicEnvironment]:
    return load_environments().values()


def test_there_are_enough_environments(environments: Iterable[PublicEnvironment]) -> None:
    assert len(list(environments)) >= MINIMUM


@pytest.mark.parametrize(("family", "metadata"), BY_IMAGE, ids=str)
def test_every_image_has_its_quota(
    family: str, metadata: str | None, environments: Iterable[PublicEnvironment]
) -> None:
    found = [each for each in environments if each.family == family and metadata in (None, each.metadata)]
    assert len(found) >= BY_IMAGE[family, metadata]


def test_every_family_has_a_quota() -> None:
    assert {family for family, _ in BY_IMAGE} == FAMILIES


@pytest.mark.parametrize("name", BY_PROPERTY)
def test_every_property_has_its_quota(name: str, environments: Iterable[PublicEnvironment]) -> None:
    minimum, has_property = BY_PROPERTY[name]
    assert sum(map(has_property, environments)) >= minimum


def test_no_repository_has_more_than_its_share(environments: Iterable[PublicEnvironment]) -> None:
    repositories = [each.repository for each in environments]
    assert max(map(repositories.count, repositories)) <= MAXIMUM_OF_A_REPOSITORY


def test_the_guide_states_how_many_work(environments: Iterable[PublicEnvironment]) -> None:
    sets = list(environments)
    guide = " ".join((REPOSITORY / "docs/docker.md").read_text().split())
    works = sum(each.works for each in sets)
    with_recipe = sum(each.recipe is not None for each in sets)
    assert f"runs {len(sets)} public set-ups" in guide
    assert f"{works} work after a change of the image name." in guide
    assert f"{with_recipe} more work with the changes on this page" in guide
    assert f"{len(sets) - works - with_recipe} does not work" in guide


@pytest.mark.parametrize(
    ("old", "new", "place", "field"),
    [
        ('metadata = "kraft"', 'metadata = "raft"', "kafka-ssl:", "metadata"),
        ('today = "', 'today = "perhaps ', "kafka-ssl:", "today"),
        ('causes = ["separate-brokers"]', 'causes = ["bad-luck"]', "kafka-cluster:", "bad-luck"),
        ('causes = ["separate-brokers"]', "", "kafka-cluster:", "causes"),
        ('hostname = "broker"', 'hotsname = "broker"', "kafka-ssl, broker 1:", "hotsname"),
        ('ports = ["9093:9093"]', 'ports = ["9093"]', "kafka-ssl, broker 1:", "ports"),
        ('kind = "keystore", format = "PKCS12"', 'kind = "keystore"', "kafka-ssl, files 1:", "format"),
        ('name = "kafka-cluster"', 'name = "kafka-ssl"', "kafka-ssl:", "name"),
        ('"--zookeeper zookeeper0:2181"', '"--zookeeper nowhere"', "kafka-ui:", "nowhere"),
    ],
)
def test_an_invalid_field_is_named_with_its_place(
    old: str, new: str, place: str, field: str, tmp_path: Path
) -> None:
    text = FILE.read_text()
    assert old in text
    invalid = tmp_path / FILE.name
    invalid.write_text(text.replace(old, new, 1))
    with pytest.raises(InvalidEnvironments) as raised:
        load_environments(invalid)
    assert str(raised.value).startswith(place)
    assert field in str(raised.value)
