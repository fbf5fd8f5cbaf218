"""The captured directories of a real broker; see record.py for where they come from."""

import json
import os
import re
from typing import Any, Final

from tests import archive

FIXTURES: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures")
NAMES: Final = ("clean", "killed", "compacted")
OFFSETS_PARTITION: Final = re.compile(r"__consumer_offsets-\d+")


def unpack(name: str, directory: str) -> None:
    """Puts a captured data directory into an empty one."""
    archive.unpack(os.path.join(FIXTURES, f"{name}.tar.xz"), directory)


def expected(name: str) -> Any:
    """The answers of the broker before its end (groups: `served`, `topics`, offsets of committed `records`), and
    the output of Kafka's tool about the directory (`log`).
    """
    with open(os.path.join(FIXTURES, f"{name}.json"), encoding="utf-8") as file:
        return json.load(file)
