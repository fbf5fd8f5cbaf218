"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources: a right on each topic or group, and
on the cluster for whatever is a broker's. Source: Kafka's `ConfigHelper`, `ConfigAdminManager`,
`ControllerApis.authorizeAlterResource`.
"""

from typing import Any, Final

from coordinator.security.acl import CLUSTER_NAME, Operation, ResourceType
from coordinator.server.authorization.permits import Permits
from coordinator.server.authorization.sift import sift
from coordinator.server.authorization.verdict import PASS, Pass, Refused, Steps, Verdict
from protocol.errors import ErrorCode
from protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

_TOPIC, _BROKER, _BROKER_LOGGER, _CLIENT_METRICS, _GROUP = 2, 4, 8, 16, 32
"""What has configs: Kafka's numbers."""
_WITHOUT_WORDS: Final = (_BROKER, _BROKER_LOGGER)
"""What is refused without a word when it is to be altered."""
_ERRORS: Final = {
    _TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    _GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    _BROKER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    _BROKER_LOGGER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    _CLIENT_METRICS: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}


def _allows(permits: Permits, operation: Operation, resource: Any) -> bool:
    """Whether something may be done to what has configs. Kinds that there are not are refused by who answers."""
    if resource.resource_type not in _ERRORS:
        return True
    if resource.resource_type == _TOPIC:
        return permits.allows(operation, ResourceType.TOPIC, resource.resource_name)
    if resource.resource_type == _GROUP:
        return permits.allows(operation, ResourceType.GROUP, resource.resource_name)
    return permits.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME)


def guard_describe(request: DescribeConfigsRequest, permits: Permits) -> Steps:
    """DESCRIBE_CONFIGS; the refused come last."""

    def refuse(asked: DescribeConfigsResource) -> DescribeConfigsResult:
        error = _ERRORS[asked.resource_type]
        return DescribeConfigsResult(
            error_code=error,
            error_message=error.message,
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
            configs=[],
        )

    def finish(response: DescribeConfigsResponse) -> DescribeConfigsResponse:
        return DescribeConfigsResponse(results=response.results + refused)

    request.resources, refused = yield from sift(
        request.resources, lambda asked: _allows(permits, Operation.DESCRIBE_CONFIGS, asked), refuse
    )
    return Pass(finish) if refused else PASS


def guard_alter(request: AlterConfigsRequest, permits: Permits) -> Steps:
    """ALTER_CONFIGS; each is answered in its place."""
    return (yield from _alter(request, permits, AlterConfigsResponse, nobodys=_BROKER_LOGGER))


def guard_incremental_alter(request: IncrementalAlterConfigsRequest, permits: Permits) -> Steps:
    """The same."""
    return (yield from _alter(request, permits, IncrementalAlterConfigsResponse))


def _alter(request: Any, permits: Permits, response_class: type[Any], *, nobodys: int | None = None) -> Steps:
    """In: the kind of resource that nobody can alter so, which is what is told to everybody."""
    answers: list[AlterConfigsResourceResponse | None] = []
    allowed: list[Any] = []
    for asked in request.resources:
        if asked.resource_type == nobodys or _allows(permits, Operation.ALTER_CONFIGS, asked):
            allowed.append(asked)
            answers.append(None)
        else:
            answers.append(_not_altered(asked))
        yield
    if len(allowed) == len(answers):
        return PASS

    def finish(response: Any) -> Any:
        found = iter(response.responses)
        return response_class(responses=[answer or next(found) for answer in answers])

    request.resources = allowed
    return Pass(finish)


def _not_altered(asked: Any) -> AlterConfigsResourceResponse:
    error = _ERRORS[asked.resource_type]
    return AlterConfigsResourceResponse(
        error_code=error,
        error_message=None if asked.resource_type in _WITHOUT_WORDS else error.message,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )


def guard_list_resources(request: ListConfigResourcesRequest, permits: Permits) -> Verdict:
    """DESCRIBE_CONFIGS on the cluster."""
    if permits.allows_on_cluster(Operation.DESCRIBE_CONFIGS):
        return PASS
    return Refused(
        ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, config_resources=[])
    )
