"""Read log ends from a file with external measurements.

The file is CSV with a header, or JSON: an array of objects. Both have `topic`, `partition` and `log_end_offset`,
and optionally `log_start_offset` and `at`, the time of the measurement (ISO 8601, UTC without an offset, or
milliseconds since 1970). Several measurements of a partition give its lag a history. The lines
`topic:partition:offset` of Kafka's kafka-get-offsets.sh are accepted as well.
"""

import csv
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from pipeline.errors import BadInput
from pipeline.log_ends.log_end import LogEnd
from storage.storage_errors import format_error_reason

SOURCE: Final = "file"
REQUIRED: Final = ("topic", "partition", "log_end_offset")
MAX_PARTITION: Final = 2**31 - 1
MAX_OFFSET: Final = 2**63 - 1


def ends_in_file(path: str, now_ms: int) -> list[LogEnd]:
    """Return all measurements in a file. `now_ms` is the time of entries without one.

    Raises:
        BadInput: the file is malformed; the text names the file and the entry.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            text = file.read()
    except OSError as error:
        raise BadInput(f"{path}: {format_error_reason(error, path)}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: is not UTF-8 text at byte {error.start}") from error
    ends = [_end(path, place, entry, now_ms) for place, entry in _entries(path, text)]
    if not ends:
        raise BadInput(f"{path}: has no log end offsets")
    return ends


def _entries(path: str, text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every entry with a description of its position."""
    first, _, _ = text.lstrip().partition("\n")
    if first.startswith(("[", "{")):
        yield from _json_entries(path, text)
    elif "," in first:
        reader = csv.DictReader(text.splitlines())
        missing = [name for name in REQUIRED if name not in (reader.fieldnames or ())]
        if missing:
            raise BadInput(f"{path}: line 1: the header lacks {', '.join(missing)}")
        for row in reader:
            yield (
                f"line {reader.line_num}",
                {key: value for key, value in row.items() if value not in (None, "")},
            )
    else:
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                yield f"line {number}", dict(zip(REQUIRED, line.strip().rsplit(":", 2), strict=False))


def _json_entries(path: str, text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise BadInput(f"{path}: is not JSON: {error}") from error
    for number, entry in enumerate(document if isinstance(document, list) else [document], 1):
        if not isinstance(entry, dict):
            raise BadInput(f"{path}: entry {number}: is not an object")
        yield f"entry {number}", {key: value for key, value in entry.items() if value is not None}


def _end(path: str, place: str, entry: Mapping[str, Any], now_ms: int) -> LogEnd:
    missing = [name for name in REQUIRED if name not in entry]
    if missing:
        raise BadInput(f"{path}: {place}: lacks {', '.join(missing)}")
    try:
        topic = entry["topic"]
        if not isinstance(topic, str) or not topic:
            raise ValueError(f"{topic!r} is not the name of a topic")
        start = entry.get("log_start_offset")
        return LogEnd(
            topic,
            _number(entry["partition"], MAX_PARTITION),
            now_ms if entry.get("at") is None else _time_ms(entry["at"]),
            None if start is None else _number(start, MAX_OFFSET),
            _number(entry["log_end_offset"], MAX_OFFSET),
            SOURCE,
        )
    except (ValueError, OverflowError) as error:
        raise BadInput(f"{path}: {place}: {error}") from error


def _number(value: Any, largest: int) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        number = int(value)
    else:
        raise ValueError(f"{value!r} is not a whole number from 0 on")
    if not 0 <= number <= largest:
        raise ValueError(f"{number} is not between 0 and {largest}")
    return number


def _time_ms(value: Any) -> int:
    if isinstance(value, int) or (isinstance(value, str) and value.strip().isdigit()):
        return _number(value, MAX_OFFSET // 1_000_000)
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a time")
    time = datetime.fromisoformat(value.strip())
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
