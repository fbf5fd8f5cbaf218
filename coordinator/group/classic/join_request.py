"""A JoinGroup on its way through the core: the request with what belongs to it."""

from dataclasses import dataclass
from sys import intern
from typing import Final

from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.member import NOT_PROVIDED, Member, Protocols
from coordinator.group.member_name import MemberName
from coordinator.machine.outcome import Context
from protocol.messages.join_group import JoinGroupRequest

REBALANCE_TIMEOUT_VERSION: Final = 1


@dataclass(slots=True)
class Join:
    """A JoinGroup request with what belongs to it: who sends it, and its fields in the form in which a
    member keeps them."""

    request: JoinGroupRequest
    context: Context
    protocols: Protocols
    rebalance_timeout_ms: int

    def update(self, group: ClassicGroup, member: Member) -> None:
        """Take over what a member says of itself when it rejoins."""
        group.update_protocols(member, self.protocols)
        member.rebalance_timeout_ms = self.rebalance_timeout_ms
        member.session_timeout_ms = self.request.session_timeout_ms
        member.connection_id = self.context.connection_id

    def sender(self, member_id: str) -> MemberName:
        """Who sends it, under the member id that it has or gets."""
        return MemberName(
            member_id, self.request.group_instance_id, self.context.client_id, self.context.client_host
        )

    @property
    def reason(self) -> str:
        """Why the client joins, in its own words (KIP-800)."""
        return self.request.reason or NOT_PROVIDED

    @property
    def client_reason(self) -> str:
        """The same; "" when it gives none."""
        return self.request.reason or ""


def read_join(request: JoinGroupRequest, context: Context) -> Join:
    """The request in the core's form. Of protocols with one name the first counts; v0 has no rebalance
    timeout, the session timeout serves for it."""
    protocols: dict[str, bytes] = {}
    for protocol in request.protocols:
        protocols.setdefault(intern(protocol.name), protocol.metadata)
    has_timeout = context.api_version >= REBALANCE_TIMEOUT_VERSION
    return Join(
        request,
        context,
        tuple(protocols.items()),
        request.rebalance_timeout_ms if has_timeout else request.session_timeout_ms,
    )
