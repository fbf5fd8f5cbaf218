"""A request to the group core in a test, its response and its client."""

from dataclasses import dataclass
from typing import TypeVar

from coordinator.group.event_details import MemberName
from protocol.error_codes import ErrorCode
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.sync_group import SyncGroupResponse

T = TypeVar("T")
WHO = ("client", "/10.0.0.1")
"""The default client id and host."""


@dataclass(eq=False)
class Ask:
    """A request that was sent; `reply` is None while it is parked."""

    waiter: int
    reply: object | None = None

    def answer(self, kind: type[T]) -> T:
        """Return the reply. Requires a reply of the class `kind`."""
        assert isinstance(self.reply, kind), self.reply
        return self.reply

    @property
    def is_parked(self) -> bool:
        return self.reply is None

    @property
    def error(self) -> ErrorCode:
        """The error at the top level of the reply."""
        assert self.reply is not None, "parked"
        return ErrorCode(self.reply.error_code)  # type: ignore[attr-defined]

    @property
    def joined(self) -> JoinGroupResponse:
        return self.answer(JoinGroupResponse)

    @property
    def synced(self) -> SyncGroupResponse:
        return self.answer(SyncGroupResponse)


def named(member_id: str, instance: str | None = None, client_id: str = WHO[0]) -> MemberName:
    """Return the name of a member in events."""
    return MemberName(member_id, instance, client_id, WHO[1])
