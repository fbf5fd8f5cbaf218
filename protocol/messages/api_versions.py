"""ApiVersions (18): the versions that this broker serves. It is the first request of nearly every client."""

from protocol.apis import ApiKey
from protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    Int64,
    NullableString,
    String,
    request,
    response,
    since,
    struct,
    tagged,
)


@request(ApiKey.API_VERSIONS)
class ApiVersionsRequest:
    """v3 client software (KIP-511) · v5 the expected cluster and broker (KIP-1242)"""

    client_software_name: String = since("3+", default="")
    client_software_version: String = since("3+", default="")
    cluster_id: NullableString = since("5+", default=None)
    node_id: Int32 = since("5+", default=-1)


@struct
class ApiVersion:
    """The versions of one API that this broker serves."""

    api_key: Int16
    min_version: Int16
    max_version: Int16


@struct
class SupportedFeatureKey:
    """A feature that the broker supports, with its minimum and maximum level."""

    name: String
    min_version: Int16
    max_version: Int16


@struct
class FinalizedFeatureKey:
    """A feature with its finalized level in the cluster."""

    name: String
    max_version_level: Int16
    min_version_level: Int16


@response(ApiKey.API_VERSIONS)
class ApiVersionsResponse:
    """v1 throttle time · v3 features in tags (KIP-584) · v4 features with a minimum level of 0 are included"""

    error_code: Int16
    api_keys: Array[ApiVersion]
    throttle_time_ms: Int32 = since("1+", default=0)
    supported_features: Array[SupportedFeatureKey] = tagged(0, "3+", default=[])
    finalized_features_epoch: Int64 = tagged(1, "3+", default=-1)
    finalized_features: Array[FinalizedFeatureKey] = tagged(2, "3+", default=[])
    zk_migration_ready: Bool = tagged(3, "3+", default=False)
