"""Writes docs/protocol.md, the table of what is served, from the table that serves it.

python -m docs.generate_protocol
"""

from pathlib import Path
from typing import Final

from protocol.apis import APIS
from protocol.schema import VersionRange

PAGE: Final = Path(__file__).with_name("protocol.md")
_INTRODUCTION: Final = """# The APIs that groupd serves

Generated from `protocol/apis.py` by `python -m docs.generate_protocol`; a test fails when it is stale.
`ApiVersions` advertises exactly this. The fields of a message, version by version, are its declaration: one
file an API below `protocol/messages/`; `python -m protocol.codegen JoinGroupRequest 9` prints the code that
reads and writes one.

| key | API | versions | flexible from | declared in |
|---:|---|---|---|---|
"""


def page() -> str:
    """The page as it should be."""
    return _INTRODUCTION + "".join(
        f"| {key} | {api.name} | {_text(api.versions)} | {_flexible_from(api.versions, api.flexible)} "
        f"| `protocol/messages/{api.key.name.lower()}.py` |\n"
        for key, api in sorted(APIS.items())
    )


def _text(versions: VersionRange) -> str:
    return str(versions.first) if versions.first == versions.last else f"{versions.first} to {versions.last}"


def _flexible_from(versions: VersionRange, flexible: VersionRange) -> str:
    first = max(versions.first, flexible.first)
    return str(first) if first in versions and first in flexible else "never"


if __name__ == "__main__":
    PAGE.write_text(page())
