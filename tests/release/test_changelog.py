"""The section of a release in the changelog."""

from datetime import date

import pytest

from release.changelog import FILE, UNRELEASED, read_changes, release_changes
from release.distributions import ROOT, ReleaseError
from release.version import read_version

TEXT = """# Changes

Versions follow semantic versioning.

## Unreleased

### Added

- A thing.

## 0.1.0

- Everything.
"""
DAY = date(2026, 11, 28)


def test_unreleased_changes_become_the_section_of_the_version() -> None:
    released = release_changes(TEXT, "0.2.0", DAY)
    assert "## Unreleased\n\n## 0.2.0 - 2026-11-28\n\n### Added\n\n- A thing.\n\n## 0.1.0\n" in released
    assert read_changes(released, "0.2.0") == "### Added\n\n- A thing.\n"
    assert read_changes(released, "0.1.0") == "- Everything.\n"


def test_a_release_without_changes_is_refused() -> None:
    released = release_changes(TEXT, "0.2.0", DAY)
    with pytest.raises(ReleaseError, match="no change"):
        release_changes(released, "0.3.0", DAY)


def test_a_version_has_one_section() -> None:
    with pytest.raises(ReleaseError, match=r"already has a section 0\.1\.0"):
        release_changes(TEXT, "0.1.0", DAY)
    with pytest.raises(ReleaseError, match=r"no section 0\.2"):
        read_changes(TEXT, "0.2")


def has_notes(text: str, version: str) -> bool:
    """Whether a changelog has notes of its next release or, on the commit of a release, of that version."""
    try:
        notes = read_changes(release_changes(text, "99.0.0", DAY), "99.0.0")
    except ReleaseError:
        notes = read_changes(text, version)
    return notes.startswith("### ")


def test_the_changelog_of_this_repository_has_notes_before_and_after_a_release() -> None:
    text = (ROOT / FILE).read_text()
    assert has_notes(text, read_version(ROOT))
    assert has_notes(release_changes(text, "99.0.0", DAY), "99.0.0")
    assert not has_notes(TEXT.replace(f"## {UNRELEASED}", "## Next"), "0.1.0")
