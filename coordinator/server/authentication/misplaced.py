"""What a request is answered that comes where a token is due: its own answer, with ILLEGAL_SASL_STATE.

Source: `getErrorResponse` of Kafka's request classes. Where an answer has errors only in its lists, one for each
thing that was asked about, the lists are empty here.
"""

from typing import Any, Final

from msgspec import NODEFAULT

from protocol.apis import APIS, ApiKey
from protocol.errors import ErrorCode
from protocol.framing import encode_response
from protocol.kinds import ZERO_UUID
from protocol.schema import FieldLayout, layout

_EMPTY: Final[dict[str, Any]] = {
    "bool": False,
    "float64": 0.0,
    "uuid": ZERO_UUID,
    "string": "",
    "bytes": b"",
    "records": b"",
}
_ABSENT_NUMBERS: Final = ("producer_epoch",)
"""What is -1 in an error."""
_SAYING_WHY: Final = (
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
)
"""What is answered in words as well."""


def why_misplaced(key: int) -> str:
    """What is wrong with a request where a token is due."""
    return f"Unexpected Kafka request of type {ApiKey(key).name} during SASL authentication."


def misplaced_answer(key: int, version: int, correlation_id: int) -> bytes:
    """The frame of an answer in the form of that API, size included."""
    response = APIS[key].response
    values = {each.name: _value(each) for each in layout(response, version)}
    if key in _SAYING_WHY:
        values["error_message"] = why_misplaced(key)
    return bytes(encode_response(key, version, correlation_id, response(**values)))


def _value(field: FieldLayout) -> Any:
    if field.name == "error_code":
        return int(ErrorCode.ILLEGAL_SASL_STATE)
    if field.name in _ABSENT_NUMBERS:
        return -1
    if field.default is not NODEFAULT and (field.default is not None or field.type.nullable):
        return field.default  # one that is null may be that of later versions alone
    if field.type.nullable:
        return None
    if field.type.kind.name == "array":
        return []
    return _EMPTY.get(field.type.kind.name, 0)
