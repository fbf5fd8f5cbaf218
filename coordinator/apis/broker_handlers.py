"""Handlers of APIs about neither groups nor topics: ApiVersions, DescribeCluster, DescribeClientQuotas,
SaslHandshake and SaslAuthenticate, and the ACL APIs without an authorizer.

DescribeCluster lists the live brokers. DescribeClientQuotas finds no quotas; Kafka's tool requests the quotas of
users before it shows their credentials. SaslHandshake and SaslAuthenticate arrive here as ordinary requests of an
admitted client: only a SaslHandshake that starts a re-authentication succeeds.

Source: KIP-511, Kafka's `ApiVersionsRequest`, `ApiVersionManager`; KIP-700, KIP-919,
`KafkaApis.handleDescribeCluster`; `ClientQuotasImage.describe` (order and texts of errors);
`KafkaApis.handleSaslHandshakeRequest`, `handleSaslAuthenticateRequest`; `AclApis`.
"""

import re
from copy import copy
from typing import TYPE_CHECKING, Any, Final

from coordinator.cluster.partition_ownership import PartitionOwnership
from coordinator.network.client_connection import SecuredConnection
from coordinator.network.request_context import RequestContext
from coordinator.topics.topic_authorization import ON_CLUSTER, OPERATIONS_NOT_REQUESTED
from protocol.apis import APIS, ApiKey
from protocol.error_codes import ErrorCode
from protocol.error_response import build_bare_error_response, build_error_response
from protocol.framing import encode_response
from protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
    from protocol.messages.sasl_handshake import SaslHandshakeRequest

_SOFTWARE_NAME_SINCE: Final = 3
_BROKER_ID_SINCE: Final = 5
_NO_NODE: Final = -1
_MIN_LEVEL_0_SINCE: Final = 4
"""Earlier versions omit supported features with a lowest level of 0 (KAFKA-17011)."""
GROUP_VERSION: Final = "group.version"
MAX_GROUP_LEVEL: Final = 1
"""The level with consumer groups."""
TRANSACTION_VERSION: Final = "transaction.version"
MAX_TRANSACTION_LEVEL: Final = 2
_FEATURES_EPOCH: Final = 0
"""Levels do not change while the daemon runs."""
_SOFTWARE_NAME: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class ApiVersionsHandler:
    """Answers ApiVersions."""

    def __init__(self, cluster_id: str, transaction_version: int) -> None:
        """Create the handler. Clients see `transaction_version` as the level of a feature (KIP-584)."""
        self._cluster_id = cluster_id
        levels = {GROUP_VERSION: MAX_GROUP_LEVEL, TRANSACTION_VERSION: transaction_version}
        self._response = ApiVersionsResponse(
            error_code=ErrorCode.NONE,
            api_keys=_list_advertised_versions(),
            supported_features=[
                SupportedFeatureKey(name=GROUP_VERSION, min_version=0, max_version=MAX_GROUP_LEVEL),
                SupportedFeatureKey(
                    name=TRANSACTION_VERSION, min_version=0, max_version=MAX_TRANSACTION_LEVEL
                ),
            ],
            finalized_features_epoch=_FEATURES_EPOCH,
            finalized_features=[
                FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, level in levels.items()
                if level
            ],
        )
        self._older_response = copy(self._response)
        self._older_response.supported_features = []

    def handle(self, request: ApiVersionsRequest, context: RequestContext) -> Any:
        """Answer with the supported versions.

        The response is an error if the client does not identify itself correctly, names only one of cluster and
        node (KIP-1242), or names another cluster or node.
        """
        if context.api_version >= _SOFTWARE_NAME_SINCE and not (
            _SOFTWARE_NAME.fullmatch(request.client_software_name)
            and _SOFTWARE_NAME.fullmatch(request.client_software_version)
        ):
            return build_error_response(request, context.api_version, ErrorCode.INVALID_REQUEST)
        if context.api_version < _BROKER_ID_SINCE or (
            request.cluster_id is None and request.node_id == _NO_NODE
        ):
            return self._response if context.api_version >= _MIN_LEVEL_0_SINCE else self._older_response
        if request.cluster_id is None or request.node_id == _NO_NODE:
            return build_error_response(request, context.api_version, ErrorCode.INVALID_REQUEST)
        if (request.cluster_id, request.node_id) != (self._cluster_id, context.client.node.node_id):
            return build_error_response(request, context.api_version, ErrorCode.REBOOTSTRAP_REQUIRED)
        return self._response


def encode_unsupported_api_versions(correlation_id: int) -> bytes | bytearray:
    """Encode the response to an unsupported version of ApiVersions: the form of v0, with the supported versions."""
    versions = APIS[ApiKey.API_VERSIONS].versions
    only = ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=versions.first, max_version=versions.last)
    response = build_bare_error_response(ApiVersionsRequest, 0, ErrorCode.UNSUPPORTED_VERSION)
    response.api_keys = [only]
    return encode_response(ApiKey.API_VERSIONS, 0, correlation_id, response)


def _list_advertised_versions() -> list[ApiVersion]:
    return [
        ApiVersion(api_key=key, min_version=api.versions.first, max_version=api.versions.last)
        for key, api in sorted(APIS.items())
    ]


_BROKERS: Final = 1
_CONTROLLERS: Final = 2


class DescribeClusterHandler:
    """Answers DescribeCluster."""

    def __init__(self, cluster_id: str, ownership: PartitionOwnership) -> None:
        self._cluster_id = cluster_id
        self._ownership = ownership

    def handle(self, request: DescribeClusterRequest, context: RequestContext) -> Any:
        """Describe the cluster as advertised to this client."""
        if request.endpoint_type != _BROKERS:
            return _refuse_endpoint_type(request, context.api_version)
        nodes = [broker.node_for_client(context.client.node) for broker in self._ownership.brokers.values()]
        with_operations = request.include_cluster_authorized_operations
        return DescribeClusterResponse(
            error_code=ErrorCode.NONE,
            endpoint_type=request.endpoint_type,
            cluster_id=self._cluster_id,
            controller_id=nodes[0].node_id,
            brokers=[
                DescribeClusterBroker(broker_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
                for node in nodes
            ],
            cluster_authorized_operations=ON_CLUSTER if with_operations else OPERATIONS_NOT_REQUESTED,
        )


def _refuse_endpoint_type(request: DescribeClusterRequest, version: int) -> Any:
    if request.endpoint_type == _CONTROLLERS:
        error = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        message = "this endpoint is a broker's, not a controller's"
    else:
        error = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        message = f"unknown endpoint type {request.endpoint_type}"
    return build_error_response(request, version, error, message)


_INVALID: Final = ErrorCode.INVALID_REQUEST
_EXACT: Final = 0
_MATCH_TYPES: Final = {0: "MATCH_TYPE_EXACT", 1: "MATCH_TYPE_DEFAULT", 2: "MATCH_TYPE_SPECIFIED"}
_IP: Final = "ip"
_CLIENT_ENTITIES: Final = frozenset({"user", "client-id"})
_IP_AND_CLIENT: Final = (
    "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
    "filter component."
)


def describe_client_quotas(request: DescribeClientQuotasRequest, context: RequestContext) -> Any:
    """Answer without entries, or with the error of the filter."""
    problem = _find_filter_problem(request)
    if problem is not None:
        return build_error_response(request, context.api_version, *problem)
    return DescribeClientQuotasResponse(error_message="", entries=[])


def _find_filter_problem(request: DescribeClientQuotasRequest) -> tuple[ErrorCode, str] | None:
    seen: set[str] = set()
    for component in request.components:
        kind = component.entity_type
        if kind in seen:
            return _INVALID, f"Entity type {kind} cannot appear more than once in the filter."
        if kind not in _CLIENT_ENTITIES and kind != _IP:
            if not kind:
                return _INVALID, "Invalid empty entity type."
            return ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}"
        why = _why_invalid_component(component)
        if why is not None:
            return _INVALID, why
        seen.add(kind)
    if _IP in seen and not seen.isdisjoint(_CLIENT_ENTITIES):
        return _INVALID, _IP_AND_CLIENT
    return None


def _why_invalid_component(component: ComponentData) -> str | None:
    match_type = _MATCH_TYPES.get(component.match_type)
    if match_type is None:
        return f"Unknown match type {component.match_type}"
    if component.match_type == _EXACT and component.match is None:
        return f"Request specified {match_type}, but set match string to null."
    if component.match_type != _EXACT and component.match is not None:
        return f"Request specified {match_type}, but also specified a match string."
    return None


_ALREADY_AUTHENTICATED: Final = "SaslAuthenticate request received after successful authentication"


def handle_sasl_handshake(request: "SaslHandshakeRequest", context: RequestContext) -> object:
    """Start a re-authentication if the connection allows it; otherwise answer with an error."""
    connection = context.connection
    if isinstance(connection, SecuredConnection):
        answer = connection.begin_reauthentication(request, context)
        if answer is not None:
            return answer
    return build_error_response(request, context.api_version, ErrorCode.ILLEGAL_SASL_STATE)


def handle_sasl_authenticate(request: "SaslAuthenticateRequest", context: RequestContext) -> object:
    """Answer with an error: no token is expected."""
    return build_error_response(
        request, context.api_version, ErrorCode.ILLEGAL_SASL_STATE, _ALREADY_AUTHENTICATED
    )


_NO_AUTHORIZER: Final = "No Authorizer is configured."
_NO_AUTHORIZER_ON_BROKER: Final = "No Authorizer is configured on the broker"


def describe_acls_without_authorizer(request: object, context: RequestContext) -> object:
    """Answer DescribeAcls with SECURITY_DISABLED."""
    error = ErrorCode.SECURITY_DISABLED
    return build_error_response(request, context.api_version, error, _NO_AUTHORIZER_ON_BROKER)


def change_acls_without_authorizer(request: object, context: RequestContext) -> object:
    """Answer CreateAcls or DeleteAcls with SECURITY_DISABLED."""
    return build_error_response(request, context.api_version, ErrorCode.SECURITY_DISABLED, _NO_AUTHORIZER)
