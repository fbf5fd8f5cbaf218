"""`kafka-metadata-quorum describe --status`, for health checks. Source: Kafka's `MetadataQuorumCommand`.

groupd has no metadata quorum and does not serve DescribeQuorum. The tool prints the brokers of a Metadata response
in Kafka's form, and -1 for epoch, high watermark and lags.
"""

import json
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
_VALUES: Final = {
    "--bootstrap-server": "bootstrap",
    "--bootstrap-controller": "bootstrap",
    "--command-config": "config",
}
_FLAGS: Final = {
    "-h": "help",
    "--help": "help",
    "--version": "version",
    "--status": "status",
    "--replication": "replication",
    "-re": "replication",
    "--human-readable": "human-readable",
    "-hr": "human-readable",
}
_USAGE: Final = "usage: kafka-metadata-quorum [-h] [--command-config COMMAND_CONFIG]"
_MORE_USAGE: Final = "           --bootstrap-server BOOTSTRAP_SERVER describe --status"
_UNKNOWN: Final = -1


def run(arguments: Sequence[str]) -> int:
    """Run the tool and return the exit code."""
    words, found = parse_subcommand(arguments, _VALUES, _FLAGS, _USAGE)
    if "version" in found:
        print(KAFKA_VERSION)
        return 0
    if "help" in found:
        print(f"{_USAGE}\n{_MORE_USAGE}")
        return 0
    if not words or "bootstrap" not in found:
        raise ToolFailure(f"{_USAGE}\n{_MORE_USAGE}\ntoo few arguments")
    if words[0] != "describe":
        raise ToolFailure(
            f"kafka-metadata-quorum {words[0]} is not supported by groupd's tool. Use describe --status"
        )
    if {"status", "replication"} <= set(found):
        raise ToolFailure(
            "Only one of --status or --replication should be specified with describe sub-command"
        )
    if "replication" in found:
        raise ToolFailure(
            "groupd has no metadata quorum and cannot describe its replication. Use describe --status"
        )
    if "status" not in found:
        raise ToolFailure("One of --status or --replication must be specified with describe sub-command")
    settings = make_settings(found["bootstrap"], read_properties(found.get("config")))
    with closing(ClusterClient(settings)) as client:
        _print_status(client)
    return 0


def _print_status(client: ClusterClient) -> None:
    metadata = client.fetch_metadata([])
    voters = [
        {"id": node_id, "endpoints": [f"PLAINTEXT://{address}"]}
        for node_id, address in sorted(client.brokers.items())
    ]
    lines = {
        "ClusterId": metadata.cluster_id,
        "LeaderId": metadata.controller_id,
        "LeaderEpoch": _UNKNOWN,
        "HighWatermark": _UNKNOWN,
        "MaxFollowerLag": _UNKNOWN,
        "MaxFollowerLagTimeMs": _UNKNOWN,
        "CurrentVoters": json.dumps(voters),
        "CurrentObservers": "[]",
    }
    for name, text in lines.items():
        print(f"{name + ':':<23} {text}")
    print(
        "groupd has no metadata quorum: brokers are listed as voters, unknown numbers as -1.",
        file=sys.stderr,
    )
