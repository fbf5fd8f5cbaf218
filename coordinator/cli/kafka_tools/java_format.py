"""Texts in the forms of Java's library: tables of `printf`, dates, durations."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Final, NamedTuple

from coordinator.cli.kafka_tools.tool_errors import KafkaError

_DATE: Final = re.compile(
    r"(\d{4,})-(\d\d?)-(\d\d?)T(\d\d?):(\d\d?):(\d\d?)\.(\d{1,3})(Z|[+-]\d\d(?::?\d\d)?)"
)
_DURATION: Final = re.compile(
    r"([+-]?)P(?:([+-]?\d+)D)?(T(?:([+-]?\d+)H)?(?:([+-]?\d+)M)?(?:([+-]?\d+(?:[.,]\d{0,9})?)S)?)?",
    re.IGNORECASE,
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ZONE: Final = re.compile(r"[Z+-]")


class TableColumn(NamedTuple):
    """A column of a table."""

    name: str
    width: int
    """The minimum width in characters; 0 for the last column, which has no padding."""
    grows: bool = False
    """Whether the column grows to its longest cell."""


def print_table(columns: Sequence[TableColumn], rows: Sequence[Sequence[object]]) -> None:
    """Print an empty line, the names of columns, and rows."""
    texts = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [
        max([column.width, *(len(text[index]) for text in texts)]) if column.grows else column.width
        for index, column in enumerate(columns)
    ]
    print()
    for cells in [[column.name for column in columns], *texts]:
        print(" ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)))


def parse_date_ms(text: str) -> int:
    """Parse an ISO 8601 date into milliseconds since the epoch; UTC without a zone. Raises KafkaError. Source:
    Kafka's `Utils.getDateTime`."""
    date, found, time = text.partition("T")
    if not found:
        raise _parse_error("Error parsing timestamp. It does not contain a 'T' according to ISO8601 format")
    if not _ZONE.search(time):
        text = f"{date}T{time}Z"
    match = _DATE.fullmatch(text)
    if match is None:
        raise _parse_error(f'Unparseable date: "{text}"')
    *numbers, zone = match.groups()
    try:
        year, month, day, hour, minute, second, millisecond = map(int, numbers)
        moment = datetime(
            year, month, day, hour, minute, second, 1000 * millisecond, tzinfo=_parse_zone(zone)
        )
    except ValueError:
        raise _parse_error(f'Unparseable date: "{text}"') from None
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _parse_zone(text: str) -> timezone:
    if text == "Z":
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[0] == "-" else offset)


def _parse_error(message: str) -> KafkaError:
    return KafkaError(f"java.text.ParseException: {message}", "java.lang.RuntimeException")


def parse_duration_ms(text: str) -> int:
    """Parse a duration such as P1DT2H into milliseconds. Raises KafkaError. Source:
    `java.time.Duration.parse`."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.group(2, 4, 5, 6)) or match.group(3) in ("T", "t"):
        raise KafkaError("Text cannot be parsed to a Duration", "java.time.format.DateTimeParseException")
    sign, days, _, hours, minutes, seconds = match.groups()
    total = timedelta(
        days=int(days or 0),
        hours=int(hours or 0),
        minutes=int(minutes or 0),
        seconds=float((seconds or "0").replace(",", ".")),
    )
    return (-total if sign == "-" else total) // timedelta(milliseconds=1)
