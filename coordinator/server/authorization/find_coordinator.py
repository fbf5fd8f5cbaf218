"""FindCoordinator: DESCRIBE on each group, or transactional id, that is asked for."""

from typing import Final

from coordinator.security.acl import Operation, ResourceType
from coordinator.server.authorization.permits import Permits
from coordinator.server.authorization.verdict import PASS, Pass, Refused, Steps
from coordinator.server.handlers.find_coordinator import CoordinatorType
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

_SEVERAL_KEYS_SINCE: Final = 4
_KINDS: Final = {
    int(CoordinatorType.GROUP): (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    int(CoordinatorType.TRANSACTION): (
        ResourceType.TRANSACTIONAL_ID,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
}


def guard_find_coordinator(request: FindCoordinatorRequest, permits: Permits) -> Steps:
    """One key up to v3; from then on several, each of which is answered in its place."""
    if request.key_type not in _KINDS:
        return PASS  # what else there is is not served
    kind, error = _KINDS[request.key_type]
    if permits.api_version < _SEVERAL_KEYS_SINCE:
        if permits.allows(Operation.DESCRIBE, kind, request.key):
            return PASS
        return Refused(
            FindCoordinatorResponse(
                error_code=error, error_message=error.message, node_id=-1, host="", port=-1
            )
        )
    answers: list[Coordinator | None] = []
    allowed: list[str] = []
    for key in request.coordinator_keys:
        if permits.allows(Operation.DESCRIBE, kind, key):
            allowed.append(key)
            answers.append(None)
        else:
            answers.append(_refused(key, error))
        yield
    if len(allowed) == len(answers):
        return PASS

    def finish(response: FindCoordinatorResponse) -> FindCoordinatorResponse:
        found = iter(response.coordinators)
        return FindCoordinatorResponse(coordinators=[answer or next(found) for answer in answers])

    request.coordinator_keys = allowed
    return Pass(finish) if allowed else Refused(finish(FindCoordinatorResponse()))


def _refused(key: str, error: ErrorCode) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message="")
