"""`kafka-get-offsets`: print offsets of partitions. Source: Kafka's `GetOffsetShell`."""

import re
import sys
from collections.abc import Callable, Sequence
from typing import Final

from coordinator.cli.kafka_tools.cluster_client import ClusterClient
from coordinator.cli.kafka_tools.offset_requests import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    UNKNOWN_OFFSET,
    TopicPartition,
    list_offsets,
)
from coordinator.cli.kafka_tools.tool_call import (
    INTERNAL_TOPICS,
    compile_include_list,
    open_client,
    parse_options,
)
from coordinator.cli.kafka_tools.tool_errors import KafkaError, ToolFailure
from coordinator.cli.kafka_tools.tool_options import (
    BOOTSTRAP,
    COMMAND_CONFIG,
    OptionTable,
    ParsedOptions,
    alias,
    flag,
    value,
)

OPTIONS: Final = OptionTable(
    BOOTSTRAP,
    alias("broker-list", "bootstrap-server"),
    COMMAND_CONFIG,
    value("topic", "TOPIC", "Topics: a regular expression."),
    value("partitions", "N,N,...", "Partitions of these topics."),
    value("topic-partitions", "TOPIC:N-N,...", "Topics and their partitions, in place of the other two."),
    value("time", "TIME", "A timestamp in milliseconds, or earliest, latest, max-timestamp."),
    flag("exclude-internal-topics", "Leave internal topics out."),
)
UNRECOGNIZED_PREFIX: Final = ""
_SUMMARY: Final = "An interactive shell for getting topic-partition offsets."
_TIMES: Final = {
    "latest": LATEST,
    "earliest": EARLIEST,
    "max-timestamp": MAX_TIMESTAMP,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}
_RULE: Final = re.compile(r"([^:,]*)(?::(?:(\d+)|(\d*)-(\d*))?)?")

Filter = Callable[[TopicPartition], bool]


def run(arguments: Sequence[str]) -> int:
    """Run the tool and return the exit code."""
    options = parse_options(OPTIONS, arguments, _SUMMARY)
    options.require("bootstrap-server")
    try:
        with open_client(options, client_id="GetOffsetShell") as client:
            _print_offsets(client, options)
    except KafkaError as error:
        raise _failure(str(error)) from error
    return 0


def _print_offsets(client: ClusterClient, options: ParsedOptions) -> None:
    if options.has("topic-partitions") and options.count(("topic", "partitions")):
        raise _failure("--topic-partitions cannot be used with --topic or --partitions")
    timestamp = _parse_time(options.get("time") or "latest")
    is_wanted = _make_filter(options)
    wanted: list[TopicPartition] = [
        (topic.name, partition.partition_index)
        for topic in client.fetch_topics(None)
        if not (options.has("exclude-internal-topics") and topic.name in INTERNAL_TOPICS)
        for partition in topic.partitions
        if is_wanted((topic.name, partition.partition_index))
    ]
    if not wanted:
        raise _failure("Could not match any topic-partitions with the specified filters")
    offsets = list_offsets(client, dict.fromkeys(wanted, timestamp))
    for topic, number in sorted(wanted, key=lambda each: f"{each[0]}-{each[1]}"):
        offset = offsets[topic, number]
        if isinstance(offset, KafkaError):
            name = f"{topic}-{number}"
            print(
                f"Skip getting offsets for topic-partition {name} due to error: {offset.qualified}",
                file=sys.stderr,
            )
        elif offset != UNKNOWN_OFFSET:
            print(f"{topic}:{number}:{offset}")


def _parse_time(text: str) -> int:
    try:
        return _TIMES[text] if text in _TIMES else int(text)
    except ValueError:
        names = " / ".join(f"{number} or {name}" for name, number in _TIMES.items())
        raise _failure(
            f"Malformed time argument {text}. Please use {names}, or a specified long format timestamp"
        ) from None


def _make_filter(options: ParsedOptions) -> Filter:
    rules = options.get("topic-partitions")
    if rules is not None:
        filters = [_parse_rule(rule) for rule in rules.split(",")]
        return lambda partition: any(each(partition) for each in filters)
    pattern = compile_include_list(options.get("topic") or ".*")
    text = options.get("partitions") or ""
    try:
        numbers = {int(word) for word in text.split(",")} if text else set()
    except ValueError:
        raise _failure(
            f"--partitions expects a comma separated list of numeric partition ids, but received: {text}"
        ) from None
    return lambda partition: (
        pattern.fullmatch(partition[0]) is not None and (not numbers or partition[1] in numbers)
    )


def _parse_rule(rule: str) -> Filter:
    """Return the filter of TOPIC, TOPIC:N, TOPIC:N-N (the second number is excluded), TOPIC:N- or TOPIC:-N."""
    found = _RULE.fullmatch(rule)
    if found is None:
        raise _failure(f"Invalid rule specification: {rule}")
    name, single, first, last = found.groups()
    pattern = compile_include_list(name or ".*")
    start = int(single or first or 0)
    end = start + 1 if single else int(last) if last else sys.maxsize
    return lambda partition: pattern.fullmatch(partition[0]) is not None and start <= partition[1] < end


def _failure(text: str) -> ToolFailure:
    return ToolFailure(f"Error occurred: {text}")
