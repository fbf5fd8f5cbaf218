"""Where two outcomes differ, field by field."""

from collections.abc import Iterator
from typing import Final

from msgspec import json

from coordinator.control.recording.forms import Json

ABSENT: Final = object()
_MAX_SHOWN: Final = 300
_MOST: Final = 50


def differences(recorded: Json, here: Json) -> list[str]:
    """One line for each field that is not the same: its path, what was recorded, what came here."""
    lines = list(_of(recorded, here, ""))
    return lines if len(lines) <= _MOST else [*lines[:_MOST], f"and {len(lines) - _MOST} more"]


def _of(recorded: Json, here: Json, path: str) -> Iterator[str]:
    if recorded == here and type(recorded) is type(here):
        return
    if isinstance(recorded, dict) and isinstance(here, dict):
        if recorded.get("$") != here.get("$"):
            yield _line(path, recorded, here)
            return
        for name in dict.fromkeys((*recorded, *here)):
            inner = path if name.startswith("$") else f"{path}.{name}".removeprefix(".")
            yield from _of(recorded.get(name, ABSENT), here.get(name, ABSENT), inner)
    elif isinstance(recorded, list) and isinstance(here, list):
        for place in range(max(len(recorded), len(here))):
            one = recorded[place] if place < len(recorded) else ABSENT
            other = here[place] if place < len(here) else ABSENT
            yield from _of(one, other, f"{path}[{place}]")
    else:
        yield _line(path, recorded, here)


def _line(path: str, recorded: Json, here: Json) -> str:
    return f"{path}: recorded {_shown(recorded)}, here {_shown(here)}"


def _shown(form: Json) -> str:
    if form is ABSENT:
        return "nothing"
    text = json.encode(form).decode()
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
