"""What the wheel holds beside modules: pyproject.toml names each such file, and each that it names is there."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
PACKAGES = sorted(SETUPTOOLS["package-data"])


def files_of(package: str) -> set[Path]:
    found = (ROOT / package).rglob("*")
    return {path for path in found if path.is_file() and path.suffix not in {".py", ".pyc"}}


def test_the_packages_are_those_that_the_wheel_takes() -> None:
    assert SETUPTOOLS["packages"]["find"]["include"] == [f"{package}*" for package in PACKAGES]


def test_every_file_is_named_and_every_name_has_a_file() -> None:
    for package in PACKAGES:
        found = {name: set((ROOT / package).glob(name)) for name in SETUPTOOLS["package-data"][package]}
        assert [name for name, paths in found.items() if not paths] == []
        assert files_of(package) == set().union(*found.values())


def test_every_package_says_that_it_is_typed() -> None:
    assert [package for package in PACKAGES if not (ROOT / package / "py.typed").is_file()] == []
