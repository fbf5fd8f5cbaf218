"""`kafka-run-class CLASS [ARGUMENTS]`: runs a tool by the name of its Java class. Scripts use it for tools
without a command in older releases: `kafka-run-class.sh kafka.tools.GetOffsetShell --broker-list ...`."""

from collections.abc import Sequence
from typing import Final

from coordinator.cli.kafka_tools import dispatch
from coordinator.cli.kafka_tools.tool_errors import ToolFailure
from coordinator.cli.kafka_tools.tool_options import OptionTable

OPTIONS: Final[OptionTable | None] = None
UNRECOGNIZED_PREFIX: Final = ""
_PACKAGES: Final = ("kafka.", "org.apache.kafka.")
_TOOLS_BY_CLASS: Final = {
    "AclCommand": "kafka-acls",
    "BrokerApiVersionsCommand": "kafka-broker-api-versions",
    "ClusterTool": "kafka-cluster",
    "ConfigCommand": "kafka-configs",
    "ConsoleConsumer": "kafka-console-consumer",
    "ConsoleProducer": "kafka-console-producer",
    "ConsumerGroupCommand": "kafka-consumer-groups",
    "GetOffsetShell": "kafka-get-offsets",
    "MetadataQuorumCommand": "kafka-metadata-quorum",
    "TopicCommand": "kafka-topics",
}
"""The tools by class name without the package, which differs between Kafka's releases."""


def run(arguments: Sequence[str]) -> int:
    """Run the tool of the class that the first argument names. Raises ToolFailure for another class."""
    class_name, *rest = arguments or ("",)
    tool = _TOOLS_BY_CLASS.get(class_name.rpartition(".")[2])
    if tool is None or not class_name.startswith(_PACKAGES):
        raise ToolFailure(
            f"kafka-run-class: {class_name or 'a class'} is not supported, because groupd has no Java. Use "
            f"kafka.tools.NAME or kafka.admin.NAME with one of these names: {', '.join(_TOOLS_BY_CLASS)}"
        )
    return dispatch.main(tool, rest)
