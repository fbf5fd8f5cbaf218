"""Lines of standard input as records. Source: Kafka's `LineMessageReader`."""

import re
import select
import sys
from collections.abc import Iterator, Mapping
from io import BufferedReader
from itertools import combinations
from typing import BinaryIO, Final, NamedTuple

from coordinator.cli.kafka_tools.tool_errors import ToolFailure
from coordinator.core.clock import wall_ms
from storage.record import UNASSIGNED_OFFSET, Record

READER_PROPERTIES: Final = (
    "parse.key",
    "key.separator",
    "parse.headers",
    "headers.delimiter",
    "headers.separator",
    "headers.key.separator",
    "ignore.error",
    "null.marker",
)
"""The properties that --reader-property can set."""
_CHUNK_BYTES: Final = 64 * 1024
_BATCH_BYTES: Final = 16 * 1024


class _Separators(NamedTuple):
    """The separators in a line, in the order in which Kafka checks them."""

    headers_delimiter: str
    headers_separator: str
    headers_key_separator: str
    key_separator: str


class LineReader:
    """Converts lines to records: VALUE, KEY VALUE, or HEADERS KEY VALUE, with separators in between."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """Create a reader. Properties other than READER_PROPERTIES have no effect, as in Kafka. Raises ToolFailure
        if separators are equal.
        """
        self._parses_key = _is_true(properties, "parse.key")
        self._parses_headers = _is_true(properties, "parse.headers")
        self._ignores_errors = _is_true(properties, "ignore.error")
        self._null_marker = properties.get("null.marker")
        self._separators = _Separators(
            properties.get("headers.delimiter", "\t"),
            properties.get("headers.separator", ","),
            properties.get("headers.key.separator", ":"),
            properties.get("key.separator", "\t"),
        )
        self._line_number = 0
        self._check_separators()

    def parse(self, data: bytes) -> Record:
        """Return the record of one line, without its end. Raises ToolFailure for a separator that is missing."""
        self._line_number += 1
        line = data.decode(errors="replace")
        parts = self._separators
        headers, rest = self._split(
            self._parses_headers, line, line, parts.headers_delimiter, "headers delimiter"
        )
        key, value = self._split(self._parses_key, line, rest, parts.key_separator, "key separator")
        found = () if headers is None or headers == self._null_marker else self._parse_headers(headers)
        return Record(UNASSIGNED_OFFSET, wall_ms(), self._encode(key), self._encode(value), found)

    def _split(
        self, is_wanted: bool, line: str, rest: str, separator: str, name: str
    ) -> tuple[str | None, str]:
        """Return the text before a separator (None if it is missing), and the text after it."""
        if not is_wanted:
            return None, rest
        before, found, after = rest.partition(separator)
        if found:
            return before, after
        if self._ignores_errors:
            return None, rest
        raise _failure(f"No {name} found on line number {self._line_number}: '{line}'")

    def _parse_headers(self, text: str) -> tuple[tuple[str, bytes | None], ...]:
        headers: list[tuple[str, bytes | None]] = []
        for pair in re.split(self._separators.headers_separator, text):
            key, found, value = pair.partition(self._separators.headers_key_separator)
            if not found and not self._ignores_errors:
                raise _failure(
                    f"No header key separator found in pair '{pair}' on line number {self._line_number}"
                )
            if key == self._null_marker:
                raise _failure(
                    f"Header keys should not be equal to the null marker '{key}' as they can't be null"
                )
            headers.append((key, self._encode(value) if found else None))
        return tuple(headers)

    def _encode(self, text: str | None) -> bytes | None:
        return None if text is None or text == self._null_marker else text.encode()

    def _check_separators(self) -> None:
        names = ("headers.delimiter", "headers.separator", "headers.key.separator", "key.separator")
        for (name, text), (other, same) in combinations(zip(names[:3], self._separators[:3], strict=True), 2):
            if text == same:
                raise _failure(f"{name} and {other} may not be equal")
        for name, text in zip(
            (names[3], *names[:3]), (self._separators[3], *self._separators[:3]), strict=True
        ):
            if text == self._null_marker:
                raise _failure(f"null.marker and {name} may not be equal")


def read_lines(stream: BinaryIO, pause_s: float) -> Iterator[list[bytes]]:
    """Yield the lines of a stream as they arrive, several at once. At a terminal print a prompt, as Kafka does.

    `pause_s` is the time in seconds to wait for further lines before the available ones are yielded.
    """
    has_prompt = sys.stdin.isatty() and sys.stdout.isatty()
    rest, lines, size = b"", list[bytes](), 0
    while chunk := _read_chunk(stream, has_prompt=has_prompt):
        *whole, rest = (rest + chunk).split(b"\n")
        lines += [line.removesuffix(b"\r") for line in whole]
        size += len(chunk)
        if lines and (size >= _BATCH_BYTES or not _has_more(stream, 0.0 if has_prompt else pause_s)):
            yield lines
            lines, size = [], 0
    lines += [rest] if rest else []
    if lines:
        yield lines


def _read_chunk(stream: BinaryIO, *, has_prompt: bool) -> bytes:
    """Return the available bytes, at least one; nothing at the end of the stream."""
    if has_prompt:
        print(">", end="", flush=True)
    return stream.read1(_CHUNK_BYTES) if isinstance(stream, BufferedReader) else stream.read()


def _has_more(stream: BinaryIO, timeout_s: float) -> bool:
    if not isinstance(stream, BufferedReader):
        return True
    return bool(select.select([stream], [], [], timeout_s)[0])


def _is_true(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "").strip().lower() == "true"


def _failure(message: str) -> ToolFailure:
    return ToolFailure(f"org.apache.kafka.common.KafkaException: {message}")
