"""Apache Kafka's recorded handling of properties: python -m tests.config.record"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tests.kafka_log.artifacts import NEWEST

DEFINITIONS: Final = Path(__file__).parent / "definitions" / f"kafka-{NEWEST}.jsonl"


class Definition(NamedTuple):
    """A property as Kafka defines it, and the tested values that Kafka accepts."""

    of: str
    """`broker` or `topic`."""
    name: str
    kind: str
    default: str | None
    bounds: str
    """In Kafka's own words; "" where it has none, or checks them elsewhere."""
    taken: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


@cache
def definitions() -> Mapping[tuple[str, str], Definition]:
    """Return every property by owner and name."""
    lines = map(json.loads, DEFINITIONS.read_text(encoding="utf-8").splitlines())
    found = [
        Definition(**line | {"taken": tuple(line["taken"]), "refused": tuple(line["refused"])})
        for line in lines
    ]
    return {(definition.of, definition.name): definition for definition in found}
