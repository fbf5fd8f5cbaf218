"""A client of a transcript, with the state that a Kafka client keeps between its requests."""

import re
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

ONCE: Final = frozenset(
    {"v", "id", "generation", "reason", "stable", "retention", "states", "types", "protocol", "owned"}
)
_OPTIONS: Final = ONCE | {
    "group",
    "session",
    "rebalance",
    "instance",
    "type",
    "protocols",
    "topics",
    "producer",
}


@dataclass
class Client:
    """Its name, the options of its command lines so far, and the coordinator's answers."""

    name: str
    options: dict[str, str] = field(default_factory=dict)
    member_id: str = ""
    generation_id: int = -1
    protocol_name: str | None = None


def options_of(words: list[str]) -> dict[str, str]:
    """The `key=value` words of a command line; those of ONCE hold for one request only."""
    return dict(word.split("=", 1) for word in words if word.partition("=")[0] in _OPTIONS)


def milliseconds(text: str) -> int:
    """Read `10s`, `500ms`, `7d`."""
    digits = text.rstrip("smhd")
    return int(digits) * _UNITS[text[len(digits) :]]


def member_uuid(number: int) -> str:
    """The UUID that stands for a number."""
    return str(UUID(int=number))


def shorten(line: str) -> str:
    """Write `A-1` for the member id that ends in the first UUID."""
    return re.sub(r"-0{8}-0{4}-0{4}-0{4}-0{0,11}(\d+)", r"-\1", line)


def lengthen(member_id: str) -> str:
    """The member id that `A-1` stands for; other texts as they are."""
    name, dash, number = member_id.rpartition("-")
    return f"{name}-{member_uuid(int(number))}" if dash and number.isdigit() else member_id
