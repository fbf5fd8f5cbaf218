"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: READ on the group, before anybody looks whether there is one."""

from typing import Any, Final

from coordinator.group.classic.responses import join_error
from coordinator.group.refusal import error_response
from coordinator.security.acl import Operation, ResourceType
from coordinator.server.authorization.permits import Permits
from coordinator.server.authorization.verdict import PASS, Pass, Refused, Verdict
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.sync_group import SyncGroupRequest

_PROTOCOL_SINCE: Final = 5
"""The version of SyncGroup that has to say which protocol."""


def guard_member(request: Any, permits: Permits) -> Verdict:
    """What a member of a group asks."""
    if permits.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return PASS
    return Refused(error_response(request, permits.api_version, ErrorCode.GROUP_AUTHORIZATION_FAILED))


def guard_join(request: JoinGroupRequest, permits: Permits) -> Verdict:
    """JoinGroup: unlike other refusals of it, this one does not name the member. It may have the regular
    expressions of a group of the newer protocol looked up."""
    if permits.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        return Pass(arguments=(permits.may_describe,))
    return Refused(join_error(ErrorCode.GROUP_AUTHORIZATION_FAILED, "", permits.api_version))


def guard_sync(request: SyncGroupRequest, permits: Permits) -> Verdict:
    """SyncGroup: one without its protocol is told so first."""
    if permits.api_version >= _PROTOCOL_SINCE and None in (request.protocol_type, request.protocol_name):
        return PASS
    return guard_member(request, permits)
