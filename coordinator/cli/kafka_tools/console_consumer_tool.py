"""`kafka-console-consumer`: print the records of a topic.

Source: Kafka's `ConsoleConsumer`, `ConsoleConsumerOptions`.
"""

import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final, NoReturn

from coordinator.cli.kafka_tools.client_settings import make_settings, parse_pairs, read_properties
from coordinator.cli.kafka_tools.cluster_client import ClusterClient, Deadline, check_error, pause
from coordinator.cli.kafka_tools.group_consumer import GroupConsumer, Subscription, read_seconds
from coordinator.cli.kafka_tools.group_member import MemberSettings
from coordinator.cli.kafka_tools.offset_requests import EARLIEST, LATEST, require_offsets
from coordinator.cli.kafka_tools.record_fetcher import READ_COMMITTED, FetchedRecord, RecordFetcher
from coordinator.cli.kafka_tools.record_formatter import RecordFormatter
from coordinator.cli.kafka_tools.tool_call import bootstrap_servers, parse_options
from coordinator.cli.kafka_tools.tool_errors import KafkaError, ToolFailure, UsageError
from coordinator.cli.kafka_tools.tool_options import (
    BOOTSTRAP,
    COMMAND_CONFIG,
    ZOOKEEPER,
    OptionTable,
    ParsedOptions,
    alias,
    flag,
    unsupported,
    value,
)
from protocol.error_codes import ErrorCode

OPTIONS: Final = OptionTable(
    BOOTSTRAP,
    ZOOKEEPER,
    COMMAND_CONFIG,
    value("consumer.config", "FILE", "The old name of --command-config."),
    value("command-property", "NAME=VALUE", "A client property; may be repeated."),
    value("consumer-property", "NAME=VALUE", "The old name of --command-property."),
    value("topic", "TOPIC", "The topic to read."),
    value("include", "REGEX", "Topics to read: a regular expression."),
    alias("whitelist", "include"),
    value("partition", "NUMBER", "The partition to read, without a group."),
    value("offset", "OFFSET", "Where to start in it: a number, earliest or latest."),
    flag("from-beginning", "Start at the first record where the group has no offset."),
    value("max-messages", "NUMBER", "End after so many records."),
    value("timeout-ms", "MS", "End when no record comes for so long."),
    value("group", "GROUP", "The consumer group; its offsets are committed."),
    value("isolation-level", "LEVEL", "read_uncommitted or read_committed."),
    value("formatter", "CLASS", "DefaultMessageFormatter or NoOpMessageFormatter, with Kafka's package."),
    value(
        "formatter-property", "NAME=VALUE", "print.key, print.timestamp, key.separator, ...; may be repeated."
    ),
    value("property", "NAME=VALUE", "The old name of --formatter-property."),
    value("formatter-config", "FILE", "Formatter properties in a file."),
    value("key-deserializer", "CLASS", "Kafka's deserializer of strings, bytes or numbers."),
    value("value-deserializer", "CLASS", "Kafka's deserializer of strings, bytes or numbers."),
    flag("skip-message-on-error", "Leave out records that cannot be printed."),
    unsupported("enable-systest-events"),
)
UNRECOGNIZED_PREFIX: Final = ""
_SUMMARY: Final = "This tool helps to read data from Kafka topics and outputs it to standard output."
_FORMATTER: Final = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"
_RESETS: Final = {"earliest": EARLIEST, "latest": LATEST, "none": None}
_ISOLATION_LEVELS: Final = {"read_uncommitted": 0, "read_committed": READ_COMMITTED}
_WAIT_MS: Final = 500
_CLOSE_TIMEOUT_S: Final = 5.0
_MAX_RANDOM_GROUPS: Final = 100_000


@dataclass(frozen=True, slots=True)
class _ConsumerOptions:
    """The parsed options of a call."""

    properties: dict[str, str]
    formatter: RecordFormatter
    group: str
    has_own_group: bool
    """Whether the options name a group. Only then the tool commits offsets."""
    partition: int | None
    start: int
    """The first offset of the partition, or EARLIEST or LATEST."""
    max_messages: int | None
    timeout_s: float


def run(arguments: Sequence[str]) -> int:
    """Run the tool and return the exit code."""
    options = parse_options(OPTIONS, arguments, _SUMMARY)
    call = _configure(options)
    sys.stdout.flush()  # records bypass the text layer
    settings = make_settings(bootstrap_servers(options, call.properties), call.properties)
    isolation_level = _look_up(call.properties, "isolation.level", "read_uncommitted", _ISOLATION_LEVELS) or 0
    reset_to = _look_up(call.properties, "auto.offset.reset", "latest", _RESETS)
    count = 0
    with closing(ClusterClient(settings, "console-consumer", tries_forever=True)) as client:
        fetcher = RecordFetcher(client, isolation_level, reset_to)
        source: _PartitionReader | GroupConsumer
        if call.partition is not None:
            source = _PartitionReader(client, fetcher, options.text("topic"), call.partition, call.start)
        else:
            source = GroupConsumer(
                client, fetcher, _create_subscription(options), _create_member_settings(call), reset_to
            )
            source.commits = (
                call.properties.get("enable.auto.commit", str(call.has_own_group)).lower() == "true"
            )
            source.commit_interval_s = read_seconds(call.properties, "auto.commit.interval.ms", 5.0)
        try:
            for record in _read_records(source, call):
                _print_record(record, call.formatter, skips=options.has("skip-message-on-error"))
                count += 1
                source.mark_consumed(record)
        finally:
            client.limit_retries(_CLOSE_TIMEOUT_S)
            _close_source(source)
            print(f"Processed a total of {count} messages", file=sys.stderr)
    return 0


class _PartitionReader:
    """A reader of one partition without a group."""

    def __init__(
        self, client: ClusterClient, fetcher: RecordFetcher, topic: str, partition: int, start: int
    ) -> None:
        self._client = client
        self._fetcher = fetcher
        self._partition = topic, partition
        self._start = start

    def poll(self, max_wait_ms: int) -> list[FetchedRecord]:
        """Return the next records. Raises KafkaError."""
        if not self._fetcher.positions and not self._seek():
            pause(max_wait_ms / 1000)
            return []
        return self._fetcher.fetch(max_wait_ms)

    def _seek(self) -> bool:
        """Find the start offset. Return whether the partition exists."""
        name, number = self._partition
        (topic,) = self._client.fetch_topics([name], creates=True)
        if number not in {each.partition_index for each in topic.partitions}:
            if topic.error_code not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE):
                check_error(topic)
            return False
        offset = self._start
        if offset < 0:
            wanted = {self._partition: offset}
            offset = require_offsets(self._client, wanted, self._fetcher.isolation_level)[self._partition]
        self._fetcher.assign({self._partition: offset})
        return True

    def mark_consumed(self, record: FetchedRecord) -> None:
        """Do nothing: only members of groups commit offsets."""

    def close(self) -> None:
        """Do nothing: the reader has no group."""


def _read_records(
    source: "_PartitionReader | GroupConsumer", call: _ConsumerOptions
) -> Iterator[FetchedRecord]:
    """Yield records until the maximum number is reached, or no record arrives within the timeout."""
    count = 0
    while call.max_messages is None or count < call.max_messages:
        deadline = Deadline(call.timeout_s)
        records: list[FetchedRecord] = []
        while not records:
            records = source.poll(min(_WAIT_MS, max(1, round(1000 * min(deadline.left_s, 1.0)))))
            if not records and deadline.left_s <= 0:
                return
        for record in records:
            yield record
            count += 1
            if count == call.max_messages:
                return
        sys.stdout.flush()


def _print_record(record: FetchedRecord, formatter: RecordFormatter, *, skips: bool) -> None:
    try:
        text = formatter.format(record)
    except KafkaError as error:
        if not skips:
            raise
        print(f"Error processing message, skipping this message: {error.qualified}", file=sys.stderr)
        return
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None:
        sys.stdout.write(text.decode(errors="replace"))
    else:
        stream.write(text)


def _close_source(source: "_PartitionReader | GroupConsumer") -> None:
    """Leave the group, and ignore an unreachable coordinator."""
    try:
        source.close()
    except KafkaError as error:
        print(f"Leaving the group failed: {error}", file=sys.stderr)


def _configure(options: ParsedOptions) -> _ConsumerOptions:
    """Return the options of a call, and print the warnings of Kafka's tool. Raises UsageError, ToolFailure."""
    _check_options(options)
    from_file = read_properties(options.get("command-config") or options.get("consumer.config"))
    from_options = parse_pairs([*options.all("command-property"), *options.all("consumer-property")])
    properties = {**from_file, **from_options}
    groups = dict.fromkeys([*options.all("group"), *_find_group_id(from_file), *_find_group_id(from_options)])
    if len(groups) > 1:
        raise UsageError(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', "
            "or via '--consumer.config') do not match. "
            f"Detected group ids: {', '.join(f'{each!r}' for each in groups)}"
        )
    if groups and options.has("partition"):
        raise UsageError("Options group and partition cannot be specified together.")
    _set_offset_reset(properties, options)
    if options.has("isolation-level"):
        properties["isolation.level"] = options.text("isolation-level")
    timeout_ms = options.integer("timeout-ms")
    max_messages = options.integer("max-messages")
    return _ConsumerOptions(
        properties=properties,
        formatter=_make_formatter(options),
        group=next(iter(groups), f"console-consumer-{random.randrange(_MAX_RANDOM_GROUPS)}"),
        has_own_group=bool(groups),
        partition=options.integer("partition"),
        start=_parse_offset(options),
        max_messages=None if max_messages is None or max_messages < 0 else max_messages,
        timeout_s=float("inf") if timeout_ms is None or timeout_ms < 0 else timeout_ms / 1000,
    )


def _find_group_id(properties: dict[str, str]) -> list[str]:
    return [properties["group.id"]] if "group.id" in properties else []


def _check_options(options: ParsedOptions) -> None:
    if options.count(("topic", "include")) != 1:
        raise UsageError("Exactly one of the following arguments is required: [topic], [include]")
    if options.has("partition"):
        if not options.has("topic"):
            raise UsageError("The topic is required when partition is specified.")
        if options.has("from-beginning") and options.has("offset"):
            raise UsageError("Options from-beginning and offset cannot be specified together.")
    elif options.has("offset"):
        raise UsageError("The partition is required when offset is specified.")
    options.require("bootstrap-server")
    for old, new in (
        ("consumer-property", "command-property"),
        ("consumer.config", "command-config"),
        ("property", "formatter-property"),
    ):
        if options.has(old):
            if options.has(new):
                raise UsageError(f"Options --{old} and --{new} cannot be specified together.")
            print(
                f"Option --{old} is deprecated and will be removed in a future version. Use --{new} instead."
            )


def _set_offset_reset(properties: dict[str, str], options: ParsedOptions) -> None:
    found = properties.get("auto.offset.reset")
    from_beginning = options.has("from-beginning")
    if found is not None and from_beginning and found != "earliest":
        raise ToolFailure(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={found}', "
            "please remove one option"
        )
    properties.setdefault("auto.offset.reset", "earliest" if from_beginning else "latest")


def _parse_offset(options: ParsedOptions) -> int:
    text = options.get("offset")
    if text is None:
        return EARLIEST if options.has("from-beginning") else LATEST
    named = _RESETS.get(text.lower())
    if named is not None:
        return named
    if text.isdecimal():
        return int(text)
    raise UsageError(
        f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', 'latest', "
        "or a non-negative long."
    )


def _make_formatter(options: ParsedOptions) -> RecordFormatter:
    properties = read_properties(options.get("formatter-config"))
    for part in ("key", "value"):
        name = options.get(f"{part}-deserializer")
        if name:
            properties[f"{part}.deserializer"] = name
    properties |= parse_pairs([*options.all("formatter-property"), *options.all("property")])
    return RecordFormatter(options.get("formatter") or _FORMATTER, properties)


def _create_subscription(options: ParsedOptions) -> Subscription:
    topic = options.get("topic")
    return Subscription(topic, None if topic is not None else options.text("include"))


def _create_member_settings(call: _ConsumerOptions) -> MemberSettings:
    values = call.properties
    return MemberSettings(
        group=call.group,
        instance_id=values.get("group.instance.id"),
        session_timeout_s=read_seconds(values, "session.timeout.ms", 45.0),
        rebalance_timeout_s=read_seconds(values, "max.poll.interval.ms", 300.0),
        heartbeat_interval_s=read_seconds(values, "heartbeat.interval.ms", 3.0),
    )


def _look_up(
    properties: dict[str, str], name: str, default: str, accepted: "dict[str, int] | dict[str, int | None]"
) -> int | None:
    text = properties.get(name, default)
    if text not in accepted:
        _fail_value(name, text, ", ".join(accepted))
    return accepted[text]


def _fail_value(name: str, text: str, accepted: str) -> NoReturn:
    raise ToolFailure(f"Invalid value {text} for configuration {name}: String must be one of: {accepted}")
