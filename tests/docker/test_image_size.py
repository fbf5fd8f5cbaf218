"""What the image installs: its packages, and their size."""

import re
import tomllib
from importlib.metadata import distribution, requires
from pathlib import Path

from packaging.requirements import Requirement

from tests.docker.containers.image import DOCKERFILE, REPOSITORY

MOST_BYTES = 130_000_000
"""Of the files of groupd and of all packages that it needs: 119.6 MB were in an image of 2026-11-27."""
PACKAGES = ("coordinator", "protocol", "storage")


def required_by_groupd() -> list[str]:
    """Return the requirements of groupd with the extras that the Dockerfile installs."""
    (extras,) = re.findall(r"pip .*'\.\[([a-z,]+)\]'", DOCKERFILE.read_text())
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    optional = [text for extra in extras.split(",") for text in project["optional-dependencies"][extra]]
    return [*project["dependencies"], *optional]


def installed_packages() -> set[str]:
    """Return the names of all packages that groupd needs in the image."""
    found: dict[str, set[str]] = {}
    waiting = [Requirement(text) for text in required_by_groupd()]
    while waiting:
        requirement = waiting.pop()
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if name in found and requirement.extras <= found[name]:
            continue
        extras = found.setdefault(name, set())
        extras |= requirement.extras
        for each in map(Requirement, requires(name) or ()):
            marker = each.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in (*extras, "")):
                waiting.append(each)
    return set(found)


def size(name: str) -> int:
    """Return the bytes of the files of an installed package."""
    paths = [Path(str(file.locate())) for file in distribution(name).files or ()]
    return sum(path.stat().st_size for path in paths if path.is_file())


def test_the_packages_of_the_image_are_small() -> None:
    own = [file for package in PACKAGES for file in (REPOSITORY / package).rglob("*.py*")]
    sizes = {name: size(name) for name in installed_packages()}
    assert sum(sizes.values()) + sum(file.stat().st_size for file in own) <= MOST_BYTES, sizes


def test_the_image_has_no_packages_of_tests_or_of_the_pipeline() -> None:
    assert installed_packages() & {"numpy", "pandas", "pyspark", "pytest", "pip", "setuptools"} == set()
