"""`kafka-console-producer`: write lines of standard input to a topic. Source: Kafka's `ConsoleProducer`."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final, NamedTuple

from coordinator.cli.kafka_tools.client_settings import make_settings, parse_pairs, read_properties
from coordinator.cli.kafka_tools.cluster_client import ClusterClient
from coordinator.cli.kafka_tools.line_reader import LineReader, read_lines
from coordinator.cli.kafka_tools.record_sender import RecordSender, print_failures
from coordinator.cli.kafka_tools.tool_call import parse_options
from coordinator.cli.kafka_tools.tool_errors import ToolFailure, UsageError, error_from_code
from coordinator.cli.kafka_tools.tool_options import (
    BOOTSTRAP,
    COMMAND_CONFIG,
    OptionTable,
    ParsedOptions,
    alias,
    flag,
    ignored,
    optional_value,
    unsupported,
    value,
)
from protocol.error_codes import ErrorCode
from storage.compression import CODEC_NAMES
from storage.record import Record

OPTIONS: Final = OptionTable(
    BOOTSTRAP,
    alias("broker-list", "bootstrap-server"),
    COMMAND_CONFIG,
    value("producer.config", "FILE", "The old name of --command-config."),
    value("command-property", "NAME=VALUE", "A client property; may be repeated."),
    value("producer-property", "NAME=VALUE", "The old name of --command-property."),
    value("topic", "TOPIC", "The topic to write to."),
    value(
        "reader-property", "NAME=VALUE", "How lines are read: parse.key, key.separator, parse.headers, ..."
    ),
    value("property", "NAME=VALUE", "The old name of --reader-property."),
    value("reader-config", "FILE", "Reader properties in a file."),
    flag("sync", "End at the first record that is not written, with exit code 1."),
    optional_value("compression-codec", "CODEC", "none, gzip (without a value), snappy, lz4, zstd."),
    value("request-required-acks", "ACKS", "0, 1 or all. 0 waits for an answer like 1."),
    value("request-timeout-ms", "MS", "How long the broker may wait for replicas."),
    value("max-block-ms", "MS", "How long to wait for the topic."),
    value("timeout", "MS", "How long to wait for more lines before those at hand are sent."),
    ignored("batch-size", "BYTES"),
    ignored("max-memory-bytes", "BYTES"),
    ignored("max-partition-memory-bytes", "BYTES"),
    ignored("message-send-max-retries", "NUMBER"),
    ignored("metadata-expiry-ms", "MS"),
    ignored("retry-backoff-ms", "MS"),
    ignored("socket-buffer-size", "BYTES"),
    unsupported("line-reader", "CLASS"),
)
UNRECOGNIZED_PREFIX: Final = ""
_SUMMARY: Final = "This tool helps to read data from standard input and publish it to Kafka."
_NUMBERS: Final = ("batch-size", "request-timeout-ms", "max-block-ms", "timeout")
_ACKS: Final = {"all": -1, "-1": -1, "1": 1, "0": 1}
_REQUEST_TIMEOUT_MS: Final = 1500
_MAX_BLOCK_MS: Final = 60_000
_LINGER_MS: Final = 1000
_MAX_RECORD_BYTES: Final = 1024 * 1024
_MAX_SENT_BYTES: Final = 512 * 1024


class _ProducerOptions(NamedTuple):
    """The parsed options of a call."""

    properties: dict[str, str]
    reader: LineReader
    acks: int
    codec: int


def run(arguments: Sequence[str]) -> int:
    """Run the tool and return the exit code."""
    options = parse_options(OPTIONS, arguments, _SUMMARY)
    options.require("topic")
    if not options.has("bootstrap-server"):
        raise UsageError("Error while validating the bootstrap address")
    for name in _NUMBERS:
        options.integer(name)
    producer = _configure(options)
    settings = make_settings(options.text("bootstrap-server"), producer.properties)
    topic = options.text("topic")
    with closing(ClusterClient(settings, "console-producer")) as client:
        sender = RecordSender(
            client,
            topic,
            acks=producer.acks,
            codec=producer.codec,
            timeout_ms=options.integer("request-timeout-ms") or _REQUEST_TIMEOUT_MS,
            max_block_s=(options.integer("max-block-ms") or _MAX_BLOCK_MS) / 1000,
        )
        return _send_lines(sender, producer.reader, options)


def _configure(options: ParsedOptions) -> _ProducerOptions:
    """Return the options of a call, and print the warnings of Kafka's tool. Raises UsageError, ToolFailure."""
    _check_old_names(options)
    properties = {
        **read_properties(options.get("command-config") or options.get("producer.config")),
        **parse_pairs([*options.all("command-property"), *options.all("producer-property")]),
    }
    reader_properties = {
        **read_properties(options.get("reader-config")),
        **parse_pairs([*options.all("reader-property"), *options.all("property")], lacks_value=""),
    }
    reader = LineReader(reader_properties)
    acks = options.get("request-required-acks") or properties.get("acks", "all")
    if acks not in _ACKS:
        raise _invalid_value("acks", acks, "all, -1, 0, 1")
    codec = properties.get("compression.type", "none")
    if options.has("compression-codec"):
        codec = options.get("compression-codec") or "gzip"
    codecs = {name: number for number, name in CODEC_NAMES.items()}
    if codec not in codecs:
        raise _invalid_value("compression.type", codec, ", ".join(codecs))
    return _ProducerOptions(properties, reader, _ACKS[acks], codecs[codec])


def _check_old_names(options: ParsedOptions) -> None:
    for new, old in (
        ("command-config", "producer.config"),
        ("command-property", "producer-property"),
        ("reader-property", "property"),
    ):
        if options.has(new) and options.has(old):
            raise UsageError(f"Options --{new} and --{old} cannot be specified together.")
    for old, new in (
        ("producer-property", "command-property"),
        ("producer.config", "command-config"),
        ("property", "reader-property"),
    ):
        if options.has(old):
            print(
                f"Warning: --{old} is deprecated and will be removed in a future version. Use --{new} instead."
            )


def _invalid_value(name: str, text: str, accepted: str) -> ToolFailure:
    return ToolFailure(
        f"org.apache.kafka.common.config.ConfigException: Invalid value {text} for configuration {name}: "
        f"String must be one of: {accepted}"
    )


def _send_lines(sender: RecordSender, reader: LineReader, options: ParsedOptions) -> int:
    """Send the lines of standard input up to the first unreadable one. Return the exit code."""
    topic = options.text("topic")
    linger_ms = options.integer("timeout")
    pause_s = (_LINGER_MS if linger_ms is None else linger_ms) / 1000
    if sys.stdin is None:  # closed
        return 0
    for lines in read_lines(sys.stdin.buffer, pause_s):
        records, failure = _parse_lines(reader, lines)
        for batch in _split_batches(records):
            failed = [
                (record, error_from_code(ErrorCode.MESSAGE_TOO_LARGE))
                for record in batch
                if _find_size(record) > _MAX_RECORD_BYTES
            ]
            fitting = [record for record in batch if _find_size(record) <= _MAX_RECORD_BYTES]
            failed += sender.send(fitting) if fitting else []
            if failed and options.has("sync"):
                raise ToolFailure(f"java.util.concurrent.ExecutionException: {failed[0][1].qualified}")
            print_failures(topic, failed)
        if failure is not None:
            raise failure
    return 0


def _parse_lines(reader: LineReader, lines: Sequence[bytes]) -> tuple[list[Record], ToolFailure | None]:
    """Return the records up to the first unreadable line, and the error of that line, if any."""
    records: list[Record] = []
    for line in lines:
        try:
            records.append(reader.parse(line))
        except ToolFailure as failure:
            return records, failure
    return records, None


def _split_batches(records: Sequence[Record]) -> Iterator[list[Record]]:
    """Yield groups of consecutive records that fit into one request."""
    run_: list[Record] = []
    size = 0
    for record in records:
        if run_ and size + _find_size(record) > _MAX_SENT_BYTES:
            yield run_
            run_, size = [], 0
        run_.append(record)
        size += _find_size(record)
    if run_:
        yield run_


def _find_size(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"")
