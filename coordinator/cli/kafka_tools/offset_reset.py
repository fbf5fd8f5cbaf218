"""Resetting and deleting committed offsets, for `kafka-consumer-groups`. Source: Kafka's `ConsumerGroupCommand`."""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from coordinator.cli.kafka_tools.cluster_client import ClusterClient, check_error
from coordinator.cli.kafka_tools.group_descriptions import describe_group
from coordinator.cli.kafka_tools.java_format import TableColumn, parse_date_ms, parse_duration_ms, print_table
from coordinator.cli.kafka_tools.offset_requests import (
    EARLIEST,
    LATEST,
    UNKNOWN_OFFSET,
    TopicPartition,
    commit_offsets,
    fetch_committed,
    require_offsets,
)
from coordinator.cli.kafka_tools.tool_call import java_map_order, java_partition_order
from coordinator.cli.kafka_tools.tool_errors import KafkaError, UsageError, error_from_code
from coordinator.cli.kafka_tools.tool_options import ParsedOptions
from coordinator.core.clock import wall_ms
from protocol.error_codes import ErrorCode
from storage.files import read_input_file
from storage.storage_errors import format_error_reason

Offsets = Mapping[TopicPartition, int]

_RESETTABLE: Final = ("Empty", "Dead")


def reset_offsets(client: ClusterClient, options: ParsedOptions, groups: Sequence[str]) -> None:
    """Compute the new offsets of groups, commit them with --execute, and print them.

    Raises KafkaError, UsageError.
    """
    found: dict[str, Offsets] = {}
    for group in java_map_order(groups):
        state = _find_state(client, group)
        if state not in _RESETTABLE:
            _print_error(
                f"Assignments can only be reset if the group '{group}' is inactive, "
                f"but the current state is {state}."
            )
            found[group] = {}
            continue
        offsets = _OffsetResetPlan(client, options, group).compute_offsets()
        if options.has("execute"):
            for error in commit_offsets(client, group, offsets).values():
                raise error
        found[group] = offsets
    if options.has("export"):
        _print_csv(found, has_group=len(options.all("group")) != 1)
    else:
        _print_offsets(found)


def _find_state(client: ClusterClient, group: str) -> str:
    try:
        return describe_group(client, group).state
    except KafkaError as error:
        if error.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            return "Dead"
        raise


def _print_error(message: str) -> None:
    print(f"\nError: {message}")


def _print_offsets(found: Mapping[str, Offsets]) -> None:
    columns = [
        TableColumn("GROUP", 15, grows=True),
        TableColumn("TOPIC", 15, grows=True),
        TableColumn("PARTITION", 10),
        TableColumn("NEW-OFFSET", 0),
    ]
    rows = [
        (group, *partition, found[group][partition])
        for group in java_map_order(found)
        for partition in java_partition_order(found[group])
    ]
    print_table(columns, rows)


def _print_csv(found: Mapping[str, Offsets], *, has_group: bool) -> None:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for group in java_map_order(found):
        for partition in java_partition_order(found[group]):
            writer.writerow([*([group] if has_group else []), *partition, found[group][partition]])
    print(out.getvalue())


class _OffsetResetPlan:
    """The new offsets of one group."""

    def __init__(self, client: ClusterClient, options: ParsedOptions, group: str) -> None:
        self._client = client
        self._options = options
        self._group = group

    def compute_offsets(self) -> Offsets:
        """Return the offsets to commit. Raises KafkaError, UsageError."""
        partitions = self._find_partitions()
        compute = next((each for name, each in _SCENARIOS.items() if self._options.has(name)), None)
        if compute is None:
            names = ", ".join(f"[{name}]" for name in _SCENARIOS)
            raise UsageError(f"Option '[reset-offsets]' requires one of the following scenarios: [{names}]")
        return compute(self, partitions)

    def _find_partitions(self) -> list[TopicPartition]:
        if self._options.has("all-topics"):
            return list(fetch_committed(self._client, self._group))
        if self._options.has("topic"):
            return find_partitions(self._client, self._options.all("topic"))
        if not self._options.has("from-file"):
            raise UsageError("One of the reset scopes should be defined: --all-topics, --topic.")
        return []

    def to_earliest(self, partitions: Sequence[TopicPartition]) -> Offsets:
        """Return the log start offsets of partitions."""
        return require_offsets(self._client, dict.fromkeys(partitions, EARLIEST))

    def to_latest(self, partitions: Sequence[TopicPartition]) -> Offsets:
        """Return the end offsets of partitions."""
        return require_offsets(self._client, dict.fromkeys(partitions, LATEST))

    def to_offset(self, partitions: Sequence[TopicPartition]) -> Offsets:
        """Return the offset of --to-offset, limited to the range of each partition."""
        return self._keep_in_range(dict.fromkeys(partitions, self._parse_number("to-offset")))

    def _parse_number(self, name: str) -> int:
        try:
            number = self._options.integer(name)
        except UsageError as error:
            raise KafkaError(str(error), "joptsimple.OptionArgumentConversionException") from error
        assert number is not None, "the option was given"
        return number

    def shift_by(self, partitions: Sequence[TopicPartition]) -> Offsets:
        """Return the committed offsets plus --shift-by."""
        shift = self._parse_number("shift-by")
        committed = fetch_committed(self._client, self._group)
        wanted = {}
        for topic, number in partitions:
            if (topic, number) not in committed:
                raise UsageError(
                    f"Cannot shift offset for partition {topic}-{number} since there is no current committed offset"
                )
            wanted[topic, number] = committed[topic, number].offset + shift
        return self._keep_in_range(wanted)

    def to_datetime(self, partitions: Sequence[TopicPartition]) -> Offsets:
        """Return the offsets of the first records at or after --to-datetime."""
        return self._find_by_time(partitions, parse_date_ms(self._options.text("to-datetime")))

    def by_duration(self, partitions: Sequence[TopicPartition]) -> Offsets:
        """Return the offsets of the first records since the present minus --by-duration."""
        duration_ms = parse_duration_ms(self._options.text("by-duration"))
        return self._find_by_time(partitions, wall_ms() - duration_ms)

    def _find_by_time(self, partitions: Sequence[TopicPartition], time_ms: int) -> Offsets:
        found = require_offsets(self._client, dict.fromkeys(partitions, time_ms))
        missing = [partition for partition in found if found[partition] == UNKNOWN_OFFSET]
        for topic, number in java_partition_order(missing):
            print(
                f"\nWarn: Partition {number} from topic {topic} is empty. Falling back to latest known offset."
            )
        return {**found, **(self.to_latest(missing) if missing else {})}

    def to_current(self, partitions: Sequence[TopicPartition]) -> Offsets:
        """Return the committed offsets, or the end offsets of partitions without one."""
        committed = fetch_committed(self._client, self._group)
        known = {partition: committed[partition].offset for partition in partitions if partition in committed}
        unknown = [partition for partition in partitions if partition not in committed]
        return {**known, **(self.to_latest(unknown) if unknown else {})}

    def from_file(self, _partitions: Sequence[TopicPartition]) -> Offsets:
        """Return the offsets of a CSV file."""
        plan = _read_plan(self._options.text("from-file"), self._options.all("group"))
        if self._group not in plan:
            _print_error(f"No reset plan for group {self._group} found")
            return {}
        return self._keep_in_range(plan[self._group])

    def _keep_in_range(self, wanted: Offsets) -> Offsets:
        first, last = self.to_earliest(list(wanted)), self.to_latest(list(wanted))
        return {
            partition: min(max(offset, first[partition]), last[partition])
            for partition, offset in wanted.items()
        }


_SCENARIOS: Final[dict[str, Callable[[_OffsetResetPlan, Sequence[TopicPartition]], Offsets]]] = {
    "to-current": _OffsetResetPlan.to_current,
    "to-latest": _OffsetResetPlan.to_latest,
    "by-duration": _OffsetResetPlan.by_duration,
    "to-datetime": _OffsetResetPlan.to_datetime,
    "from-file": _OffsetResetPlan.from_file,
    "shift-by": _OffsetResetPlan.shift_by,
    "to-offset": _OffsetResetPlan.to_offset,
    "to-earliest": _OffsetResetPlan.to_earliest,
}
"""The computations of an offset reset, by option, in the order of Kafka's message."""


def _read_plan(path: str, groups: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
    """Return the offsets of a CSV file by group: lines of [GROUP,]TOPIC,PARTITION,OFFSET. Raises KafkaError."""
    try:
        text = read_input_file(path).decode(errors="replace")
    except OSError as error:
        raise KafkaError(
            f"{path}: {format_error_reason(error, path)}", "java.lang.RuntimeException"
        ) from error
    plan: dict[str, dict[TopicPartition, int]] = {}
    for row in csv.reader(io.StringIO(text)):
        named = [*groups, *row] if len(row) == 3 and len(groups) == 1 else row
        if not row:
            continue
        try:
            group, topic, partition, offset = named
            plan.setdefault(group, {})[topic, int(partition)] = int(offset)
        except ValueError as error:
            message = f"{path}: the line {','.join(row)} is not [GROUP,]TOPIC,PARTITION,OFFSET"
            raise KafkaError(message, "java.lang.RuntimeException") from error
    return plan


def find_partitions(client: ClusterClient, arguments: Iterable[str]) -> list[TopicPartition]:
    """Return the partitions of TOPIC (all of them) and TOPIC:N,N. Raises KafkaError, UsageError."""
    named: list[TopicPartition] = []
    topics: list[str] = []
    for argument in arguments:
        if ":" in argument:
            named += _parse_partitions(argument)
        else:
            topics.append(argument)
    counts: dict[str, list[int]] = {}
    for topic in client.fetch_topics(sorted({*topics, *(topic for topic, _ in named)})):
        if topic.name in topics:
            check_error(topic)
        counts[topic.name] = sorted(each.partition_index for each in topic.partitions)
    unknown = [f"{topic}-{number}" for topic, number in named if number not in counts.get(topic, ())]
    if unknown:
        message = f'The partitions "{",".join(unknown)}" do not exist'
        raise KafkaError(message, "UnknownTopicOrPartitionException")
    return [*named, *((topic, number) for topic in topics for number in counts[topic])]


def _parse_partitions(argument: str) -> list[TopicPartition]:
    words = argument.split(":")
    if len(words) != 2:
        raise UsageError(f"Invalid topic arg '{argument}', expected topic name and partitions")
    topic, numbers = words
    partitions: list[TopicPartition] = []
    for number in numbers.split(","):
        try:
            partitions.append((topic, int(number)))
        except ValueError:
            raise UsageError(f"Invalid partition '{number}' specified in topic arg '{argument}''") from None
    return partitions


def delete_offsets(client: ClusterClient, options: ParsedOptions) -> None:
    """Delete the committed offsets of a group in some topics, and print the outcome. Raises KafkaError."""
    from protocol.messages.offset_delete import (
        OffsetDeleteRequest,
        OffsetDeleteRequestPartition,
        OffsetDeleteRequestTopic,
    )

    group = options.text("group")
    outcome: dict[tuple[str, int | None], KafkaError | None] = {}
    wanted: dict[str, list[int]] = {}
    for argument in options.all("topic"):
        try:
            for topic, partition in (
                _parse_partitions(argument) if ":" in argument else find_partitions(client, [argument])
            ):
                wanted.setdefault(topic, []).append(partition)
        except KafkaError as error:
            outcome[argument, None] = error
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=n) for n in each]
        )
        for name, each in wanted.items()
    ]
    answer = client.send_to_coordinator(group, OffsetDeleteRequest(group_id=group, topics=topics))
    overall = None if answer.error_code == ErrorCode.NONE else error_from_code(answer.error_code)
    codes = {
        (topic.name, each.partition_index): each.error_code
        for topic in answer.topics
        for each in topic.partitions
    }
    for topic, partitions in wanted.items():
        for partition in partitions:
            code = codes.get((topic, partition), ErrorCode.NONE)
            outcome[topic, partition] = overall if code == ErrorCode.NONE else error_from_code(code)
    _print_deleted(group, overall, outcome, has_failed=any(code != ErrorCode.NONE for code in codes.values()))


def _print_deleted(
    group: str,
    overall: KafkaError | None,
    outcome: Mapping[tuple[str, int | None], KafkaError | None],
    *,
    has_failed: bool,
) -> None:
    if overall is not None:
        _print_error(str(overall))
    elif has_failed:
        _print_error("Encountered some partition-level error, see the follow-up details.")
    else:
        print(f"Request succeeded for deleting offsets from group {group}.")
    columns = [TableColumn("TOPIC", 15, grows=True), TableColumn("PARTITION", 10), TableColumn("STATUS", 15)]
    rows = [
        (topic, partition, "Successful" if error is None else f"Error: {error.qualified}")
        for (topic, partition), error in sorted(outcome.items(), key=lambda each: f"{each[0][0]}{each[0][1]}")
    ]
    print_table(columns, rows)
