"""ListConfigResources: what there is that has configs. Source: KIP-714, KIP-1142, Kafka's
`KafkaApis.handleListConfigResources`.
"""

from collections.abc import Callable, Iterable
from typing import Final

from coordinator.machine.outcome import Context, Now
from coordinator.topics.answer import Answer
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.data_plane import DataPlane
from coordinator.topics.describe_configs import ResourceType
from protocol.errors import ErrorCode
from protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

ONLY_CLIENT_METRICS: Final = 0
"""The version that lists nothing else."""

_NAMES: Final[dict[int, Callable[[Catalogue, Context], Iterable[str]]]] = {
    ResourceType.TOPIC: lambda catalogue, _: (topic.name for topic in catalogue),
    ResourceType.BROKER: lambda _, context: (str(context.node.node_id),),
    ResourceType.BROKER_LOGGER: lambda _, context: (str(context.node.node_id),),
    # These cannot be given configs here.
    ResourceType.CLIENT_METRICS: lambda _catalogue, _context: (),
    ResourceType.GROUP: lambda catalogue, _: sorted(catalogue.group_configs.by_group),
}


def answer_list_config_resources(
    plane: DataPlane, request: ListConfigResourcesRequest, context: Context, now: Now
) -> Answer:
    """All resources of the types that are asked for, each type once; of all types when none is named."""
    asked = request.resource_types or list(_NAMES)
    if context.api_version == ONLY_CLIENT_METRICS:
        asked = [ResourceType.CLIENT_METRICS]
    if not _NAMES.keys() >= set(asked):
        return Answer(
            ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=[])
        )
    resources = [
        ConfigResource(resource_name=name, resource_type=kind)
        for kind in dict.fromkeys(asked)
        for name in _NAMES[kind](plane.catalogue, context)
    ]
    return Answer(ListConfigResourcesResponse(error_code=ErrorCode.NONE, config_resources=resources))
