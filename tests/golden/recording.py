"""The exchanges that are kept: a text file, one exchange a line, below a line that says where they come from."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from protocol.apis import APIS, Api

FRAMES: Final = Path(__file__).with_name("kafka-4.4.0.jsonl")
_BY_NAME: Final = {api.name: api for api in APIS.values()}


class Exchange(NamedTuple):
    """A request and what the broker answered: whole frames without their size, and who asked."""

    client: str
    api: Api
    version: int
    request: bytes
    response: bytes


def read() -> list[Exchange]:
    """Everything that is kept."""
    entries = [json.loads(line) for line in FRAMES.read_text("ascii").splitlines()[1:]]
    return [
        Exchange(
            entry["client"],
            _BY_NAME[entry["api"]],
            entry["version"],
            bytes.fromhex(entry["request"]),
            bytes.fromhex(entry["response"]),
        )
        for entry in entries
    ]


def origin() -> dict[str, Any]:
    """What the first line says."""
    with FRAMES.open(encoding="ascii") as file:
        first: dict[str, Any] = json.loads(file.readline())
    return first


def write(about: dict[str, Any], exchanges: Iterable[Exchange]) -> None:
    """Replaces what is kept. In: what the first line shall say."""
    ordered = sorted(exchanges, key=lambda each: (each.api.key, each.version, each.client, each.request))
    lines = [json.dumps(about)]
    for client, api, version, request, response in ordered:
        frames = {"request": request.hex(), "response": response.hex()}
        lines.append(json.dumps({"client": client, "api": api.name, "version": version, **frames}))
    FRAMES.write_text("\n".join(lines) + "\n", "ascii")
