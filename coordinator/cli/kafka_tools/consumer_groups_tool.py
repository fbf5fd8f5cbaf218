"""`kafka-consumer-groups`: list, describe, reset and delete groups. Source: Kafka's `ConsumerGroupCommand`."""

import sys
from collections.abc import Callable, Collection, Sequence
from typing import Final

from coordinator.cli.kafka_tools.cluster_client import ClusterClient
from coordinator.cli.kafka_tools.group_descriptions import (
    ConsumerGroupDescription,
    GroupMemberDescription,
    describe_group,
    list_groups,
)
from coordinator.cli.kafka_tools.java_format import TableColumn, print_table
from coordinator.cli.kafka_tools.offset_requests import (
    LATEST,
    CommittedOffset,
    TopicPartition,
    fetch_committed,
    list_offsets,
)
from coordinator.cli.kafka_tools.tool_call import java_map_order, open_client, parse_options
from coordinator.cli.kafka_tools.tool_errors import KafkaError, UsageError, error_from_code
from coordinator.cli.kafka_tools.tool_options import (
    BOOTSTRAP,
    COMMAND_CONFIG,
    ZOOKEEPER,
    OptionTable,
    ParsedOptions,
    flag,
    ignored,
    optional_value,
    value,
)
from protocol.error_codes import ErrorCode

OPTIONS: Final = OptionTable(
    BOOTSTRAP,
    ZOOKEEPER,
    COMMAND_CONFIG,
    flag("list", "List groups."),
    flag("describe", "Print groups with their offsets and lags."),
    flag("delete", "Delete groups."),
    flag("reset-offsets", "Set the committed offsets of a group without members."),
    flag("delete-offsets", "Delete committed offsets of a group."),
    value("validate-regex", "REGEX", "Test whether an expression is valid for the consumer protocol."),
    value("group", "GROUP", "The group; may be repeated."),
    flag("all-groups", "All groups."),
    value("topic", "TOPIC[:N,N...]", "Reset or delete the offsets of these topics or partitions."),
    flag("all-topics", "All topics with committed offsets."),
    flag("members", "Describe members."),
    flag("offsets", "Describe offsets and lags; the default."),
    optional_value(
        "state", "STATES", "Describe states; with --list, list them, and only groups in some states."
    ),
    optional_value("type", "TYPES", "With --list: list types, and only groups of some types."),
    flag("verbose", "Describe more."),
    flag("to-earliest", "Reset to the first offset."),
    flag("to-latest", "Reset to the end."),
    flag("to-current", "Reset to the committed offset."),
    value("to-offset", "OFFSET", "Reset to an offset."),
    value("shift-by", "NUMBER", "Reset forward, or back by a negative number."),
    value("to-datetime", "DATE", "Reset to a time: 2020-01-01T00:00:00.000."),
    value("by-duration", "DURATION", "Reset to a time ago: P1DT2H."),
    value("from-file", "FILE", "Reset to the offsets of a CSV file, as --export prints it."),
    flag("execute", "Commit the new offsets."),
    flag("dry-run", "Print the new offsets without committing them; the default."),
    flag("export", "Print the offsets as CSV."),
    ignored("timeout", "MS"),
)
UNRECOGNIZED_PREFIX: Final = "joptsimple.UnrecognizedOptionException: "
_SUMMARY: Final = "This tool helps to list, describe, delete and manage the offsets of consumer groups."
_ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
SCENARIOS: Final = (
    "to-offset",
    "to-datetime",
    "by-duration",
    "to-earliest",
    "to-latest",
    "to-current",
    "shift-by",
    "from-file",
)
"""The options with the targets of an offset reset."""
_STATES: Final = (
    "Dead",
    "PreparingRebalance",
    "Empty",
    "CompletingRebalance",
    "Reconciling",
    "Assigning",
    "Stable",
)
_TYPES: Final = ("Consumer", "Classic")
_REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance", "Reconciling", "Assigning")
_DRY_RUN: Final = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will "
    "require either --dry-run or --execute to be specified. You should add the --dry-run option explicitly if you "
    "are scripting this command and want to keep the current default behavior without prompting."
)
_NAME: Final = 15
_NUMBER: Final = 15


def run(arguments: Sequence[str]) -> int:
    """Run the tool and return the exit code. As in Kafka's tool it is 0 even if a group could not be
    described."""
    options = parse_options(OPTIONS, arguments, _SUMMARY)
    _check_options(options)
    try:
        if options.has("validate-regex"):
            _validate_regex(options.text("validate-regex"))
            return 0
        with open_client(options) as client:
            _RUN_ACTION[next(action for action in _ACTIONS if options.has(action))](client, options)
    except KafkaError as error:
        qualified = error.qualified if "." not in error.java_class else f"{error.java_class}: {error}"
        cause = (
            "java.util.concurrent.ExecutionException: "
            if error.error_code == ErrorCode.GROUP_ID_NOT_FOUND
            else ""
        )
        print_error(f"Executing consumer group command failed due to {qualified if cause else error}")
        print(f"{cause}{qualified}", file=sys.stderr)
    return 0


def print_error(message: str) -> None:
    """Print an error as Kafka's tool does, on standard output."""
    print(f"\nError: {message}")


def _check_options(options: ParsedOptions) -> None:
    if not options.has("validate-regex"):
        options.require("bootstrap-server")
    if options.has("describe"):
        _require_groups(options, "describe")
        if options.count(("members", "offsets", "state")) > 1:
            raise UsageError(
                "Option [describe] takes at most one of these options: [members], [offsets], [state]"
            )
        if options.get("state") is not None:
            raise UsageError("Option [describe] does not take a value for [state]")
    if options.has("delete"):
        _require_groups(options, "delete")
        if options.has("topic"):
            raise UsageError(
                "The consumer does not support topic-specific offset deletion from a consumer group."
            )
    if options.has("delete-offsets") and options.count(("group", "topic")) < 2:
        raise UsageError("Option [delete-offsets] takes the following options: [group], [topic]")
    if options.has("reset-offsets"):
        _check_reset(options)
    options.forbid("group", "all-groups", "list")
    options.forbid("topic", "list", "describe")
    if options.count(_ACTIONS) != 1:
        raise UsageError(
            f"Command must include exactly one action: {', '.join(f'--{action}' for action in _ACTIONS)}"
        )


def _require_groups(options: ParsedOptions, action: str) -> None:
    if not options.count(("group", "all-groups")):
        raise UsageError(f"Option [{action}] takes one of these options: [all-groups], [group]")


def _check_reset(options: ParsedOptions) -> None:
    if options.has("dry-run") and options.has("execute"):
        raise UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not options.count(("dry-run", "execute")):
        print(_DRY_RUN, file=sys.stderr)
    _require_groups(options, "reset-offsets")
    for scenario in SCENARIOS:
        options.forbid(scenario, *(other for other in SCENARIOS if other != scenario))


def _list_groups(client: ClusterClient, options: ParsedOptions) -> None:
    has_type, has_state = options.has("type"), options.has("state")
    states = _parse_words(options.get("state"), _STATES, "state", "states")
    types = _parse_words(options.get("type"), _TYPES, "types", "types")
    found = list_groups(client, states, [type_.lower() for type_ in types])
    if not has_type and not has_state:
        for each in found:
            print(each.group)
        return
    width = max([_NAME, *(len(each.group) for each in found)]) + 10
    rows = [("GROUP", "TYPE", "STATE"), *((each.group, each.type, each.state) for each in found)]
    for group, type_, state in rows:
        cells = [f"{group:<{width}}"]
        cells += [f"{type_:<20}"] if has_type else []
        cells += [f"{state:<20}"] if has_state else []
        print(" ".join(cells))


def _parse_words(text: str | None, valid: Sequence[str], singular: str, plural: str) -> list[str]:
    """Return the valid words of a list with commas, in any case of letters. Raises UsageError."""
    if not text:
        return []
    by_name = {name.lower(): name for name in valid}
    words = [word.strip().lower() for word in text.split(",")]
    if not set(words) <= set(by_name):
        raise UsageError(f"Invalid {singular} list '{text}'. Valid {plural} are: {', '.join(valid)}")
    return [by_name[word] for word in words]


def select_groups(client: ClusterClient, options: ParsedOptions) -> list[str]:
    """Return the groups that --group and --all-groups name. Raises KafkaError."""
    if options.has("all-groups"):
        return [each.group for each in list_groups(client)]
    return list(dict.fromkeys(options.all("group")))


def _describe_groups(client: ClusterClient, options: ParsedOptions) -> None:
    described = [describe_group(client, group) for group in sorted(select_groups(client, options))]
    is_verbose = options.has("verbose")
    if options.has("members"):
        for each in described:
            _print_condition(each)
            _print_members(each, is_verbose=is_verbose)
    elif options.has("state"):
        for each in described:
            _print_condition(each)
            _print_state(each, is_verbose=is_verbose)
    else:
        rows = [(each, _find_offset_rows(client, each)) for each in described]
        for each, found in rows:
            _print_condition(each)
            if found:
                _print_offsets(found, is_verbose=is_verbose)


def _print_condition(described: ConsumerGroupDescription) -> None:
    if described.state == "Empty":
        print(f"\nConsumer group '{described.group}' has no active members.", file=sys.stderr)
    elif described.state in _REBALANCING:
        print(f"\nWarning: Consumer group '{described.group}' is rebalancing.", file=sys.stderr)


OffsetRow = tuple[object, ...]


def _find_offset_rows(client: ClusterClient, described: ConsumerGroupDescription) -> list[OffsetRow]:
    """Return the rows of `_print_offsets`: partitions of members, then unassigned ones."""
    committed = fetch_committed(client, described.group)
    rows: list[OffsetRow] = []
    assigned: set[TopicPartition] = set()
    members = [member for member in described.members if member.partitions]
    for member in sorted(members, key=lambda each: -len(each.partitions)):
        assigned.update(member.partitions)
        owner = (member.member_id, member.host, member.client_id)
        rows += _make_offset_rows(client, described.group, member.partitions, committed, owner)
    rest = [partition for partition in committed if partition not in assigned]
    return rows + _make_offset_rows(client, described.group, rest, committed, ("-", "-", "-"))


def _make_offset_rows(
    client: ClusterClient,
    group: str,
    partitions: Sequence[TopicPartition],
    committed: dict[TopicPartition, CommittedOffset],
    owner: tuple[str, str, str],
) -> list[OffsetRow]:
    if not partitions:
        return []
    ends = list_offsets(client, dict.fromkeys(partitions, LATEST))
    rows: list[OffsetRow] = []
    for topic, partition in sorted(partitions):
        end = ends[topic, partition]
        if isinstance(end, KafkaError):
            raise end
        found = committed.get((topic, partition))
        offset = None if found is None else found.offset
        epoch = None if found is None or found.leader_epoch < 0 else found.leader_epoch
        lag = None if offset is None else end - offset
        rows.append((group, topic, partition, epoch, offset, end, lag, *owner))
    return rows


def _print_offsets(rows: Sequence[OffsetRow], *, is_verbose: bool) -> None:
    columns = [
        TableColumn("GROUP", _NAME, grows=True),
        TableColumn("TOPIC", _NAME, grows=True),
        TableColumn("PARTITION", 10),
        TableColumn("LEADER-EPOCH", _NUMBER),
        TableColumn("CURRENT-OFFSET", _NUMBER),
        TableColumn("LOG-END-OFFSET", _NUMBER),
        TableColumn("LAG", _NUMBER),
        TableColumn("CONSUMER-ID", _NAME, grows=True),
        TableColumn("HOST", _NAME, grows=True),
        TableColumn("CLIENT-ID", 0),
    ]
    _print_columns(columns, rows, set() if is_verbose else {"LEADER-EPOCH"})


def _print_members(described: ConsumerGroupDescription, *, is_verbose: bool) -> None:
    columns = [
        TableColumn("GROUP", _NAME, grows=True),
        TableColumn("CONSUMER-ID", _NAME, grows=True),
        TableColumn("GROUP-INSTANCE-ID", 17, grows=True),
        TableColumn("HOST", _NAME, grows=True),
        TableColumn("CLIENT-ID", _NAME, grows=True),
        TableColumn("#PARTITIONS", _NUMBER),
        TableColumn("CURRENT-EPOCH", _NUMBER),
        TableColumn("CURRENT-ASSIGNMENT", 20, grows=True),
        TableColumn("TARGET-EPOCH", _NUMBER),
        TableColumn("TARGET-ASSIGNMENT", 20, grows=True),
    ]
    rows = [_member_row(described, member) for member in described.members]
    hidden = set() if is_verbose else {each.name for each in columns[6:]}
    if not any(member.instance_id for member in described.members):
        hidden.add("GROUP-INSTANCE-ID")
    _print_columns(columns, rows, hidden)


def _member_row(described: ConsumerGroupDescription, member: GroupMemberDescription) -> tuple[object, ...]:
    return (
        described.group,
        member.member_id,
        member.instance_id or "",
        member.host,
        member.client_id,
        len(member.partitions),
        member.epoch,
        _format_assignment(member.partitions),
        described.target_epoch if member.target is not None else None,
        None if member.target is None else _format_assignment(member.target),
    )


def _format_assignment(partitions: Sequence[TopicPartition]) -> str | None:
    """Return TOPIC:N,N;TOPIC:N; None for no partitions."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return ";".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in topics.items()) or None


def _print_state(described: ConsumerGroupDescription, *, is_verbose: bool) -> None:
    columns = [
        TableColumn("GROUP", _NAME, grows=True),
        TableColumn("COORDINATOR (ID)", 25, grows=True),
        TableColumn("ASSIGNMENT-STRATEGY", 20),
        TableColumn("STATE", 20),
        TableColumn("GROUP-EPOCH", _NUMBER),
        TableColumn("TARGET-ASSIGNMENT-EPOCH", 25),
        TableColumn("#MEMBERS", 0),
    ]
    node_id, address = described.coordinator
    row = (
        described.group,
        f"{address}  ({node_id})",
        described.assignor or None,
        described.state,
        described.epoch,
        described.target_epoch,
        len(described.members),
    )
    _print_columns(columns, [row], set() if is_verbose else {"GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"})


def _print_columns(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[object]], hidden: Collection[str]
) -> None:
    shown = [index for index, column in enumerate(columns) if column.name not in hidden]
    print_table([columns[index] for index in shown], [[row[index] for index in shown] for row in rows])


def _delete_groups(client: ClusterClient, options: ParsedOptions) -> None:
    from protocol.messages.delete_groups import DeleteGroupsRequest

    deleted: dict[str, KafkaError | None] = {}
    for group in select_groups(client, options):
        request = DeleteGroupsRequest(groups_names=[group])
        try:
            (result,) = client.send_to_coordinator(
                group, request, lambda answer: answer.results[0].error_code
            ).results
        except KafkaError as error:
            deleted[group] = error
            continue
        code = result.error_code
        deleted[group] = None if code == ErrorCode.NONE else error_from_code(code)
    done = [group for group, error in deleted.items() if error is None]
    failed = {group: error for group, error in deleted.items() if error is not None}
    if not failed:
        print(f"Deletion of requested consumer groups ('{', '.join(java_map_order(done))}') was successful.")
        return
    print_error("Deletion of some consumer groups failed:")
    for group in java_map_order(failed):
        print(f"* Group '{group}' could not be deleted due to: {failed[group].qualified}")
    if done:
        names = "', '".join(java_map_order(done))
        print(f"\nThese consumer groups were deleted successfully: '{names}'")


def _reset_offsets(client: ClusterClient, options: ParsedOptions) -> None:
    from coordinator.cli.kafka_tools.offset_reset import reset_offsets

    reset_offsets(client, options, select_groups(client, options))


def _delete_offsets(client: ClusterClient, options: ParsedOptions) -> None:
    from coordinator.cli.kafka_tools.offset_reset import delete_offsets

    delete_offsets(client, options)


def _validate_regex(expression: str) -> None:
    from coordinator.group.modern.topic_regex import find_pattern_error

    reason = find_pattern_error(expression)
    verdict = "valid" if reason is None else f"invalid: {reason}"
    print(f"The regular expression `{expression}` is {verdict}.")


_RUN_ACTION: Final[dict[str, Callable[[ClusterClient, ParsedOptions], None]]] = {
    "list": _list_groups,
    "describe": _describe_groups,
    "delete": _delete_groups,
    "reset-offsets": _reset_offsets,
    "delete-offsets": _delete_offsets,
}
