"""The exchanges that are kept: a text file for each Kafka, one exchange a line, below a line about their origin."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from protocol.apis import APIS, Api

FOLDER: Final = Path(__file__).parent
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
    return [exchange for file in sorted(FOLDER.glob("kafka-*.jsonl")) for exchange in _of(file)]


def _of(file: Path) -> Iterator[Exchange]:
    for line in file.read_text("ascii").splitlines()[1:]:
        entry = json.loads(line)
        yield Exchange(
            entry["client"],
            _BY_NAME[entry["api"]],
            entry["version"],
            bytes.fromhex(entry["request"]),
            bytes.fromhex(entry["response"]),
        )


def origin(kafka: str) -> dict[str, Any]:
    """What the first line says of what is kept of this Kafka."""
    with _file(kafka).open(encoding="ascii") as file:
        first: dict[str, Any] = json.loads(file.readline())
    return first


def write(kafka: str, about: dict[str, Any], exchanges: Iterable[Exchange]) -> None:
    """Replaces what is kept of this Kafka. In: what the first line shall say."""
    ordered = sorted(exchanges, key=lambda each: (each.api.key, each.version, each.client, each.request))
    lines = [json.dumps(about)]
    for client, api, version, request, response in ordered:
        frames = {"request": request.hex(), "response": response.hex()}
        lines.append(json.dumps({"client": client, "api": api.name, "version": version, **frames}))
    _file(kafka).write_text("\n".join(lines) + "\n", "ascii")


def _file(kafka: str) -> Path:
    return FOLDER / f"kafka-{kafka}.jsonl"
