"""DescribeClientQuotas: there are none. Kafka's tool asks for those of users before it shows their credentials.

Source: Kafka's `ClientQuotasImage.describe`, for the order of errors and their texts.
"""

from typing import Final

from coordinator.net.caller import Caller
from protocol.errors import ErrorCode
from protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

_EXACT: Final = 0
_MATCH_TYPES: Final = {0: "MATCH_TYPE_EXACT", 1: "MATCH_TYPE_DEFAULT", 2: "MATCH_TYPE_SPECIFIED"}
_IP: Final = "ip"
_OF_CLIENTS: Final = frozenset({"user", "client-id"})
_IP_AND_CLIENT: Final = (
    "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
    "filter component."
)


def describe_client_quotas(
    request: DescribeClientQuotasRequest, caller: Caller
) -> DescribeClientQuotasResponse:
    """No entry, or what is wrong with the filter."""
    seen: set[str] = set()
    for component in request.components:
        kind = component.entity_type
        if kind in seen:
            return _refused(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in _OF_CLIENTS and kind != _IP:
            if not kind:
                return _refused("Invalid empty entity type.")
            return _refused(f"Unsupported entity type {kind}", ErrorCode.UNSUPPORTED_VERSION)
        why = _why_no_match(component)
        if why is not None:
            return _refused(why)
        seen.add(kind)
    if _IP in seen and not seen.isdisjoint(_OF_CLIENTS):
        return _refused(_IP_AND_CLIENT)
    return DescribeClientQuotasResponse(error_message="", entries=[])


def _why_no_match(component: ComponentData) -> str | None:
    match_type = _MATCH_TYPES.get(component.match_type)
    if match_type is None:
        return f"Unknown match type {component.match_type}"
    if component.match_type == _EXACT and component.match is None:
        return f"Request specified {match_type}, but set match string to null."
    if component.match_type != _EXACT and component.match is not None:
        return f"Request specified {match_type}, but also specified a match string."
    return None


def _refused(why: str, error: ErrorCode = ErrorCode.INVALID_REQUEST) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=error, error_message=why, entries=None)
