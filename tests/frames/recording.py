"""The exchanges that are kept: a text file for each Kafka, one exchange a line, below a line about their origin."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from protocol.apis import APIS, Api
from protocol.codec import decode
from protocol.framing import encode_request, encode_response, parse_request_header, response_body_position

FOLDER: Final = Path(__file__).parent
_BY_NAME: Final = {api.name: api for api in APIS.values()}


class Exchange(NamedTuple):
    """A request and its response, as whole frames without their size, and the client."""

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


def kept_of(kafka: str) -> list[Exchange]:
    """What is kept of this Kafka."""
    return list(_of(_file(kafka)))


def origin(kafka: str) -> dict[str, Any]:
    """Return the first line of the recording for this Kafka."""
    with _file(kafka).open(encoding="ascii") as file:
        first: dict[str, Any] = json.loads(file.readline())
    return first


def request_again(exchange: Exchange) -> bytes:
    """The request, decoded and encoded. Raises Malformed."""
    _, api, version, request, _ = exchange
    header = parse_request_header(request)
    assert (header.api_key, header.api_version) == (api.key, version)
    asked = decode(api.request, version, request, header.body_position)
    return bytes(encode_request(api.key, version, header.correlation_id, header.client_id, asked))[4:]


def response_again(exchange: Exchange) -> bytes:
    """The answer, decoded and encoded. Raises Malformed."""
    _, api, version, request, response = exchange
    answered = decode(api.response, version, response, response_body_position(api.key, version, response))
    return bytes(encode_response(api.key, version, parse_request_header(request).correlation_id, answered))[
        4:
    ]


def write(kafka: str, about: dict[str, Any], exchanges: Iterable[Exchange]) -> None:
    """Replace the recording for this Kafka; `about` is its first line."""
    ordered = sorted(exchanges, key=lambda each: (each.api.key, each.version, each.client, each.request))
    lines = [json.dumps(about)]
    for client, api, version, request, response in ordered:
        frames = {"request": request.hex(), "response": response.hex()}
        lines.append(json.dumps({"client": client, "api": api.name, "version": version, **frames}))
    _file(kafka).write_text("\n".join(lines) + "\n", "ascii")


def _file(kafka: str) -> Path:
    return FOLDER / f"kafka-{kafka}.jsonl"
