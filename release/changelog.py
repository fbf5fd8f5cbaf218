"""Sections of CHANGELOG.md. `python -m release.changelog 0.2.0` prints one: the notes of that release."""

import argparse
import re
import sys
from datetime import date
from typing import Final

from release.distributions import ROOT, ReleaseError

FILE: Final = "CHANGELOG.md"
UNRELEASED: Final = "Unreleased"
_HEADING: Final = re.compile(r"^## (.+)$", re.MULTILINE)


def release_changes(text: str, version: str, day: date) -> str:
    """Return the text with the unreleased changes in a section of a version, and an empty section above it.

    Raises ReleaseError if the version has a section already, or without an unreleased change.
    """
    sections = _read_sections(text)
    if any(title.split()[0] == version for title in sections):
        raise ReleaseError(f"{FILE} already has a section {version}: choose a higher version")
    if not re.search(r"^- ", sections.get(UNRELEASED, ""), re.MULTILINE):
        raise ReleaseError(f"{FILE} has no change below `## {UNRELEASED}`: write what changed for users")
    return text.replace(f"## {UNRELEASED}\n", f"## {UNRELEASED}\n\n## {version} - {day.isoformat()}\n", 1)


def read_changes(text: str, version: str) -> str:
    """Return the changes of a version, without the heading. Raises ReleaseError if there is no such section."""
    for title, body in _read_sections(text).items():
        if title.split()[0] == version:
            return body.strip() + "\n"
    raise ReleaseError(f"{FILE} has no section {version}")


def _read_sections(text: str) -> dict[str, str]:
    _, *parts = _HEADING.split(text)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def main() -> None:
    """Print the changes of a version."""
    parser = argparse.ArgumentParser(
        prog="python -m release.changelog", description="Print the changes of a version."
    )
    parser.add_argument("version")
    try:
        print(read_changes((ROOT / FILE).read_text(), parser.parse_args().version), end="")
    except ReleaseError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
