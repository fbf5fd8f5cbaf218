"""ApiVersions: what is served. Source: KIP-511, Kafka's `ApiVersionsRequest`, `ApiVersionManager`."""

import re
from copy import copy
from typing import Final

from coordinator.net.caller import Caller
from protocol.apis import APIS, ApiKey
from protocol.errors import ErrorCode
from protocol.framing import encode_response
from protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_NAMES_SOFTWARE_SINCE: Final = 3
_NAMES_BROKER_SINCE: Final = 5
_NO_NODE: Final = -1
_SHOWS_LEAST_0_SINCE: Final = 4
"""Before, a feature whose lowest level is 0 is not shown as one that is supported (KAFKA-17011)."""
GROUP_VERSION: Final = "group.version"
MAX_GROUP_LEVEL: Final = 1
"""Consumer groups are there."""
TRANSACTION_VERSION: Final = "transaction.version"
MAX_LEVEL: Final = 2
_FEATURES_EPOCH: Final = 0
"""Levels do not change while the daemon runs."""
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def _advertised() -> list[ApiVersion]:
    return [
        ApiVersion(api_key=key, min_version=api.versions.first, max_version=api.versions.last)
        for key, api in sorted(APIS.items())
    ]


class ApiVersionsHandler:
    """Answers ApiVersions."""

    def __init__(self, cluster_id: str, transaction_version: int) -> None:
        """In: the level of transactions, which clients learn as that of a feature (KIP-584)."""
        self._cluster_id = cluster_id
        levels = {GROUP_VERSION: MAX_GROUP_LEVEL, TRANSACTION_VERSION: transaction_version}
        self._response = ApiVersionsResponse(
            error_code=ErrorCode.NONE,
            api_keys=_advertised(),
            supported_features=[
                SupportedFeatureKey(name=GROUP_VERSION, min_version=0, max_version=MAX_GROUP_LEVEL),
                SupportedFeatureKey(name=TRANSACTION_VERSION, min_version=0, max_version=MAX_LEVEL),
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
        self._invalid = ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
        self._other_cluster = ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED, api_keys=[])

    def handle(self, request: ApiVersionsRequest, caller: Caller) -> ApiVersionsResponse:
        """The whole table; an error for a client that cannot name itself, names a cluster or a node but not both
        (KIP-1242), or means others than these."""
        if caller.api_version >= _NAMES_SOFTWARE_SINCE and not (
            _SOFTWARE.fullmatch(request.client_software_name)
            and _SOFTWARE.fullmatch(request.client_software_version)
        ):
            return self._invalid
        if caller.api_version < _NAMES_BROKER_SINCE or (
            request.cluster_id is None and request.node_id == _NO_NODE
        ):
            return self._response if caller.api_version >= _SHOWS_LEAST_0_SINCE else self._older_response
        if request.cluster_id is None or request.node_id == _NO_NODE:
            return self._invalid
        is_meant = (request.cluster_id, request.node_id) == (self._cluster_id, caller.node.node_id)
        return self._response if is_meant else self._other_cluster


def refuse_api_versions(correlation_id: int) -> bytes | bytearray:
    """The answer to a version of ApiVersions that is not served: in the form of v0, with the versions that are."""
    versions = APIS[ApiKey.API_VERSIONS].versions
    only = ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=versions.first, max_version=versions.last)
    response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[only])
    return encode_response(ApiKey.API_VERSIONS, 0, correlation_id, response)
