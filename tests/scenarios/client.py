"""A client of a story: what a Kafka client keeps in mind between its requests."""

from dataclasses import dataclass, field
from typing import Final

_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass
class Client:
    """Its name, what its command lines said so far, and what the coordinator told it."""

    name: str
    options: dict[str, str] = field(default_factory=dict)
    member_id: str = ""
    generation_id: int = -1
    protocol_name: str | None = None


def milliseconds(text: str) -> int:
    """Read `10s`, `500ms`, `7d`."""
    digits = text.rstrip("smhd")
    return int(digits) * _UNITS[text[len(digits) :]]
