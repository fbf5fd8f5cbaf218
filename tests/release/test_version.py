"""One version for all distributions: read, written everywhere, and refused where files disagree."""

import shutil
from pathlib import Path

import pytest

from release.distributions import ROOT, ReleaseError
from release.version import VERSION_FILES, read_version, write_version


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files with the version."""
    for name in VERSION_FILES:
        (tmp_path / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_all_distributions_of_this_repository_have_one_version() -> None:
    read_version(ROOT)


def test_a_new_version_changes_one_line_of_each_file(checkout: Path) -> None:
    before = {name: (checkout / name).read_text().splitlines() for name in VERSION_FILES}
    write_version(checkout, "12.3.4rc1")
    assert read_version(checkout) == "12.3.4rc1"
    for name, lines in before.items():
        after = (checkout / name).read_text().splitlines()
        assert [new for old, new in zip(lines, after, strict=True) if old != new] == [
            '__version__: Final = "12.3.4rc1"'
        ]


def test_files_that_disagree_are_named(checkout: Path) -> None:
    path = checkout / VERSION_FILES[1]
    path.write_text(path.read_text().replace(read_version(checkout), "98.7.6"))
    with pytest.raises(ReleaseError, match=rf"{VERSION_FILES[1]} has 98\.7\.6"):
        read_version(checkout)


@pytest.mark.parametrize("version", ["", "1", "1.2", "v1.2.3", "1.2.3-rc1", "1.2.3.dev0", "1.2.3\n"])
def test_a_malformed_version_is_refused(version: str, checkout: Path) -> None:
    with pytest.raises(ReleaseError, match="is not a version"):
        write_version(checkout, version)
