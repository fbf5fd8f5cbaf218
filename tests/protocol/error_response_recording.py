"""Error responses of Kafka's own request classes: python -m tests.protocol.error_response_recording records them.

Recording needs Java and Maven, and some seconds.
"""

import lzma
import os
import subprocess
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from protocol.apis import APIS, ApiKey
from protocol.codec import encode
from protocol.error_codes import ErrorCode
from tests.interop.build import kafka
from tests.protocol.declared import full, random_messages

_FOLDER: Final = os.path.dirname(os.path.abspath(__file__))
_RECORDING: Final = os.path.join(_FOLDER, "error-responses-4.4.0.txt.xz")
_JAVA: Final = os.path.join(_FOLDER, "java")
_UNORDERED: Final = frozenset({ApiKey.PRODUCE, ApiKey.WRITE_TXN_MARKERS})
"""The APIs for which Kafka collects the entries in a hash map, so that their requests name one of each."""
_REQUESTS: Final = 30
"""Requests that are tried for each version: Kafka does not take all of them."""
_KEPT: Final = 3
NO_MESSAGE: Final = "-"
MESSAGES: Final = (NO_MESSAGE, "a reason")
ERROR: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
"""Its own message is the same here and in Kafka."""


class RecordedError(NamedTuple):
    """The body of a request and of Kafka's error response. `message` is the one that Kafka got with the error."""

    api_key: ApiKey
    version: int
    message: str
    request: bytes
    response: bytes


def read() -> Iterator[RecordedError]:
    """Read the recording."""
    with lzma.open(_RECORDING, "rt", encoding="utf-8") as lines:
        for line in lines:
            key, version, message, request, response = line.rstrip("\n").split("\t")
            yield RecordedError(
                ApiKey(int(key)), int(version), message, bytes.fromhex(request), bytes.fromhex(response)
            )


def _write(recorded: Iterable[RecordedError]) -> None:
    with lzma.open(_RECORDING, "wt", preset=9 | lzma.PRESET_EXTREME, encoding="utf-8") as lines:
        for each in recorded:
            lines.write(
                f"{int(each.api_key)}\t{each.version}\t{each.message}\t"
                f"{each.request.hex()}\t{each.response.hex()}\n"
            )


def _keep_first_elements(message: Any) -> Any:
    for name in getattr(message, "__struct_fields__", ()):
        value = getattr(message, name)
        if isinstance(value, list):
            setattr(message, name, [_keep_first_elements(each) for each in value[:1]])
    return message


def _create_requests() -> Iterator[tuple[ApiKey, int, str, bytes]]:
    for key, api in APIS.items():
        for version in range(api.versions.first, api.versions.last + 1):
            for message in MESSAGES:
                requests = random_messages(api.request, version, _REQUESTS)
                if key in _UNORDERED:
                    requests = iter([_keep_first_elements(full(api.request, version))])
                for request in requests:
                    yield ApiKey(key), version, message, encode(request, version)


def record() -> list[RecordedError]:
    """Ask Kafka's classes. Raises CannotBuild."""
    asked = list(_create_requests())
    command = kafka("kafka-error-responses", _JAVA, ("ErrorResponses.java",))
    lines = (
        f"{int(key)}\t{version}\t{int(ERROR)}\t{message}\t{body.hex()}\n"
        for key, version, message, body in asked
    )
    done = subprocess.run(
        [*command, "ErrorResponses"],
        input="".join(lines),
        stdout=subprocess.PIPE,
        check=True,
        encoding="utf-8",
    )
    kept: dict[tuple[ApiKey, int, str], list[RecordedError]] = {}
    for (key, version, message, body), answer in zip(asked, done.stdout.splitlines(), strict=True):
        mine = kept.setdefault((key, version, message), [])
        if answer[0] not in "-!" and len(mine) < _KEPT:
            mine.append(RecordedError(key, version, message, body, bytes.fromhex(answer)))
    return [each for recorded in kept.values() for each in recorded]


if __name__ == "__main__":
    _write(record())
    print(f"{sum(1 for _ in read())} responses, {os.path.getsize(_RECORDING)} bytes")
