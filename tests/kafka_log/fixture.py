"""The captured directories of a real broker; see record.py for where they come from."""

import io
import json
import lzma
import os
import re
import tarfile
from typing import Any, Final

FIXTURES: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures")
NAMES: Final = ("clean", "killed", "compacted")
OFFSETS_PARTITION: Final = re.compile(r"__consumer_offsets-\d+")


def unpack(name: str, directory: str) -> None:
    """Puts a captured data directory into an empty one."""
    with open(os.path.join(FIXTURES, f"{name}.tar.xz"), "rb") as file:
        raw = lzma.decompress(file.read())
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        archive.extractall(directory, filter="data")


def expected(name: str) -> Any:
    """What the broker said before it ended (groups: `served`, `topics`, offsets of committed `records`), and what
    Kafka's tool says of the directory (`log`).
    """
    with open(os.path.join(FIXTURES, f"{name}.json"), encoding="utf-8") as file:
        return json.load(file)
