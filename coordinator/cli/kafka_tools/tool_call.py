"""Common parts of a tool's call: parsed options with `--help` and `--version`, a client of the cluster, the
order of Java maps, and topic filters. Source: Kafka's `TopicFilter`.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

from coordinator.cli.kafka_tools.client_settings import make_settings, read_properties
from coordinator.cli.kafka_tools.cluster_client import ClusterClient
from coordinator.cli.kafka_tools.tool_errors import ToolExit, UsageError
from coordinator.cli.kafka_tools.tool_options import ZOOKEEPER_OPTIONS, OptionTable, ParsedOptions
from coordinator.cli.kafka_tools.zookeeper_option import find_bootstrap

KAFKA_VERSION = "4.4.0"
"""The version of Kafka's tools that these tools replace."""
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""The topics that `--exclude-internal` leaves out."""


def parse_options(table: OptionTable, arguments: Sequence[str], summary: str) -> ParsedOptions:
    """Parse the options of a call. `summary` is a sentence about the tool for its help.

    Raises:
        UsageError: invalid options, `--help`, or no arguments: Kafka's tools then exit with 1.
        ToolExit: `--version`.
    """
    options = table.parse(arguments)
    if not arguments or options.has("help"):
        raise UsageError(summary)
    if options.has("version"):
        print(KAFKA_VERSION)
        raise ToolExit
    return options


def bootstrap_servers(options: ParsedOptions, properties: Mapping[str, str]) -> str:
    """Return the addresses of --bootstrap-server, or of the broker in place of ZooKeeper. Raises ToolFailure."""
    text = options.text("bootstrap-server")
    name = options.given_name("bootstrap-server")
    return find_bootstrap(f"--{name} {text}", properties) if name in ZOOKEEPER_OPTIONS else text


@contextmanager
def open_client(
    options: ParsedOptions, properties: Mapping[str, str] | None = None, client_id: str = "groupd"
) -> Iterator[ClusterClient]:
    """Open a client for --bootstrap-server. Without `properties` it uses the file of --command-config. Raises
    ToolFailure.
    """
    values = read_properties(options.get("command-config")) if properties is None else properties
    settings = make_settings(bootstrap_servers(options, values), values)
    with closing(ClusterClient(settings, client_id)) as client:
        yield client


def java_map_order(names: Collection[str], capacity: int = 16) -> list[str]:
    """Return names in the order of a Java HashMap of this initial capacity, in which Kafka's tools print some
    lists.
    """
    if len(names) < 2:
        return list(names)
    from coordinator.group.modern.java_order import HashOrder, mix_string

    return list(HashOrder(mix_string, capacity, names))


def java_partition_order(partitions: Collection[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return partitions in the order of a Java HashMap."""
    if len(partitions) < 2:
        return list(partitions)
    from coordinator.group.modern.java_order import HashOrder

    return list(HashOrder(_mixed_partition, keys=partitions))


def _mixed_partition(partition: tuple[str, int]) -> int:
    """Return the hash of a TopicPartition as a HashMap mixes it."""
    from protocol.partitioner import compute_java_hash

    topic, number = partition
    value = (31 * (31 + number) + compute_java_hash(topic)) & 0xFFFFFFFF
    return value ^ value >> 16


def compile_include_list(text: str) -> re.Pattern[str]:
    """Return the pattern of an include list: an expression, or several with commas between them. Raises
    UsageError for an invalid expression.

    For topic names, Java's and Python's regular expressions are sufficiently alike.
    """
    cleaned = text.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        return re.compile(cleaned)
    except re.error as error:
        raise UsageError(f"{cleaned} is an invalid regex.") from error
