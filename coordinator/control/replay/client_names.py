"""The clients of a recording: one name for each client, with any of its member ids.

The sender of a request is identified by its member id if it has one, and otherwise by its client id and
connection. A name is the client id as a word. Further clients with the same client id get a number.
"""

import re
from typing import Any, Final

from coordinator.control.replay.recording_player import PlayedInput
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

_NON_WORD: Final = re.compile(r"[^A-Za-z0-9_.]+")


class ClientNames:
    """Names of the clients of a recording, learned line by line."""

    def __init__(self) -> None:
        self.member_ids: dict[str, str] = {}
        """The last member id of each client, by name."""
        self._name_by_member: dict[str, str] = {}
        self._name_by_connection: dict[tuple[str, int], str] = {}
        self._waiting: dict[int, str] = {}
        self._client_ids: dict[str, str] = {}
        """The client id of each client, by name."""

    def find_client_id(self, name: str) -> str:
        """Return the client id of a client."""
        return self._client_ids[name]

    def name_sender(self, request: Any, context: Any) -> str:
        """Return the name of the sender of a request."""
        member_id = getattr(request, "member_id", "") or ""
        name = self._name_by_member.get(member_id)
        if name is None:
            place = context.client_id, context.connection_id
            name = self._name_by_connection.get(place)
            if name is None:
                name = self._name_by_connection[place] = self._new_name(context.client_id)
            if member_id:
                self._name_by_member[member_id] = name
        if isinstance(request, JoinGroupRequest):
            self._waiting[context.waiter] = name
        return name

    def on_played(self, played: PlayedInput) -> None:
        """Learn from the outcome of an input, after `name_sender`."""
        for waiter, reply in () if played.outcome is None else played.outcome.replies:
            name = self._waiting.pop(waiter, None)
            if name is not None and isinstance(reply, JoinGroupResponse) and reply.member_id:
                self._name_by_member[reply.member_id] = name
                self.member_ids[name] = reply.member_id

    def add_member_id(self, member_id: str, name: str) -> None:
        """Add a known member id of a client."""
        self._name_by_member[member_id] = name

    def find_name(self, member_id: str) -> str | None:
        """Return the name of a member, or None for an unknown one."""
        return self._name_by_member.get(member_id)

    def _new_name(self, client_id: str) -> str:
        word = _NON_WORD.sub("_", client_id).strip("_") or "client"
        name, number = word, 1
        while name in self._client_ids:
            number += 1
            name = f"{word}_{number}"
        self._client_ids[name] = client_id
        return name
