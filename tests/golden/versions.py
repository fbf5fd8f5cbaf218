"""Where the golden data of each version lie."""

import json
import os
from typing import Any, Final

ROOT: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
VERSIONS: Final = sorted(os.listdir(ROOT)) if os.path.isdir(ROOT) else []
"""The versions with golden data. A test of a format takes each of them as a parameter."""


def golden_path(version: str, name: str) -> str:
    """A file of golden data."""
    return os.path.join(ROOT, version, name)


def read_json(version: str, name: str) -> Any:
    """A JSON file of golden data."""
    with open(golden_path(version, name), encoding="utf-8") as file:
        return json.load(file)


def write_json(version: str, name: str, document: Any) -> None:
    """Replaces a JSON file of golden data."""
    with open(golden_path(version, name), "w", encoding="utf-8") as file:
        file.write(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
