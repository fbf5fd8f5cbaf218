"""ListConfigResources: what there is that has configs. Source: KIP-714, KIP-1142, Kafka's
`KafkaApis.handleListConfigResources`.
"""

from collections.abc import Callable, Iterable
from typing import Final

from coordinator.topics.answer import TopicsContext
from coordinator.topics.catalogue import Catalogue
from coordinator.topics.describe_configs import ResourceType
from protocol.errors import ErrorCode
from protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

ONLY_CLIENT_METRICS: Final = 0
"""The version that lists nothing else."""

_NAMES: Final[dict[int, Callable[[Catalogue, TopicsContext], Iterable[str]]]] = {
    ResourceType.TOPIC: lambda catalogue, _: (topic.name for topic in catalogue),
    ResourceType.BROKER: lambda _, context: (str(context.node.node_id),),
    ResourceType.BROKER_LOGGER: lambda _, context: (str(context.node.node_id),),
    # Neither can be given configs here.
    ResourceType.CLIENT_METRICS: lambda _catalogue, _context: (),
    ResourceType.GROUP: lambda _catalogue, _context: (),
}


def answer_list_config_resources(
    catalogue: Catalogue, request: ListConfigResourcesRequest, context: TopicsContext
) -> ListConfigResourcesResponse:
    """All resources of the types that are asked for, each type once; of all types when none is named."""
    asked = request.resource_types or list(_NAMES)
    if context.api_version == ONLY_CLIENT_METRICS:
        asked = [ResourceType.CLIENT_METRICS]
    if not _NAMES.keys() >= set(asked):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=[])
    resources = [
        ConfigResource(resource_name=name, resource_type=kind)
        for kind in dict.fromkeys(asked)
        for name in _NAMES[kind](catalogue, context)
    ]
    return ListConfigResourcesResponse(error_code=ErrorCode.NONE, config_resources=resources)
