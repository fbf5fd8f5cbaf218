"""DescribeClientQuotas (48): the quotas of users, client ids and IP addresses (KIP-546)."""

from protocol.apis import ApiKey
from protocol.schema import (
    Array,
    Bool,
    Float64,
    Int8,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    String,
    request,
    response,
    since,
    struct,
)


@struct
class ComponentData:
    """A component of a quota entity: user, client-id or ip. Match type 0 means the name in `match`, 1 the
    default, 2 any name."""

    entity_type: String
    match_type: Int8
    match: NullableString


@request(ApiKey.DESCRIBE_CLIENT_QUOTAS)
class DescribeClientQuotasRequest:
    """A request for the quotas of entities with all of these components. `strict` excludes entities with other
    components."""

    components: Array[ComponentData]
    strict: Bool


@struct
class EntityData:
    """A component of an entity with quotas; the name null means the default."""

    entity_type: String
    entity_name: NullableString


@struct
class ValueData:
    """The value of one quota."""

    key: String
    value: Float64


@struct
class EntryData:
    """An entity with its quotas."""

    entity: Array[EntityData]
    values: Array[ValueData]


@response(ApiKey.DESCRIBE_CLIENT_QUOTAS)
class DescribeClientQuotasResponse:
    """The entries are null if there is an error."""

    throttle_time_ms: Int32 = since(default=0)
    error_code: Int16 = since(default=0)
    error_message: NullableString = since(default=None)
    entries: NullableArray[EntryData]
