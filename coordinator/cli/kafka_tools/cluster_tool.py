"""`kafka-cluster cluster-id`: print the cluster id. Source: Kafka's `ClusterTool`."""

import sys
from collections.abc import Sequence
from contextlib import closing
from typing import Final

from coordinator.cli.kafka_tools.client_settings import make_settings, read_properties
from coordinator.cli.kafka_tools.cluster_client import ClusterClient
from coordinator.cli.kafka_tools.tool_call import KAFKA_VERSION
from coordinator.cli.kafka_tools.tool_errors import ToolFailure
from coordinator.cli.kafka_tools.tool_options import OptionTable, parse_subcommand

OPTIONS: Final[OptionTable | None] = None
UNRECOGNIZED_PREFIX: Final = ""
VALUES: Final = {
    "-b": "bootstrap",
    "--bootstrap-server": "bootstrap",
    "-c": "config",
    "--command-config": "config",
    "--config": "old config",
}
_FLAGS: Final = {"-h": "help", "--help": "help", "--version": "version"}
_USAGE: Final = "usage: kafka-cluster [-h]"
_COMMANDS: Final = "           {cluster-id} ..."
_COMMAND_USAGE: Final = "usage: kafka-cluster cluster-id [-h] [--config CONFIG]"
_MORE_USAGE: Final = "           [--command-config COMMAND_CONFIG] --bootstrap-server BOOTSTRAP_SERVER"
_UNSUPPORTED: Final = ("api-versions", "list-endpoints", "unregister", "unregister-controller")


def run(arguments: Sequence[str]) -> int:
    """Run the tool and return the exit code."""
    words, found = parse_subcommand(arguments, VALUES, _FLAGS, _USAGE)
    if "version" in found:
        print(KAFKA_VERSION)
        return 0
    if "help" in found:
        print(f"{_COMMAND_USAGE}\n{_MORE_USAGE}")
        return 0
    if not words:
        raise ToolFailure(f"{_USAGE}\n{_COMMANDS}\ntoo few arguments")
    (command, *_) = words
    if command in _UNSUPPORTED:
        raise ToolFailure(f"kafka-cluster {command} is not supported by groupd's tool. Use cluster-id")
    if command != "cluster-id":
        raise ToolFailure(f"{_USAGE}\n{_COMMANDS}\ninvalid choice: '{command}' (choose from 'cluster-id')")
    if "bootstrap" not in found:
        raise ToolFailure(f"{_COMMAND_USAGE}\n{_MORE_USAGE}\n--bootstrap-server is required")
    if "old config" in found:
        if "config" in found:
            raise ToolFailure("--config and --command-config cannot be specified together.")
        print(
            "Option --config has been deprecated and will be removed in a future version. "
            "Use --command-config instead.",
            file=sys.stderr,
        )
    properties = read_properties(found.get("config", found.get("old config")))
    with closing(ClusterClient(make_settings(found["bootstrap"], properties))) as client:
        print(f"Cluster ID: {client.fetch_metadata([]).cluster_id}")
    return 0
