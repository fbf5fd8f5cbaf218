"""Records as text. Source: Kafka's `DefaultMessageFormatter`, `LoggingMessageFormatter`, `NoOpMessageFormatter`."""

from collections.abc import Mapping
from struct import Struct, error
from typing import Final

from coordinator.cli.kafka_tools.record_fetcher import FetchedRecord
from coordinator.cli.kafka_tools.tool_errors import KafkaError, UsageError
from storage.batch import NO_TIMESTAMP

_PACKAGE: Final = "org.apache.kafka.tools.consumer."
_OLD_PACKAGE: Final = "kafka.tools."
_FORMATTERS: Final = ("DefaultMessageFormatter", "NoOpMessageFormatter")
_DESERIALIZERS: Final = "org.apache.kafka.common.serialization."
_NUMBERS: Final = {
    "IntegerDeserializer": Struct(">i"),
    "LongDeserializer": Struct(">q"),
    "ShortDeserializer": Struct(">h"),
    "DoubleDeserializer": Struct(">d"),
    "FloatDeserializer": Struct(">f"),
}
_TEXTS: Final = ("StringDeserializer", "ByteArrayDeserializer")
_PRINTED: Final = ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key", "value")
"""The names of `print.NAME` properties, in the order of the columns."""


class RecordFormatter:
    """Formats each record as bytes to print."""

    def __init__(self, class_name: str, properties: Mapping[str, str]) -> None:
        """Create a formatter. `class_name` is Kafka's class. Raises UsageError for an unsupported class."""
        name = class_name.removeprefix(_PACKAGE).removeprefix(_OLD_PACKAGE)
        if name not in _FORMATTERS:
            raise UsageError(
                class_name, hint=f"Use one of: {', '.join(_PACKAGE + each for each in _FORMATTERS)}"
            )
        self._is_silent = name == "NoOpMessageFormatter"
        defaults = {"value": "true"}
        self._columns = [
            column
            for column in _PRINTED
            if properties.get(f"print.{column}", defaults.get(column, "")).strip().lower() == "true"
        ]
        self._separator = properties.get("key.separator", "\t").encode()
        self._line_end = properties.get("line.separator", "\n").encode()
        self._headers_separator = properties.get("headers.separator", ",").encode()
        self._null = properties.get("null.literal", "null").encode()
        self._deserializers = {
            part: _find_deserializer(properties.get(f"{part}.deserializer", ""))
            for part in ("key", "value", "headers")
        }

    def format(self, fetched: FetchedRecord) -> bytes:
        """Return the bytes to print. Raises KafkaError if a deserializer refuses the bytes."""
        if self._is_silent:
            return b""
        columns = [self._format_column(column, fetched) for column in self._columns]
        return self._separator.join(columns) + self._line_end

    def _format_column(self, column: str, fetched: FetchedRecord) -> bytes:
        record = fetched.record
        if column == "timestamp":
            if record.timestamp_ms == NO_TIMESTAMP:
                return b"NO_TIMESTAMP"
            kind = "LogAppendTime" if fetched.is_append_time else "CreateTime"
            return f"{kind}:{record.timestamp_ms}".encode()
        if column == "partition":
            return f"Partition:{fetched.partition}".encode()
        if column == "offset":
            return f"Offset:{record.offset}".encode()
        if column in ("delivery", "epoch"):
            return f"{column.capitalize()}:NOT_PRESENT".encode()
        if column == "headers":
            headers = [
                key.encode(errors="surrogateescape") + b":" + self._deserialize("headers", text)
                for key, text in record.headers
            ]
            return self._headers_separator.join(headers) or b"NO_HEADERS"
        return self._deserialize(column, record.key if column == "key" else record.value)

    def _deserialize(self, part: str, data: bytes | None) -> bytes:
        number = self._deserializers[part]
        if data is None or number is None:
            return self._null if data is None else data
        try:
            return str(number.unpack(data)[0]).encode()
        except error:
            message = f"{len(data)} bytes of a {part} are not a number of {number.size} bytes"
            raise KafkaError(message, "SerializationException") from None


def _find_deserializer(class_name: str) -> Struct | None:
    """Return the number format of a deserializer, or None for one that leaves the bytes unchanged. Raises
    UsageError."""
    name = class_name.removeprefix(_DESERIALIZERS)
    if not name or name in _TEXTS:
        return None
    if name not in _NUMBERS:
        accepted = ", ".join(_DESERIALIZERS + each for each in (*_TEXTS, *_NUMBERS))
        raise UsageError(f"{class_name} is not supported by groupd's tool", hint=f"Use one of: {accepted}")
    return _NUMBERS[name]
