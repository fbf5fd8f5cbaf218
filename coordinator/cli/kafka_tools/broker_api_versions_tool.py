"""`kafka-broker-api-versions`: print the API versions of each broker.

Source: Kafka's `BrokerApiVersionsCommand`.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from coordinator.cli.kafka_tools.cluster_client import ClusterClient
from coordinator.cli.kafka_tools.tool_call import open_client, parse_options
from coordinator.cli.kafka_tools.tool_errors import KafkaError
from coordinator.cli.kafka_tools.tool_options import BOOTSTRAP, COMMAND_CONFIG, OptionTable
from protocol.apis import APIS

OPTIONS: Final = OptionTable(BOOTSTRAP, COMMAND_CONFIG)
UNRECOGNIZED_PREFIX: Final = ""
_SUMMARY: Final = "This tool helps to retrieve broker version information."
_UNSUPPORTED: Final = {
    34: "AlterReplicaLogDirs",
    38: "CreateDelegationToken",
    39: "RenewDelegationToken",
    40: "ExpireDelegationToken",
    41: "DescribeDelegationToken",
    49: "AlterClientQuotas",
    55: "DescribeQuorum",
    57: "UpdateFeatures",
    64: "UnregisterBroker",
    71: "GetTelemetrySubscriptions",
    72: "PushTelemetry",
    76: "ShareGroupHeartbeat",
    77: "ShareGroupDescribe",
    78: "ShareFetch",
    79: "ShareAcknowledge",
    80: "AddRaftVoter",
    81: "RemoveRaftVoter",
    83: "InitializeShareGroupState",
    84: "ReadShareGroupState",
    85: "WriteShareGroupState",
    86: "DeleteShareGroupState",
    87: "ReadShareGroupStateSummary",
    88: "StreamsGroupHeartbeat",
    89: "StreamsGroupDescribe",
    90: "DescribeShareGroupOffsets",
    91: "AlterShareGroupOffsets",
    92: "DeleteShareGroupOffsets",
    93: "StreamsGroupTopologyDescriptionUpdate",
    94: "UnregisterController",
}
"""APIs of Kafka 4.4 that groupd does not serve, by API key."""


def run(arguments: Sequence[str]) -> int:
    """Run the tool and return the exit code."""
    options = parse_options(OPTIONS, arguments, _SUMMARY)
    options.require("bootstrap-server")
    with open_client(options) as client:
        racks = {broker.node_id: broker.rack for broker in client.fetch_metadata([]).brokers}
        for node_id, rack in sorted(racks.items()):
            _print_broker(client, node_id, rack)
    return 0


def _print_broker(client: ClusterClient, node_id: int, rack: str | None) -> None:
    node = (
        f"{client.brokers[node_id]} (id: {node_id} rack: {'null' if rack is None else rack} isFenced: false)"
    )
    try:
        served = client.fetch_versions(node_id)
    except KafkaError as error:
        print(f"{node} -> ERROR: {error.qualified}\n")
        return
    lines = [f"\t{line}" for line in _describe(served)]
    print(f"{node} -> (\n" + ",\n".join(lines) + "\n)")


def _describe(served: Mapping[int, range]) -> list[str]:
    names = {**{key: api.name for key, api in APIS.items()}, **_UNSUPPORTED}
    lines = []
    for key in sorted({*names, *served}):
        name, versions = f"{names.get(key, 'UNKNOWN')}({key})", served.get(key)
        if versions is not None:
            lines.append(f"{name}: {_format_range(versions)} [usable: {_find_usable(key, versions)}]")
        else:
            lines.append(f"{name}: UNSUPPORTED")
    return lines


def _format_range(versions: range) -> str:
    first, last = versions.start, versions.stop - 1
    return str(first) if first == last else f"{first} to {last}"


def _find_usable(key: int, versions: range) -> str:
    """Return the newest version that broker and tool have in common."""
    ours = APIS[key].versions if key in APIS else versions
    common = [version for version in versions if version in ours]
    return str(common[-1]) if common else "UNSUPPORTED"
