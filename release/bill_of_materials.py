"""The software bill of materials of a release, as CycloneDX 1.6 in JSON.

It lists the files of the release with their hashes, the JavaScript libraries inside the wheel, and the
distributions that the wheels require. Their versions are those of this environment, which the tests used. The build
of the image makes the bill of the image.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from email.parser import Parser
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple
from zipfile import ZipFile

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release.distributions import DISTRIBUTIONS, Distribution, ReleaseError

VENDORED: Final = "groupd/coordinator/http/static/vendor/vendor.json"
NOT_SHIPPED_EXTRAS: Final = frozenset({"check", "release", "test"})
"""Extras of groupd that only a checkout uses."""


class WheelMetadata(NamedTuple):
    """The name of a distribution, the extras for its users, and all requirements."""

    name: str
    extras: set[str]
    requirements: list[Requirement]


class RequiredDistribution(NamedTuple):
    """An installed distribution that wheels require, directly or not. `is_optional`: only by extras."""

    installed: metadata.Distribution
    is_optional: bool


def create_bill(files: Sequence[Path], version: str) -> dict[str, Any]:
    """Return the document for the wheels and source distributions of a release.

    The same files in the same environment give the same document. Raises ReleaseError if this environment lacks a
    required distribution.
    """
    wheels = [path for path in sorted(files) if path.suffix == ".whl"]
    required, dependencies = _find_required([_read_metadata(wheel) for wheel in wheels])
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "bom-ref": "release", "name": "groupd", "version": version}
        },
        "components": [
            *(_describe_own(each, version, files) for each in DISTRIBUTIONS),
            *(_describe_required(name, required[name]) for name in sorted(required)),
            *(component for wheel in wheels for component in _describe_vendored(wheel)),
        ],
        "dependencies": [
            {"ref": "release", "dependsOn": sorted(each.name for each in DISTRIBUTIONS)},
            *({"ref": name, "dependsOn": sorted(dependencies[name])} for name in sorted(dependencies)),
        ],
    }


def write_bill(files: Sequence[Path], version: str, path: Path) -> None:
    """Write the document to a file. Raises ReleaseError as `create_bill` does."""
    path.write_text(json.dumps(create_bill(files, version), indent=1) + "\n")


def _describe_own(distribution: Distribution, version: str, files: Iterable[Path]) -> dict[str, Any]:
    return _describe_library(distribution.name, version) | {
        "externalReferences": [
            {
                "type": "distribution",
                "url": path.name,
                "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}],
            }
            for path in sorted(files)
            if path.name.startswith(distribution.file_prefix)
        ]
    }


def _describe_required(name: str, required: RequiredDistribution) -> dict[str, Any]:
    scope = {"scope": "optional" if required.is_optional else "required"}
    licence = required.installed.metadata["License-Expression"]
    licences = {"licenses": [{"expression": licence}]} if licence else {}
    return _describe_library(name, required.installed.version) | scope | licences


def _describe_vendored(wheel: Path) -> Iterator[dict[str, Any]]:
    with ZipFile(wheel) as archive:
        if VENDORED not in archive.namelist():
            return
        libraries = json.loads(archive.read(VENDORED)).values()
    for name, version in sorted({(each["package"], each["version"]) for each in libraries}):
        yield _describe_library(name, version, "npm")


def _describe_library(name: str, version: str, registry: str = "pypi") -> dict[str, Any]:
    purl = f"pkg:{registry}/{name}@{version}"
    return {"type": "library", "bom-ref": name, "name": name, "version": version, "purl": purl}


def _read_metadata(wheel: Path) -> WheelMetadata:
    with ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        headers = Parser().parsestr(archive.read(name).decode())
    return WheelMetadata(
        canonicalize_name(headers["Name"]),
        set(headers.get_all("Provides-Extra", ())) - NOT_SHIPPED_EXTRAS,
        [Requirement(text) for text in headers.get_all("Requires-Dist", ())],
    )


def _find_required(
    wheels: Sequence[WheelMetadata],
) -> tuple[dict[str, RequiredDistribution], dict[str, set[str]]]:
    """Return the distributions that wheels require, and for each distribution the names of its requirements."""
    required: dict[str, RequiredDistribution] = {}
    own = {wheel.name for wheel in wheels}
    dependencies: dict[str, set[str]] = {name: set() for name in own}
    visited: set[tuple[str, str]] = set()
    for is_optional in (False, True):
        waiting = [
            (wheel.name, each)
            for wheel in wheels
            for each in _select(wheel.requirements, wheel.extras if is_optional else ())
        ]
        while waiting:
            parent, requirement = waiting.pop()
            name = canonicalize_name(requirement.name)
            dependencies[parent].add(name)
            new = {(name, extra) for extra in ("", *requirement.extras)} - visited
            if name in own or not new:
                continue
            visited |= new
            if name not in required:
                required[name] = RequiredDistribution(_find_installed(name), is_optional)
                dependencies[name] = set()
            further = [Requirement(text) for text in required[name].installed.requires or ()]
            waiting += [(name, each) for each in _select(further, requirement.extras)]
    return required, dependencies


def _select(requirements: Iterable[Requirement], extras: Iterable[str]) -> Iterator[Requirement]:
    """The requirements that hold on this platform, without an extra or with one of these."""
    for each in requirements:
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield each


def _find_installed(name: str) -> metadata.Distribution:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise ReleaseError(
            f"{name} is not installed, so that its version is not known: run make install"
        ) from None
